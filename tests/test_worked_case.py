"""The worked case's notebook on made-up questions: chosen by its rule, on one scale, its texts kept out of results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notebook_cells import run_notebook
from tiny_models import LetterEmbedder

from nfqa.files.records import Answer, Question, QuestionSet
from reproduction.open import Lab

NOTEBOOK = "linkage/figure_01_03_10_worked_case"


def make_question(name: str, *extra: Answer) -> Question:
    """Four references' worth of answers with unlike words, one a grade, and further candidates."""
    base = [Answer(f"{name}{g}", f"{name} alpha{g} beta{g} gamma{g} delta{g}", g) for g in range(4)]
    return Question(f"{name}?", (*base, *extra))


def make_questions() -> tuple[Question, ...]:
    """In the question `b`, the poor candidate repeats the best reference's words, and the good one has its own."""
    answers = (
        *(Answer(f"top{i}", f"the sea is salty since rivers bring salt number {i}", 3) for i in range(2)),
        Answer("two", "waters carry minerals", 2),
        Answer("one", "fish live there", 1),
        *(Answer(f"low{i}", f"the sea is salty since rivers bring pepper {i}", 0) for i in range(2)),
        Answer("own", "weathering dissolves rock", 3),
    )
    plain = [make_question(n, Answer(f"{n}x", f"{n} omega", 3), Answer(f"{n}y", f"{n} psi chi", 0)) for n in "acdefg"]
    return (*plain, Question("b?", answers))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run the notebook on given questions, with a stand-in for the embedder."""
    monkeypatch.setattr(Lab, "embedder", LetterEmbedder())
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))

    def execute(figure: str = "scores", questions: tuple[Question, ...] = make_questions(), **options: Any) -> Any:
        dataset = QuestionSet("sample_trec_dl_nf", questions, "sample", "0")
        monkeypatch.setattr(Lab, "load", lambda lab, name, **how: lab.use(dataset))
        return run_notebook(NOTEBOOK, out=tmp_path / "out", figure=figure, **options)

    return execute


@pytest.mark.parametrize("figure", ["sketch", "scores", "details"])
def test_results_and_figure_hold_no_text_of_the_data(figure: str, run: Any, tmp_path: Path) -> None:
    result = run(figure)
    written = "".join(path.read_text() for path in (tmp_path / "out").glob("*.[cj]*"))
    written += " ".join(text.get_text() for axes in result["figure"].axes for text in axes.texts)
    texts = [result["draw"].question.text, *(answer.text for answer in result["draw"].question.answers)]
    assert written
    assert not [text for text in texts if text in written]
    assert set(result["table"].origin) == {"sample"}
