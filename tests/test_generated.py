"""Reference lists for one known answer and for none, with made-up writers."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

import pytest
from notebook_cells import RuleModel

from nfqa.files.records import Answer, Question, QuestionSet
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.metrics.references import Draw
from nfqa.models.chat import Decoding, Request
from nfqa.models.roles import parse_role
from reproduction.studies.generated import Truth, split_answers, write_lists, write_references


def make_question(answers: dict[str, int], text: str = "q?") -> Question:
    return Question(text, tuple(Answer(f"a{i}", words, label) for i, (words, label) in enumerate(answers.items())))


def test_a_question_without_answers_has_no_list() -> None:
    assert write([Question("q?", ())], open_writer("x"))[0].dropped == "no_reference"


class Prompts:
    """A set of prompts that names itself."""

    def render(self, name: str, **fields: str) -> str:
        return f"{name}: {fields}"

    def signature(self, name: str) -> str:
        return f"made_up:{name}@0"


def open_writer(name: str, broken: str = "no prompt", reply: str = "") -> Asker:
    """A made-up model: its best answer names the prompt's kind and the seed, its lower ones name the writer."""
    spec = parse_role("generator", f"openai:{name}")

    def answer(request: Request) -> str:
        if broken in request.prompt:
            return ""
        if request.prompt.startswith("write_lower") and not reply:
            digest = hashlib.sha256(request.prompt.encode()).hexdigest()[:6]
            return "\n".join(f"Answer{i}: {name} {3 - i} {digest}" for i in (1, 2, 3))
        return reply or f" best by {name} under {request.seed} from {request.prompt} "

    return Asker(spec, lambda _: RuleModel(spec, answer), Journal(), Decoding())


def write(questions: list[Question], *writers: Asker, truth: Truth = "one", seed: int = 0) -> list[Draw]:
    return write_lists(questions, writers, Prompts(), truth=truth, seed=seed)


QUESTIONS = [make_question({"good": 3, f"bad {i}": 0}, f"question {i}?") for i in range(30)]


def test_the_first_writes_the_best_answer_and_each_grade_is_drawn_from_the_others() -> None:
    writers = [open_writer(name) for name in ("first", *"ABC")]
    draws = write(QUESTIONS, *writers)
    counts: Counter = Counter()
    for draw in draws:
        assert re.match(r"best by first under \d+ from write_best: {'question': 'question ", draw.best.text)
        assert "'truth': 'good'" in draw.best.text
        assert [answer.label for answer in draw.references] == [3, 2, 1, 0]
        assert [answer.text.split()[1] for answer in draw.references[1:]] == ["2", "1", "0"]
        counts.update(answer.text[0] for answer in draw.references[1:])
        assert [answer.label for answer in draw.candidates] == [0]  # the truth has left
    assert set(counts) == {*"ABC"}  # never the first
    assert min(counts.values()) > 15  # of 90, 30 expected each
    assert draws == write(QUESTIONS, *writers)
    other = write(QUESTIONS, *writers, seed=1)
    assert [d.references[1].text[0] for d in draws] != [d.references[1].text[0] for d in other]


def test_one_writer_alone_writes_all_grades() -> None:
    (draw,) = write(QUESTIONS[:1], open_writer("A"))
    assert draw.best.text.startswith("best by A")
    assert [answer.text[0] for answer in draw.references[1:]] == ["A"] * 3


def test_a_missing_or_unreadable_list_drops_the_question_with_the_reason() -> None:
    whole, no_best = write(QUESTIONS[:2], open_writer("A", broken="question 1?"))
    assert (whole.dropped, no_best.dropped) == (None, "no_generated_list")
    assert (no_best.references, no_best.candidates) == ((), ())
    for writer in (open_writer("A", broken="write_lower"), open_writer("A", reply="  ")):
        assert write(QUESTIONS[:1], writer, truth="none")[0].dropped == "no_generated_list"


@pytest.mark.parametrize(
    "text",
    [
        "Answer1: one Answer2: two Answer3: three",
        "Sure! Here they are.\n\nAnswer 1: one\n\nAnswer 2: two\n\nAnswer 3: three",
        "**Answer 1**: one\n**Answer 2**: two\n**Answer 3**: three",
        "[Answer1]: one\n[Answer2]: two\n[Answer3]: three",
        "Answer1: one\nAnswer2: two\nAnswer3: three\nAnswer4: four",
        "Answer2: x\nAnswer1: one\nAnswer2: two\nAnswer3: three",  # the first run in order
    ],
)
def test_a_completion_is_split_into_its_answers(text: str) -> None:
    assert split_answers(text, 3) == ["one", "two", "three"]


@pytest.mark.parametrize(
    "text",
    [
        "Answer1: one\nAnswer2: two",
        "Answer1: one\nAnswer3: three\nAnswer2: two",
        "Answer1: one\nAnswer2: two\nAnswer3: **",
        "Answer1 is better than Answer2 and Answer3 is worst.",
    ],
)
def test_a_completion_without_all_answers_is_unreadable(text: str) -> None:
    assert split_answers(text, 3) is None


def make_set(name: str, count: int, start: int = 0) -> QuestionSet:
    """Questions whose answers are marked with the question's number."""
    questions = []
    for q in range(start, start + count):
        texts = [f"number {q} says {i} first. It is so{' and so' * (i % 5)}. Then {q} rests." for i in range(14)]
        questions.append(
            Question(f"what of {q}?", tuple(Answer(f"{q}-{i}", t, (i + q) % 4) for i, t in enumerate(texts)))
        )
    return QuestionSet(name, tuple(questions), "sample", "0")


SET = make_set("sample_antique", 12)


@pytest.mark.parametrize(("truth", "left"), [("one", 13), ("none", 14)])
def test_without_a_generator_there_are_the_candidates_alone(truth, left) -> None:
    draws = write_references([SET], truth=truth, seeds=range(2), generators=[], prompts=Prompts())
    assert list(draws.columns) == ["dataset", "seed", "question", "draw", "references", "signature"]
    assert list(draws.seed) == [0] * 12 + [1] * 12
    assert set(draws.references) == {""}
    assert {(draw.references, draw.dropped, len(draw.candidates)) for draw in draws.draw} == {((), None, left)}


def test_an_unknown_truth_is_refused() -> None:
    with pytest.raises(ValueError, match="truth is 'two'; expected 'one'"):
        write_references([SET], truth="two", seeds=[0], generators=[], prompts=Prompts())


@pytest.mark.parametrize(("truth", "first"), [("one", "write_best"), ("none", "write_answer")])
def test_written_lists_are_signed_by_generators_and_prompts(truth, first) -> None:
    generators = [open_writer("a"), open_writer("b")]
    draws = write_references([SET], truth=truth, seeds=range(2), generators=generators, prompts=Prompts())
    assert set(draws.signature) == {
        f"list:written|generators:openai:a+openai:b|prompts:made_up:{first}@0,made_up:write_lower@0"
        "|text|chat|t0.8|p0.95|max2048"
    }
    assert all(re.match(rf"best by a under \d+ from {first}", draw.best.text) for draw in draws.draw)
    assert len({draw.best.text for draw in draws.draw}) == len(draws), "each seed has its own"
