"""What a command does to a user's files: none is overwritten or removed, each kind is read or refused in one line."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import copy_project

import nfqa
from nfqa.cli import main
from nfqa.files.answers import read_answers
from nfqa.files.code import is_refusal
from nfqa.files.paths import write_atomically, write_text

LINE = {"id": "q", "question": "Is it salt?", "references": ["Salt.", "No."], "answers": ["Rivers carry it there."]}
ROW = "question,answer,reference_1\nIs it salt?,Rivers carry it there.,Salt.\n"
COMMAND = [sys.executable, "-m", "nfqa"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder outside of the checkout, with answers.jsonl and scores.csv in it, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "answers.jsonl").write_text(json.dumps(LINE) + "\n")
    (tmp_path / "scores.csv").write_text(ROW)
    return tmp_path


def list_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def score(answers: str | Path, out: str | Path = "out", **options: Any) -> pd.DataFrame:
    return nfqa.score(answers, out, ["rouge"], progress=False, **options)


def run(words: str) -> subprocess.CompletedProcess[str]:
    """A line of bash, in which `nfqa` is this package's command."""
    nfqa_command = f'nfqa() {{ {sys.executable} -m nfqa "$@"; }}; set -o pipefail; '
    options = {"capture_output": True, "text": True, "errors": "backslashreplace", "timeout": 300}
    environment = os.environ | {"PYTHONUNBUFFERED": ""}  # output that is left is written when Python ends
    return subprocess.run(["bash", "-c", nfqa_command + words], check=False, env=environment, **options)


@pytest.mark.parametrize("out", [".", "", "../here", "link"])
@pytest.mark.parametrize("answers", ["scores.csv", "./below/more.csv", "alias.csv", "elsewhere/alias.csv"])
def test_answers_in_the_output_folder_are_refused(tmp_path: Path, here: Path, out: str, answers: str) -> None:
    place = tmp_path / "here"
    (place / "below").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (here / "link").symlink_to(place)
    for path in ("here/scores.csv", "here/below/more.csv", "elsewhere/scores.csv"):
        (tmp_path / path).write_text(ROW)
    (place / "alias.csv").symlink_to(tmp_path / "elsewhere" / "scores.csv")
    (tmp_path / "elsewhere" / "alias.csv").symlink_to(place / "scores.csv")
    (place / "elsewhere").symlink_to(tmp_path / "elsewhere")
    (place / "link").symlink_to(place)
    os.chdir(place)
    before = list_files(tmp_path)
    with pytest.raises(ValueError, match=r"csv: lies in the output folder .*here; .*--out"):
        score(answers, out)
    assert list_files(tmp_path) == before


def test_a_file_of_questions_in_the_output_folder_is_refused(here: Path) -> None:
    (here / "out").mkdir()
    (here / "out" / "test.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"test\.jsonl: lies in the output folder"):
        score("answers.jsonl", questions="out/test.jsonl")


@pytest.mark.parametrize(
    "name", ["summary.csv", "notes.txt", "parts/train-00000-of-00001.parquet", "parts/foo.parquet"]
)
def test_a_folder_with_files_of_a_user_is_refused(here: Path, name: str) -> None:
    path = here / "out" / name
    path.parent.mkdir(parents=True)
    pd.DataFrame({"mine": [1]}).to_parquet(path)
    before = list_files(here)
    with pytest.raises(ValueError, match=rf"out: holds {name.partition('/')[0]}.*not nfqa's; name another .*--out"):
        score("answers.jsonl")
    assert list_files(here) == before


def test_an_output_folder_that_is_a_file_is_refused(here: Path) -> None:
    with pytest.raises(ValueError, match=r"scores\.csv: is a file; name a folder with --out"):
        score("answers.jsonl", "scores.csv")


@pytest.mark.parametrize("hidden", ["", ".gitkeep"])
def test_an_empty_folder_is_used(here: Path, hidden: str) -> None:
    (here / "out").mkdir()
    if hidden:
        (here / "out" / hidden).touch()
    score("answers.jsonl")
    assert (here / "out" / "summary.csv").is_file()


def test_files_of_a_user_among_the_parts_stay_and_are_not_read(here: Path) -> None:
    score("answers.jsonl")
    rows = len(pd.read_parquet(here / "out" / "scores.parquet"))
    parts = here / "out" / "parts"
    (made,) = parts.iterdir()
    (parts / ".mine.parquet").write_text("mine")
    (parts / "copy of rouge.parquet").write_bytes(made.read_bytes())
    pd.DataFrame({"mine": [1]}).to_parquet(parts / "rouge-000000.parquet")
    before = list_files(parts)
    (here / "answers.jsonl").write_text(json.dumps(LINE | {"id": "other"}))
    score("answers.jsonl")
    assert list_files(parts).items() > before.items()
    assert len(pd.read_parquet(here / "out" / "scores.parquet")) == rows


@pytest.mark.parametrize("name", ["summary.csv", "scores.csv", "differences.csv", "skipped.csv", "warnings.csv"])
def test_an_output_that_a_user_edited_or_wrote_stays(here: Path, name: str) -> None:
    score("answers.jsonl")
    (here / "out" / "notes.txt").write_text("of a user, in nobody's way")
    (here / "out" / name).write_text("edited")
    before = list_files(here)
    with pytest.raises(ValueError, match=rf"{name}: was edited, or is not nfqa's; move it elsewhere"):
        score("answers.jsonl")
    assert list_files(here) == before
    (here / "out" / name).rename(here / "mine.csv")
    score("answers.jsonl")
    assert (here / "mine.csv").read_text() == "edited"
    assert (here / "out" / "notes.txt").exists()


def test_an_output_that_is_edited_during_a_run_stays(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pd.DataFrame.to_parquet

    def write(frame: pd.DataFrame, path: Path, **options: Any) -> None:
        made(frame, path, **options)
        (here / "out" / "summary.csv").write_text("edited")

    score("answers.jsonl")
    monkeypatch.setattr(pd.DataFrame, "to_parquet", write)
    (here / "answers.jsonl").write_text(json.dumps(LINE | {"id": "other"}))
    with pytest.raises(ValueError, match=r"summary\.csv: was edited"):
        score("answers.jsonl")
    assert (here / "out" / "summary.csv").read_text() == "edited"


def test_what_a_user_s_files_gave_outlives_cleaning(tmp_path: Path) -> None:
    copy_project(tmp_path)
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "requirements-dev.txt").touch()
    (tmp_path / "pyproject.toml").touch()
    made = [tmp_path / "build" / name / "x.csv" for name in ("scores", "answers", "results", "cache")]
    for path in made:
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "build" / "lock").touch()
    for _ in range(2):
        done = subprocess.run(["make", "clean"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert [path for path in made if path.exists()] == made[:2]
    assert sorted(path.name for path in (tmp_path / "build").iterdir()) == ["answers", "scores"]


def test_a_dry_run_writes_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "test.jsonl").write_text(json.dumps({"id": "q", "question": "Is it?", "partial_answers": ["Yes.", "No."]}))
    (here / "released.jsonl").write_text(json.dumps({"id": "q", "generation": "It is."}))
    before = list_files(here)
    options: dict[str, Any] = {"questions": "test.jsonl", "progress": False}
    todo = nfqa.score("released.jsonl", "out", ["da"], dry_run=True, **options)
    assert todo.questions.tolist() == [1]
    assert list_files(here) == before
    assert not (here / "out").exists()
    nfqa.score("released.jsonl", "out", ["da"], **options)
    before = list_files(here)
    done = nfqa.score("released.jsonl", "out", ["da"], dry_run=True, **options)
    assert done.questions.tolist() == [0]
    assert list_files(here) == before


@pytest.mark.parametrize("mask", [0o077, 0o002, 0o022, 0o027])
def test_the_umask_holds_for_every_output(here: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        score("answers.jsonl")
        write_text(here / "new" / "text.txt", "text")
        write_text(here / "new" / "text.txt", "text")
    finally:
        os.umask(before)
    paths = [*(here / "out").rglob("*"), *(here / "new").rglob("*")]
    modes = {path.name: path.stat().st_mode & 0o777 for path in paths if path.is_file()}
    assert len(modes) >= 6
    assert set(modes.values()) == {0o666 & ~mask}, modes
    assert {path.stat().st_mode & 0o777 for path in paths if path.is_dir()} == {0o777 & ~mask}


def test_a_name_that_is_as_long_as_it_may_be_is_written(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 225}.csv"
    with write_atomically(path) as scratch:
        scratch.write_text("text")
    assert list_files(tmp_path) == {path.name: b"text"}


@pytest.mark.parametrize(
    "words",
    [
        "nfqa score answers.jsonl --methods rouge --out out | head -c 1",
        "nfqa score answers.jsonl --methods rouge --out out 2>&1 | head -c 1",
        "nfqa score answers.jsonl --methods rouge --out out | true",
        "nfqa --help | true",
    ],
)
def test_a_pipe_that_nobody_reads_to_the_end_ends_the_command_quietly(here: Path, words: str) -> None:
    done = run(words)
    assert done.returncode in (0, 141), done.stderr  # as of `yes | head`
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith("scoring")]
    assert lines == []


def test_output_that_can_not_be_written_is_one_line(here: Path) -> None:
    for words in ("nfqa --version > /dev/full", "PYTHONUNBUFFERED=1 nfqa template my.csv > /dev/full"):
        done = run(words)
        assert (done.returncode, done.stderr) == (2, "error: [Errno 28] No space left on device\n")
    done = run("nfqa template other.csv >&-")
    assert (done.returncode, done.stderr) == (0, "")


def write_alike(folder: Path, name: str) -> Path:
    """The same answer in a file of the kind that its name says."""
    path = folder / name
    table = pd.DataFrame([{"question": "Is it salt?", "answer": "Rivers carry it there.", "reference_1": "Salt."}])
    if "parquet" in name or name.lower().endswith(".pq"):
        table.to_parquet(path)
    elif "csv" in name:
        path.write_text(ROW)
    else:
        path.write_text(json.dumps(LINE) + "\n")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.pq", "a.PQ", "a-parquet", "a-csv", "a.ndjson"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_file_is_read_by_its_name_or_else_by_its_content(here: Path, name: str, linked: bool) -> None:
    path = write_alike(here, name)
    if linked:  # as in a cache of the hub, whose files have hashes for names
        (here / "blobs").mkdir()
        path.rename(here / "blobs" / "0123abcd")
        path.symlink_to(here / "blobs" / "0123abcd")
    assert len(read_answers(path).questions) == 1
    summary = score(name)
    assert set(summary.n) == {1}
    assert len(read_answers(path.resolve()).questions) == 1


def test_a_file_with_latin_1_in_its_name_is_read(here: Path) -> None:
    for name in ("a.parquet", "a.csv", "a.jsonl"):
        write_alike(here, name).rename(os.fsdecode(b"caf\xe9" + name.encode()))
        done = run('nfqa score "$0" --methods rouge'.replace("$0", "$(echo caf*" + name + ")"))
        assert done.returncode == 0, done.stderr
        assert (here / f"caf{name}-scores" / "summary.csv").is_file()


REFUSED = {
    "a.jsonl.gz": "is compressed with gzip; unpack it first",
    "a.csv.gz": "is compressed with gzip; unpack it first",
    "a.csv.zst": "is compressed with zstd; unpack it first",
    "a.csv.xz": "is compressed with xz; unpack it first",
    "a.csv.bz2": "is compressed with bzip2; unpack it first",
    "a.xlsx": "is a workbook or another zip file; save the sheet as CSV UTF-8",
    "gzip.csv": "is compressed with gzip; unpack it first",
    "little.csv": "is UTF-16; save it as UTF-8",
    "big.csv": "is UTF-16; save it as UTF-8",
    "little.jsonl": "is UTF-16; save it as UTF-8",
    "big.jsonl": "is UTF-16; save it as UTF-8",
    "empty.csv": "holds no answer; expected one answer per row",
    "empty.jsonl": "holds no answer; expected one JSON object per line",
    "words.txt": "is neither a table",
    "folder": "is a folder; name a file of answers",
    "fifo": "is a pipe or a device, which can be read only once; save what it gives to a file, and name that",
    "/dev/null": "is a pipe or a device, which can be read only once; save",
    "-": "is a pipe or a device, which can be read only once; save",
    "none.csv": "No such file",
}


def write_refused(here: Path, name: str) -> None:
    packed = gzip.compress(ROW.encode())
    ends = {
        ".gz": packed, ".zst": b"\x28\xb5\x2f\xfd\0\0", ".xz": b"\xfd7zXZ\0", ".bz2": b"BZh91AY&SY",
        ".xlsx": b"PK\x03\x04\n",
    }  # fmt: skip
    text = json.dumps(LINE) + "\n" if name.endswith("jsonl") else ROW
    stems = {
        "gzip": packed, "little": text.encode("utf-16-le"), "big": text.encode("utf-16-be"), "empty": b"",
        "words": b"words\n",
    }  # fmt: skip
    path = here / name
    if name == "folder":
        path.mkdir()
    elif name == "fifo":
        os.mkfifo(path)
    elif path.suffix in ends or path.stem in stems:
        path.write_bytes(ends.get(path.suffix) or stems[path.stem])


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_read_is_refused_in_one_line(here: Path, name: str, capsys: Any) -> None:
    write_refused(here, name)
    before = sorted(here.iterdir())
    assert main(["score", name, "--methods", "rouge", "--out", "out"]) == 2
    message = capsys.readouterr().err
    assert REFUSED[name] in message
    assert name in message
    assert message.count("\n") == 1
    assert sorted(here.iterdir()) == before
    with pytest.raises((ValueError, OSError)):
        nfqa.read(name)


def test_a_process_substitution_is_refused_in_one_line(here: Path) -> None:
    done = run("nfqa score <(cat answers.jsonl) --methods rouge --out out; cat answers.jsonl | nfqa score /dev/stdin")
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    assert all("is a pipe or a device, which can be read only once; save what it gives to a file" in e for e in lines)
    done = run("nfqa score answers.jsonl --questions <(cat answers.jsonl) --methods rouge --out out")
    assert (done.returncode, "is a pipe" in done.stderr) == (2, True)
    assert not (here / "out").exists()


def raise_in_pandas(*_: object, **__: object) -> None:
    pd.DataFrame({"a": [1]}).merge(pd.DataFrame({"b": [1]}))


def raise_in_numpy(*_: object, **__: object) -> None:
    import numpy as np

    np.ones(2) + np.ones(3)


@pytest.mark.parametrize("place", ["nfqa.scoring.score_file", "nfqa.metrics.overlap.score_overlap"])
@pytest.mark.parametrize("fault", [raise_in_pandas, raise_in_numpy])
def test_a_library_s_error_is_a_fault_of_ours_with_its_traceback(here, monkeypatch, capsys, place, fault) -> None:
    monkeypatch.setattr(place, fault)
    with pytest.raises(ValueError) as caught:
        main(["score", "answers.jsonl", "--methods", "rouge", "--out", "out"])
    assert "a fault of nfqa, not of your input" in "".join(caught.value.__notes__)
    assert "error:" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["nfqa --debug score none.csv", "nfqa score none.csv --debug", "NFQA_DEBUG=1 nfqa score none.csv"],
)
def test_debug_prints_the_traceback(here: Path, words: str) -> None:
    done = run(words.replace("nfqa score", f"{' '.join(COMMAND)} score") if words.startswith("NFQA") else words)
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.splitlines()[-1].startswith("error: ")


def test_a_refusal_is_told_from_a_fault() -> None:
    def catch(function: Any, *items: Any) -> Exception:
        with pytest.raises(Exception) as caught:
            function(*items)
        return caught.value

    assert is_refusal(catch(nfqa.read, [{"question": "?"}]))
    assert is_refusal(catch(nfqa.read, "/none.csv"))  # what the system says of a file
    assert not is_refusal(catch(raise_in_pandas))
    assert not is_refusal(catch(raise_in_numpy))
    assert not is_refusal(catch(int, "x"))
