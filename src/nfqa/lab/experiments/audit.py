"""Counts of everything irregular in the data, and how each is treated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nfqa.data.records import Question, QuestionSet
from nfqa.lab.results import Row
from nfqa.metrics.references import COMPOSITIONS, ShortRule


@dataclass(frozen=True)
class Check:
    """One kind of irregularity: what is counted, of how many, and the named option that treats it."""

    metric: str
    question: str
    treatment: str
    count: Callable[[QuestionSet], tuple[int, int]]  # (found, of)


def audit_dataset(dataset: QuestionSet) -> list[Row]:
    """One row a check; `n` is what it was counted among, the signature names the treatment."""
    checks = [*_CHECKS, *_make_list_checks()] if not dataset.questions[0].references else [*_CHECKS, *_GIVEN_CHECKS]
    rows = []
    for check in checks:
        found, among = check.count(dataset)
        rows.append(
            Row(
                system="audit",
                dataset=dataset.name,
                metric=check.metric,
                value=float(found),
                n=among,
                signature=f"audit|{check.treatment}|v1",
                kernels=("nfqa.lab.experiments.audit:audit_dataset",),
                origin=dataset.origin,
            )
        )
    return rows


def describe_checks() -> dict[str, tuple[str, str]]:
    """For each metric name, what is counted in words and the treatment."""
    return {
        check.metric: (check.question, check.treatment) for check in (*_CHECKS, *_make_list_checks(), *_GIVEN_CHECKS)
    }


def describe_audit(rows: Sequence[Row]) -> list[str]:
    """A sentence for each irregularity that was found, with its share."""
    words = describe_checks()
    return [
        f"{row.dataset}: {words[row.metric][0]}: {row.value:.0f} of {row.n}. Treated by {words[row.metric][1]}."
        for row in rows
        if row.value
    ]


def _count_questions(test: Callable[[Question], bool]) -> Callable[[QuestionSet], tuple[int, int]]:
    return lambda dataset: (sum(test(question) for question in dataset.questions), len(dataset.questions))


def _is_sorted(question: Question) -> bool:
    return list(question.labels) == sorted(question.labels, reverse=True) and len(set(question.labels)) > 1


def _count_repeats(dataset: QuestionSet) -> tuple[int, int]:
    texts = [[answer.text for answer in question.answers] for question in dataset.questions]
    return sum(len(part) - len(set(part)) for part in texts), sum(map(len, texts))


def _count_conflicts(dataset: QuestionSet) -> tuple[int, int]:
    found = among = 0
    for question in dataset.questions:
        labels = defaultdict(set)
        for answer in question.answers:
            labels[answer.text].add(answer.label)
        repeated = [t for t, c in Counter(a.text for a in question.answers).items() if c > 1]
        among += len(repeated)
        found += sum(len(labels[text]) > 1 for text in repeated)
    return found, among


def _collect_shared(dataset: QuestionSet) -> tuple[list[set[int]], int]:
    """The label sets of passages that stand under several questions, and how many passages there are."""
    places = defaultdict(set)
    for number, question in enumerate(dataset.questions):
        for answer in question.answers:
            places[answer.text].add((number, answer.label))
    shared = [{label for _, label in spots} for spots in places.values() if len({n for n, _ in spots}) > 1]
    return shared, len(places)


def _count_shared(dataset: QuestionSet) -> tuple[int, int]:
    shared, total = _collect_shared(dataset)
    return len(shared), total


def _count_shared_conflicts(dataset: QuestionSet) -> tuple[int, int]:
    shared, _ = _collect_shared(dataset)
    return sum(len(labels) > 1 for labels in shared), len(shared)


def _count_short_texts(dataset: QuestionSet) -> tuple[int, int]:
    texts = [answer.text for question in dataset.questions for answer in question.answers]
    return sum(len(text.split()) < 4 for text in texts), len(texts)


def _has_tied_best(question: Question) -> bool:
    return question.labels.count(max(question.labels)) > 1


def _has_tied_worst(question: Question) -> bool:
    return question.labels.count(min(question.labels)) > 1


def _has_twin_references(question: Question) -> bool:
    return len({reference.text for reference in question.references}) < len(question.references)


def _fills(question: Question, composition: Sequence[int]) -> bool:
    have, wanted = Counter(question.labels), Counter(composition)
    return all(have[grade] >= count for grade, count in wanted.items())


def _make_list_checks() -> list[Check]:
    rule: ShortRule = "partial"
    return [
        Check(
            f"cannot_fill_{name}",
            f"questions with too few answers of a grade for the list {name[1:]}",
            f"short:{rule} (or drop)",
            _count_questions(lambda question, grades=grades: not _fills(question, grades)),  # type: ignore[misc]
        )
        for name, grades in COMPOSITIONS.items()
    ]


_CHECKS = (
    Check(
        "sorted_by_label",
        "questions whose answers stand in order of their labels",
        "ties:expected or tau-b, never the file's order",
        _count_questions(_is_sorted),
    ),
    Check(
        "one_label_only",
        "questions whose answers all have one label",
        "undefined:drop (or zero)",
        _count_questions(lambda question: len(set(question.labels)) == 1),
    ),
    Check(
        "repeated_passages",
        "answers that repeat another answer to the question",
        "repeats:keep (or first)",
        _count_repeats,
    ),
    Check(
        "repeated_with_other_label",
        "passages repeated inside a question with different labels",
        "repeats:keep (or drop_conflicting)",
        _count_conflicts,
    ),
    Check(
        "shared_passages",
        "passages that stand under several questions",
        "keyed by question and id, never by text",
        _count_shared,
    ),
    Check(
        "shared_with_other_label",
        "shared passages whose label differs between questions",
        "keyed by question and id, never by text",
        _count_shared_conflicts,
    ),
    Check(
        "under_four_words",
        "answers of fewer than four words",
        "kept; ROUGE-2 and BLEU are 0 or near it",
        _count_short_texts,
    ),
)
_GIVEN_CHECKS = (
    Check(
        "tied_best_label",
        "questions with several best-labelled answers",
        "any of them counts as best",
        _count_questions(_has_tied_best),
    ),
    Check(
        "tied_worst_label",
        "questions with several worst-labelled answers",
        "any of them counts as worst",
        _count_questions(_has_tied_worst),
    ),
    Check(
        "twin_references",
        "questions with two equal references",
        "kept; the two rank alike",
        _count_questions(_has_twin_references),
    ),
)
