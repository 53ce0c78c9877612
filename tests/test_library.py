"""The library: frames in, frames out; the committed values; what it refuses; a language model as judge."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from stub_server import StubServer
from test_own_answers import ARTEFACT, StubEvaluator, WholeEmbedder

import nfqa
from nfqa.lab.values import read_values

EXAMPLE = PROJECT / "data" / "sample" / "own_answers.jsonl"
LINES = [
    {"question": "why?", "references": ["x y", "one b", "z"],
     "answers": [{"id": "a", "text": "one", "label": 3}, {"id": "b", "text": "two", "label": 0},
                 {"id": "c", "text": "x", "label": 1}]},
    {"question": "whether?", "partial_answers": ["Yes.", "No."], "answers": [{"id": "a", "text": "both"}]},
]  # fmt: skip
LABELLED = [("why?", "a", "one", 3), ("why?", "b", "two", 0), ("why?", "c", "x", 1), ("whether?", "a", "both", None)]
TIDY = pd.DataFrame(LABELLED, columns=["question", "answer", "text", "grade"])
TABLE = TIDY.set_axis(["question", "answer_id", "answer", "label"], axis=1)
TABLE.loc[0, ["reference_1", "reference_2", "reference_3"]] = ["x y", "one b", "z"]
TABLE.loc[3, ["partial_answer_1", "partial_answer_2"]] = ["Yes.", "No."]
REFERENCES = pd.DataFrame({"question": "why?", "text": ["z", "x y", "one b"], "grade": [0, 3.0, 2]})
VIEWS = [{"question": "whether?", "text": "Yes."}, {"question": "whether?", "point_of_view": "No."}]


@pytest.fixture
def embedder() -> WholeEmbedder:
    return WholeEmbedder({}, 8)


@pytest.mark.slow
def test_values_are_those_that_are_committed() -> None:
    table, frames = read_values(PROJECT / "results" / f"{ARTEFACT}.csv"), nfqa.read(EXAMPLE)
    judged, diverse = nfqa.linkage(frames), nfqa.perspective_diversity(frames)
    count = frames.views.groupby("question").size()
    covered = nfqa.coverage(frames).groupby(["question", "answer"], as_index=False).score.mean()
    tens = {
        "coverage": covered.eval("ten = 10 * score"),
        "pd": diverse.assign(ten=10 * (1 - np.log10(diverse.score / diverse.question.map(count)) / 4)),
        "da": nfqa.dispute_awareness(frames).eval("ten = 10 * probability"),
    }
    for metric, ours in tens.items():
        rows = table[(table.metric == metric) & (table.statistic == "ten") & (table.variant != "released")]
        both = rows.dropna(subset="value").merge(ours, on=["question", "answer"])
        assert both.value.tolist() == pytest.approx(both.ten.tolist(), rel=1e-4)  # vectors move by batch
        assert len(both) == 4
    agreed = nfqa.agreement(judged, frames.answers, coefficients=("kendall", "spearman"))
    committed = table[(table.metric == "embedded_judge") & (table.training == "trained")]
    for row in agreed.itertuples():
        assert committed[committed.statistic == row.statistic].value.item() == pytest.approx(row.value, rel=1e-5)


@pytest.mark.parametrize(
    "given",
    [
        lambda path: path,
        lambda _: LINES,
        lambda _: TABLE,
        lambda _: TABLE.to_dict("records"),
        lambda _: nfqa.read(TIDY, references=REFERENCES.iloc[[1, 2, 0]].drop(columns="grade"), views=VIEWS),
        lambda _: nfqa.read(TIDY, references=REFERENCES, views=VIEWS),
    ],
    ids=["file", "lines", "table", "rows", "tidy", "graded"],
)
def test_files_dictionaries_and_frames_say_the_same(given: Callable, tmp_path: Path, embedder: Any) -> None:
    path = tmp_path / "my.jsonl"
    path.write_text("\n".join(json.dumps({"id": line["question"]} | line) for line in LINES))
    frames = given(path)
    frames = frames if isinstance(frames, nfqa.Frames) else nfqa.read(frames)
    expected = nfqa.read(LINES)
    for name, columns in {"answers": ["answer", "grade", "system"], "references": [], "views": []}.items():
        left, right = (getattr(each, name)[["question", "text", *columns]] for each in (frames, expected))
        order = "text" if name == "references" else "question"
        pd.testing.assert_frame_equal(
            *(each.sort_values(order, kind="stable", ignore_index=True) for each in (left, right))
        )
    judged = nfqa.linkage(frames, embedder=embedder)
    assert judged[["question", "answer", "missing"]].to_numpy().tolist() == [
        ["why?", "a", ""], ["why?", "b", ""], ["why?", "c", ""], ["whether?", "a", "needs references"],
    ]  # fmt: skip
    assert judged["rank"].dropna().between(1, 4).all()
    fewer = nfqa.linkage(replace(frames, answers=frames.answers.query("answer == 'b'")), embedder=embedder)
    assert fewer["rank"].tolist() == judged["rank"].tolist()[1:2]


def test_diversity_by_hand_and_without_a_text() -> None:
    # two targets, each exp(2 ln 10 / 2) = 10 after any context but one with "one" in it, there 100
    rows = [{"question": "whether?", "text": text} for text in ("both", "one", None)]
    frames = nfqa.read(rows, views=VIEWS)
    assert frames.noticed["empty_answers"] == 1
    found = nfqa.perspective_diversity(frames, StubEvaluator())
    assert found.score.tolist() == pytest.approx([20, 200])
    assert found.signature.str.startswith("pd:agg:sum").all()


def test_agreement_by_hand() -> None:
    rows = [("q", "a", 3), ("q", "b", 2), ("q", "c", 0), ("r", "a", 0), ("r", "b", 1), ("r", "c", 2), ("s", "a", 1)]
    grades = pd.DataFrame(rows, columns=["question", "answer", "grade"])
    scores = grades[["question", "answer"]].assign(metric="m", score=[9.0, 8, 1, 1, 2, 0, 5], probability=0.5)
    found = nfqa.agreement(scores, grades).set_index("statistic")
    # q: 1; r: ranks 0 1 2 against 1 2 0, of three pairs one agrees: tau -1/3, rho 1 - 6 (1 + 1 + 4) / 24 = -1/2
    assert found.value[["kendall", "spearman"]].tolist() == pytest.approx([1 / 3, 1 / 4])
    assert set(found.n) == {2}
    assert np.isnan(found.low["kendall"])  # of two questions there is no interval
    again = nfqa.agreement(scores.merge(grades), least=1, coefficients=("pearson",))
    assert (again.n.item(), again.dropped.item()) == (2, 1)


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: nfqa.read([]), ["answers", '"question"']),
        (lambda: nfqa.read([{"question": "q", "reply": "t"}]), ["answers, row 1", "'text'", '"text"']),
        (lambda: nfqa.read([{"text": "t"}]), ["answers, row 1", "'question'"]),
        (lambda: nfqa.dispute_awareness(["text"]), ["answers, row 1", "'question'", '"text"']),
        (lambda: nfqa.read([None]), ["answers, row 1", "'question'"]),
        (lambda: nfqa.read([{"question": "q", "answer": 3}]), ["row 1", "answer is 3"]),
        (lambda: nfqa.read(TIDY, references=[{"question": "why?"}]), ["references, row 1", "'text'", '"grade"']),
        (lambda: nfqa.read(TIDY, views=[{"question": "?", "text": "t"}]), ["views", "'?'"]),
        (lambda: nfqa.read(TIDY.assign(grade=2.5)), ["row 1", "answers[0].label is 2.5"]),
        (lambda: nfqa.read([{"question": "q", "answers": ["t"], "refs": []}]), ["row 1", "'refs'", "references"]),
        (lambda: nfqa.linkage(LINES[1:]), ["references", '"references": ['],),
        (lambda: nfqa.linkage(LINES, "gpt"), ["judge is 'gpt'", "openai:"]),
        (lambda: nfqa.perspective_diversity(LINES[:1]), ["views", '"partial_answers": [']),
        (lambda: nfqa.perspective_diversity(LINES, "embedded:huge"), ["embedded:huge", "embedded:small"]),
        (lambda: nfqa.agreement(pd.DataFrame({"question": ["q"], "score": [1.0]})), ["no column grade"]),
        (lambda: nfqa.agreement(pd.DataFrame({"question": ["q"], "score": [1.0], "grade": [1]})), ["3 graded answers"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(call: Callable[[], object], facts: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert [fact for fact in facts if fact not in str(caught.value)] == []


def test_a_language_model_on_a_server_judges_and_only_a_journal_keeps_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = tmp_path / "kept" / "journal.sqlite"
    with StubServer(reply=lambda prompt, seed: "[[2]]") as server:
        judge = f"openai:stub@{server.url}"
        found = nfqa.linkage(LINES, judge)
        assert found["rank"].dropna().tolist() == [2, 2, 2]
        assert set(found.metric) == {"listwise"}
        assert list(tmp_path.iterdir()) == []
        asked = len(server.sent)
        kept = nfqa.linkage(LINES, judge, journal=journal)
        assert len(server.sent) == 2 * asked == 6
        pd.testing.assert_frame_equal(nfqa.linkage(LINES, judge, journal=journal), kept)
        assert len(server.sent) == 6
        alone = nfqa.linkage(LINES, judge, method="pointwise")
        assert (alone.score.tolist(), alone["rank"].notna().any()) == ([2, 2, 2, 2], False)
    with StubServer(reply=lambda prompt, seed: "[[1]]") as server:
        aware = nfqa.dispute_awareness(LINES, f"openai:stub@{server.url}")
    assert (set(aware.score), set(aware.method)) == ({1}, {"judge"})


def test_importing_the_library_is_quick_and_loads_nothing_else() -> None:
    code = (
        "import sys, time; start = time.process_time(); import nfqa; took = time.process_time() - start;"
        "print(took, {'numpy', 'pandas', 'pydantic', 'torch'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    took, heavy = run.stdout.split(maxsplit=1)
    assert (float(took) < 0.1, heavy.strip()) == (True, "set()")  # seconds of work, about 0.01
