"""Rows on debatable questions, with evaluators and detectors whose numbers are made up so that they can be checked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nfqa.data.records import Answer, PartialAnswer, Question, QuestionSet
from nfqa.kernels.perplexity import Settings
from nfqa.lab.experiments import (
    answer_length,
    awareness,
    debate_systems,
    diversity,
    prompt_effect,
)
from nfqa.lab.results import Row
from nfqa.models.evaluator import TargetLoss
from nfqa.models.restated import Restated

DRAWN: dict[str, Any] = {"resamples": 60, "seed": 0}
VIEWS = (
    "Trains are quieter than cars. They wake nobody at night in the valley.",
    "Fares pay for bridges. The council has no other money for repairs.",
    "Farmers lose meadows to the track. Cows need grass near their stable.",
    "Tourists come by rail in winter. Hotels hire more cooks and guides.",
    "Tunnels flood every spring. Pumps cost more than anyone admits.",
)


class CopyEvaluator:
    """Two nats a word that the answer lacks, half a nat a word that it has; `length` is taken off for each word of the
    answer, as no evaluator should do. A token is a word."""

    def __init__(self, *, length: float = 0.0, reads: bool = True) -> None:
        self.spec = SimpleNamespace(kind="embedded", name="copy")
        self.identity = f"embedded:copy|length:{length}|reads:{reads}"
        self._length, self._reads = length, reads

    def score(self, items: Sequence[Restated], settings: Settings) -> list[list[TargetLoss]]:
        found = []
        for item in items:
            had = set(item.context.split()) if self._reads else set()
            context = len(item.context.split()) + (1 if settings.generation_prompt else 0)
            found.append([self._lose(target.split(), had, context) for target in item.targets])
        return found

    def _lose(self, words: list[str], had: set[str], context: int) -> TargetLoss:
        nats = sum(0.5 if word in had else 2.0 for word in words) - self._length * context * len(words)
        return TargetLoss(nats, len(words), context + len(words))


def make_claim(number: int, views: Sequence[str] = VIEWS) -> Question:
    points = tuple(
        PartialAnswer(str(i), *(f"{part}{number}" for part in text.split(". ", 1)), "for" if i % 2 else "against")
        for i, text in enumerate(views)
    )
    return Question(f"Should line {number} be built?", id=f"c{number}", partial_answers=points)


def make_answered(values: Sequence[Sequence[float | None]]) -> QuestionSet:
    """Questions whose one partial answer has ten words; an answer holds as many of them as said, in tenths."""
    questions = []
    for q, row in enumerate(values):
        words = [f"w{q}x{i}" for i in range(10)]
        answers = tuple(
            Answer(f"s{s}", " ".join([*words[: round(10 * share)], f"end{s}"]), system=f"s{s}")
            for s, share in enumerate(row)
            if share is not None
        )
        points = (PartialAnswer("0", " ".join(words)),)
        questions.append(Question(f"question {q}?", answers, id=f"q{q}", partial_answers=points))
    return QuestionSet("made", tuple(questions), "measured", "0" * 64)


def make_column(values: Sequence[Sequence[float]], *, name: str = "x", lower: bool = False) -> diversity.Column:
    table = np.array(values, dtype=float)
    systems = tuple(f"s{i}" for i in range(table.shape[1]))
    return diversity.Column(name, systems, table, "made", ("k:k",), lower_is_better=lower, dropped={})


def find(rows: Sequence[Row], system: str, metric: str) -> Row:
    (row,) = [row for row in rows if (row.system, row.metric) == (system, metric)]
    return row


def make_dataset(count: int = 4) -> QuestionSet:
    return QuestionSet("made", tuple(make_claim(n) for n in range(count)), "measured", "0" * 64)


class FakeLab:
    """What the functions need of a lab: titles and leaves."""

    def __init__(self, leaves: Sequence[Any] = (), role: str = "embedded:small") -> None:
        self._leaves = list(leaves)
        self.roles = {"evaluator": role}

    def leaves(self, _name: str = "") -> list[Any]:
        return self._leaves

    def title(self, system: str) -> str:
        return system


# --- P.D. of systems ---------------------------------------------------------------------------------------------


def test_an_answer_that_is_missing_leaves_a_gap_and_moves_no_other() -> None:
    dataset = make_answered([[0.0, 1.0], [None, 0.5], [1.0, None]])
    column = diversity.measure_systems(CopyEvaluator(), "copy", dataset)  # type: ignore[arg-type]
    # ten words at 2 nats: exp(20/10); all had: exp(5/10); half had: exp(12.5/10)
    full, half, none = math.exp(0.5), math.exp(1.25), math.exp(2.0)
    expected = [[none, full], [np.nan, half], [full, np.nan]]
    np.testing.assert_allclose(column.values, expected)
    assert column.name == "pd_paper_copy"
    assert column.dropped == {"no_answer": 2}
    rows = diversity.make_column_rows(dataset, column, **DRAWN)
    assert rows[0].value == pytest.approx((none + full) / 2)
    assert (rows[0].n, rows[0].n_dropped, rows[0].dropped_because) == (2, 1, {"no_answer": 2})
    assert "agg:sum|per:target" in rows[0].signature
    assert "embedded:copy" in rows[0].signature


def test_only_an_evaluator_that_is_not_embedded_takes_another_wrapping() -> None:
    embedded: Any = SimpleNamespace(identity="embedded:small@1")
    other: Any = SimpleNamespace(identity="hf:gpt2@1")
    assert diversity.find_wrapping(embedded, "plain") == "chat"
    assert diversity.find_wrapping(other, "plain") == "plain"


@pytest.mark.parametrize(("value", "text"), [(None, "undefined"), (2345.6, "2,346"), (-0.012345, "-0.0123")])
def test_numbers_in_sentences(value: float | None, text: str) -> None:
    assert diversity.say_number(value) == text


def test_words_are_counted_and_cut() -> None:
    assert diversity.cut_words("a  b\nc d", 3) == "a b c"
    assert diversity.cut_words("a  b", None) == "a  b"
    assert diversity.cut_words(None, 3) is None
    column = diversity.measure_words(make_answered([[0.2, None], [0.3, 0.1]]))
    np.testing.assert_array_equal(column.values, [[3, np.nan], [4, 2]])


# --- places ------------------------------------------------------------------------------------------------------


def test_places_count_from_the_best_and_ties_share_their_mean() -> None:
    np.testing.assert_array_equal(debate_systems.rank_systems(np.array([0.5, 0.9, 0.5, 0.1])), [2.5, 1, 2.5, 4])


def test_weights_move_the_order_from_one_measure_to_the_other() -> None:
    dataset = make_answered([[0, 0, 0]] * 3)
    # Lower P.D. is better: s0 is first by P.D.; by D.A. s2 is.
    diverse = make_column([[1, 2, 6]] * 3, name="pd", lower=True)
    aware = make_column([[0, 0.4, 1]] * 3, name="da")
    rows = debate_systems.rank_weighted(dataset, diverse, aware, **DRAWN)
    assert [find(rows, f"s{i}", "rank_k_100").value for i in range(3)] == [1, 2, 3]
    assert [find(rows, f"s{i}", "rank_k_000").value for i in range(3)] == [3, 2, 1]
    # k = 0.5: Z(-P.D.) = (2, 1, -3)/sd 2.160, Z(D.A.) = (-0.467, -0.067, 0.533)/sd 0.411: sums -0.210, 0.301, -0.092
    assert [find(rows, f"s{i}", "rank_k_050").value for i in range(3)] == [3, 1, 2]
    row = find(rows, "s0", "rank_k_100")
    assert (row.ci_low, row.ci_high) == (1, 1)  # all questions are alike
    assert {row.metric for row in rows} == {f"rank_k_{k:03d}" for k in (0, 25, 50, 75, 100)}


def test_a_measure_that_is_equal_for_all_systems_counts_for_none() -> None:
    np.testing.assert_array_equal(
        debate_systems.weigh_systems(np.array([3.0, 1.0]), np.array([0.7, 0.7]), 0.5), [0.5, -0.5]
    )


def test_normalised_ranks_run_from_first_in_all_to_last_in_all() -> None:
    dataset = make_answered([[0, 0, 0]] * 2)
    columns = [make_column([[1, 2, 3]] * 2, lower=True), make_column([[1, 5, 4]] * 2, lower=True)]
    rows = debate_systems.rank_normalised(dataset, columns, "normalised_rank", **DRAWN)
    # places 1 and 1; 2 and 3; 3 and 2: means 1, 2.5, 2.5, less one, by two
    assert [row.value for row in rows] == [0.0, 0.75, 0.75]


def test_correlation_over_systems_puts_the_better_ends_together() -> None:
    dataset = make_answered([[0, 0, 0]] * 2)
    diverse, aware = make_column([[1, 2, 3]] * 2, name="pd", lower=True), make_column([[0.9, 0.5, 0.1]] * 2, name="da")
    rows = debate_systems.correlate_systems(dataset, diverse, aware, **DRAWN)
    assert find(rows, "over_systems", "spearman_pd_da").value == pytest.approx(1.0)
    level = make_column([[1, 1, 1]] * 2, name="level")
    undefined = find(
        debate_systems.correlate_systems(dataset, diverse, level, **DRAWN), "over_systems", "kendall_pd_level"
    )
    assert (undefined.value, undefined.ci_low) == (None, None)


def test_intervals_come_from_questions_and_are_the_same_each_time() -> None:
    column = make_column([[0, 1], [1, 0], [1, 0], [0, 0]])
    first = debate_systems.bootstrap_means([column], lambda means: means[0], **DRAWN)
    again = debate_systems.bootstrap_means([column], lambda means: means[0], **DRAWN)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_allclose(first[0], [0.5, 0.25])
    assert (first[1] < first[0]).all()
    assert (first[0] < first[2]).all()


def test_columns_of_different_systems_are_refused() -> None:
    with pytest.raises(ValueError, match="a, b have different questions or systems"):
        debate_systems.bootstrap_means(
            [make_column([[1, 2]], name="a"), make_column([[1, 2, 3]], name="b")], lambda means: means[0], **DRAWN
        )


def test_a_detector_says_one_thing_an_answer() -> None:
    dataset = make_answered([[0.1, None], [0.2, 0.3]])
    found = awareness.Detection("da", lambda texts: np.array([1.0, np.nan, 0.0]), "made", "k:k").measure(dataset)
    np.testing.assert_array_equal(found.values, [[1, np.nan], [np.nan, 0]])
    assert found.dropped == {"no_answer": 1, "no_verdict": 1}
    short = awareness.Detection("da", lambda texts: np.zeros(2), "made", "k:k")
    with pytest.raises(ValueError, match=r"da: \(2,\) verdicts for 3 answers; expected one each"):
        short.measure(dataset)


@pytest.mark.parametrize(("spec", "name"), [("embedded:tiny", "tiny"), ("hf:gpt2", "role"), ("path:/x", "role")])
def test_the_evaluator_roles_name_in_rows(spec: str, name: str) -> None:
    assert debate_systems.name_role(FakeLab(role=spec)) == name  # type: ignore[arg-type]


# --- prompts, length, counts -------------------------------------------------------------------------------------


def detect_nothing(texts: Sequence[str]) -> np.ndarray:
    return np.array([float("more" in text) for text in texts])


def test_a_set_whose_claims_have_too_few_perspectives_is_refused() -> None:
    few = QuestionSet("few", (make_claim(0, VIEWS[:2]),), "measured", "0" * 64)
    with pytest.raises(ValueError, match="few: no claim has 3 perspectives; use a larger set"):
        prompt_effect.choose_claims(few, count=None, words=None)


def test_stand_ins_hold_ever_more_and_are_named_so() -> None:
    claims = prompt_effect.choose_claims(make_dataset(), count=3, words=None)
    answered = prompt_effect.compose_stand_ins(claims)
    assert answered.families == (("composed_one_view", "composed_all_views", "composed_all_explained"),)
    question = answered.dataset.questions[0]
    one, views, explained = (answer.text for answer in question.answers)
    assert one == question.partial_answers[0].point_of_view
    assert all(part.point_of_view in views for part in question.partial_answers)
    assert explained.split() == " ".join(part.text for part in question.partial_answers).split()
    detection = awareness.Detection("da_detector", detect_nothing, "made", "k:k")
    rows = prompt_effect.measure_levels(answered, {"copy": CopyEvaluator()}, detection, **DRAWN)  # type: ignore[dict-item]
    change = find(rows, "composed_all_explained", "pd_paper_copy_less_first")
    assert change.value < 0  # type: ignore[operator]
    assert change.n == 3
    said = prompt_effect.describe_levels(FakeLab(), rows)  # type: ignore[arg-type]
    assert said[0].startswith("No generator is given, so that no prompt was tried")
    assert any(line.startswith("pd_paper_copy, composed_all_explained: falls against the first level") for line in said)


def test_generators_answer_under_each_prompt_and_what_they_do_not_give_is_counted() -> None:
    asked: list[str] = []

    def write(prompts: Sequence[str], *, seed: int) -> list[str | None]:
        asked.extend(prompts)
        return [None if prompt.endswith("detailed|Should line 0 be built?") else f"to {prompt}" for prompt in prompts]

    generator = SimpleNamespace(write=write, identity="made", decoding=SimpleNamespace(signature="greedy"))
    prompts = SimpleNamespace(render=lambda name, question: f"{name}|{question}", signature=lambda name: f"own:{name}")
    lab: Any = SimpleNamespace(generators=[generator, generator], read_prompts=lambda name: prompts)
    claims = prompt_effect.choose_claims(make_dataset(2), count=None, words=None)
    answered = prompt_effect.write_answers(lab, claims)
    assert answered is not None
    assert answered.families[1] == tuple(f"prompt_{level}_generator_2" for level in prompt_effect.PROMPTS)
    assert answered.missing == 2
    assert len(asked) == 12
    (zero,) = [question for question in answered.dataset.questions if question.id == "c0"]
    assert "prompt_detailed_generator_1" not in zero.answer_of
    assert zero.answer_of["prompt_basic_generator_1"] == "to answer_basic|Should line 0 be built?"
    lab.generators = []
    assert prompt_effect.write_answers(lab, claims) is None


def test_our_three_prompts_are_read_and_ask_for_more_each() -> None:
    from nfqa.data.paths import find_root
    from nfqa.judge.prompts import read_prompt_set

    own = read_prompt_set(find_root(), "own")
    texts = [own.render(f"answer_{level}", question="Why?") for level in prompt_effect.PROMPTS]
    assert [len(text.split()) for text in texts] == sorted(len(text.split()) for text in texts)
    assert not re.search("disagree|view", texts[0])  # the basic prompt gives no hint
    assert all("<question>\nWhy?\n</question>" in text for text in texts)


def test_cut_answers_and_how_far_systems_stand_apart() -> None:
    dataset = make_answered([[1.0, 0.5]] * 3)
    detection = awareness.Detection("da_detector", lambda texts: np.ones(len(texts)), "made", "k:k")
    table = answer_length.measure_lengths(
        dataset, {"copy": CopyEvaluator()}, detection, lengths=(5, None), variants=["paper"]  # type: ignore[dict-item]
    )  # fmt: skip
    rows = answer_length.make_length_rows(dataset, table, **DRAWN)
    assert find(rows, "answers_cut", "mean_words_at_5_words").value == 5
    assert find(rows, "answers_cut", "pd_paper_copy_at_5_words").value == pytest.approx(math.exp(1.25))
    assert find(rows, "answers_cut", "apart_pd_paper_copy_at_5_words").value == 0
    apart = find(rows, "answers_cut", "apart_pd_paper_copy_at_whole").value
    assert apart == pytest.approx(np.std([math.exp(0.5), math.exp(1.25)], ddof=1))
    alone = replace(dataset, questions=tuple(replace(q, partial_answers=()) for q in dataset.questions))
    only = answer_length.measure_lengths(alone, {"copy": CopyEvaluator()}, detection, lengths=(5,))  # type: ignore[dict-item]
    assert [column.name for column in only[5]] == ["mean_words", "da_detector"]
    over = answer_length.correlate_length(dataset, table[None], **DRAWN)
    assert find(over, "over_systems", "spearman_pd_paper_copy_mean_words").value == pytest.approx(1.0)
