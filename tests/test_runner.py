"""Runs are decided by content, succeed whole or change nothing, and end tidily whatever ends them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from conftest import FIRST, Checkout

from nfqa.files import code
from nfqa.files.paths import hash_file, lock_file, write_text
from nfqa.interruption import MESSAGE
from reproduction import runner
from reproduction.keys import Record
from reproduction.notebooks import hash_cells

pytestmark = pytest.mark.slow
RESULT = "build/sample/results/made_up/first.csv"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, make_checkout) -> Checkout:
    """A checkout in which everything ran, to be copied."""
    made = make_checkout(tmp_path_factory.mktemp("made") / "checkout")
    done = made.run("reproduce")
    assert done.returncode == 0, done.stderr
    assert "artefacts: 3 run, 0 fresh, 0 failed" in done.stdout
    return made


@pytest.fixture
def ran(made: Checkout, tmp_path: Path) -> Checkout:
    shutil.copytree(made.root, tmp_path / "ran")
    copy = Checkout(tmp_path / "ran")
    copy.environment["DATA"] = "sample"
    return copy


def list_litter(root: Path) -> list[str]:
    """Files that no finished run leaves: scratch folders and half-moved files."""
    scratch = root / "build" / "sample" / "scratch"
    left = [str(path) for path in scratch.rglob("*")] if scratch.is_dir() else []
    return left + [str(path) for path in (root / "results").rglob(".*") if path.is_file()]


def list_stale(checkout: Checkout) -> dict[str, str]:
    lines = checkout.run("status").stdout.splitlines()
    return {line.split()[0].removeprefix("made_up/"): line for line in lines if "STALE" in line}


def test_an_edit_stales_just_what_depends_on_it(ran: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    root, result = ran.root, ran.root / RESULT
    monkeypatch.setattr(code, "_SOURCE", root / "src")  # commands run here, on the project's own modules
    first_bytes = result.read_bytes()
    assert "artefacts: 0 run, 3 fresh" in ran.run("reproduce").stdout
    module, sample, papers, notebook = (
        root / "src" / "nfqa" / "kernels" / "rouge.py", root / "data" / "sample" / "cqa.json",
        root / "papers" / "made_up.yml", root / "notebooks" / "made_up" / "second.ipynb",
    )  # fmt: skip
    other_entry = papers.read_text().replace("made_up/first.ipynb,", "made_up/first.ipynb, parameters: {value: 3.0},")
    for path, changed, stale in [
        (notebook, notebook.read_text().replace("twice", "double"), {"second": "notebook changed", "third": ""}),
        (module, module.read_text() + "CHANGED = 1\n", {"second": "module nfqa.kernels.rouge changed", "third": ""}),
        (sample, sample.read_text() + "\n", {"first": "", "second": "", "third": ""}),
        (papers, other_entry,
         {"first": "parameter value is new", "second": "", "third": "reads second, which is stale"}),
    ]:  # fmt: skip
        before = path.read_text()
        path.write_text(changed)
        reasons = list_stale(ran)
        assert reasons.keys() == stale.keys()
        assert all(words in reasons[name] for name, words in stale.items())
        path.write_text(before)

    # the parameter changes the first's result, so the others, which read it or what is made of it, must follow
    papers.write_text(other_entry)
    ran.run("reproduce")
    assert list_stale(ran) == {}
    assert ran.read("build/sample/results/made_up/third.csv") == 12.0
    papers.write_text(before)
    ran.run("run", "made_up/first")
    assert result.read_bytes() == first_bytes
    result.write_text("{}")
    assert "build/sample/results/made_up/first.csv was altered" in list_stale(ran)["first"]
    assert list_litter(root) == []


DIES = "import os\nos._exit(9)"


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([*FIRST[:3], "raise RuntimeError('the middle')", FIRST[3]], "raise RuntimeError('the middle')"),
        ([*FIRST[:3], DIES, FIRST[3]], "the kernel died, out of memory perhaps"),
    ],
    ids=["raises", "dies"],
)
def test_a_failing_notebook_says_why_and_keeps_the_last_good_result(ran: Checkout, cells, words) -> None:
    good = (ran.root / RESULT).read_bytes()
    ran.edit_notebook("made_up/first.ipynb", cells)
    failed = ran.run("reproduce")
    assert failed.returncode == 1
    assert words in failed.stderr
    assert "made_up/first FAILED; its last good result stays" in failed.stderr
    assert "made_up/second not run, because an artefact that it reads failed" in failed.stderr
    assert "artefacts: 0 run, 0 fresh, 3 failed" in failed.stdout
    assert (ran.root / RESULT).read_bytes() == good
    assert "first" in list_stale(ran)
    assert list_litter(ran.root) == []


def wait_until(happened: Callable[[], bool], seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < ends
        time.sleep(0.05)


def list_processes(root: Path) -> list[int]:
    """Processes that still work in the checkout."""
    return [process.pid for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(root)]


WAITS = "import pathlib, time\npathlib.Path(out, 'started').touch()\ntime.sleep(600)"


def start_and_wait(checkout: Checkout) -> subprocess.Popen[str]:
    """A run whose notebook has written its result, and goes on."""
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST, WAITS])
    process = checkout.start("run", "made_up/first")
    wait_until((checkout.root / "build" / "sample" / "scratch" / "made_up" / "first" / "started").exists)
    return process


@pytest.mark.parametrize("kinds", [["INT"], ["TERM", "TERM"], ["HUP", "INT"]])
def test_an_interruption_leaves_nothing_half_written_and_no_kernel(checkout: Checkout, kinds: list[str]) -> None:
    process = start_and_wait(checkout)
    began = time.monotonic()
    for kind in kinds:
        os.killpg(process.pid, getattr(signal, f"SIG{kind}"))
        time.sleep(0.2)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert (process.returncode, errors) == (130, f"\n{MESSAGE}\n")
    assert list_processes(checkout.root) == []
    assert not (checkout.root / RESULT).exists()
    assert list_litter(checkout.root) == []
    with lock_file(checkout.root / "build" / "lock", "held"):
        pass


def test_no_kernel_outlives_a_killed_run_and_the_next_one_makes_all(checkout: Checkout) -> None:
    process = start_and_wait(checkout)
    assert len(list_processes(checkout.root)) == 2  # the command and a kernel
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: not list_processes(checkout.root), 10)
    checkout.edit_notebook("made_up/first.ipynb", FIRST)
    done = checkout.run("reproduce")
    assert done.returncode == 0, done.stderr
    assert list_stale(checkout) == {}
    assert list_litter(checkout.root) == []


def test_two_runs_in_one_checkout_do_not_mix(checkout: Checkout) -> None:
    first = start_and_wait(checkout)
    second = checkout.run("run", "made_up/first")
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=30)
    assert second.returncode == 2
    assert "another run is at work in this checkout" in second.stderr


def test_overrides_go_to_a_folder_of_their_own(checkout: Checkout) -> None:
    done = checkout.run("run", "made_up/first", PARAMS="value=5.0")
    assert done.returncode == 0, done.stderr
    assert not (checkout.root / RESULT).exists()
    (made,) = (checkout.root / "build" / "variants").glob("*/sample/results/made_up/first.csv")
    assert checkout.read(str(made)) == 5.0
    reported = checkout.run("report", PARAMS="value=5.0")
    assert reported.returncode == 0, reported.stderr
    work = made.relative_to(checkout.root).parents[2]
    assert f"report: {work.parent}/site/index.html" in reported.stdout
    assert all(f"  {work}/results/made_up/first.csv\n" in run.stdout for run in (done, reported))
    assert checkout.run("report", PARAMS="value=6.0").returncode == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_notebooks_run_side_by_side_and_wait_for_what_they_read(tmp_path: Path, monkeypatch, jobs: int) -> None:
    reads = {"a": set(), "b": set(), "c": {"a"}, "d": {"b"}, "e": {"fresh"}}
    events: list[str] = []

    def make(_: object, target: SimpleNamespace) -> str:
        events.append(f"start {target.name}")
        time.sleep(0.2)
        events.append(f"end {target.name}")
        return "the reason" if target.name == "b" else ""

    monkeypatch.setattr(runner.Run, "make_artefact", make)
    targets = {name: SimpleNamespace(name=name, reads=names, minutes=1) for name, names in reads.items()}
    assert runner.Run(SimpleNamespace(work=tmp_path), targets, jobs).run() == ["b", "d"]  # type: ignore[arg-type]
    assert "start d" not in events
    assert events.index("end a") < events.index("start c")
    running = np.cumsum([1 if event.startswith("start") else -1 for event in events])
    assert running.max() == jobs


def record_run(root: Path, name: str) -> None:
    """Write the record of a full run that made an artefact's values as they are in build/results/."""
    file = root / "build" / "results" / "made_up" / f"{name}.csv"
    parts = {"notebook": hash_cells(root / "notebooks" / "made_up" / f"{name}.ipynb")}
    record = Record(parts=parts, outputs={str(file.relative_to(root)): hash_file(file)}, minutes=1)
    write_text(root / "build" / "runs" / "made_up" / f"{name}.json", record.model_dump_json())


def test_what_was_made_here_is_compared_with_the_reference_and_taken_over(ran: Checkout) -> None:
    made, reference = ran.root / "build" / "results" / "made_up", ran.root / "results" / "made_up"
    for folder in (made, reference):
        shutil.copytree(ran.root / "build" / "sample" / "results" / "made_up", folder, dirs_exist_ok=True)
    shutil.copytree(ran.root / "build" / "sample" / "notebooks", ran.root / "build" / "notebooks")
    (made / "first.csv").unlink()
    full = {"DATA": "full"}
    checked = ran.run("check", **full)
    assert "18 numbers against the reference in results/: same 12, not run here 6" in checked.stdout
    moved = (reference / "first.csv").read_text().replace("1.0", "1.5")
    (made / "first.csv").write_text(moved)
    record_run(ran.root, "first")
    checked = ran.run("check", **full)
    key = ["dataset=sample_antique", "metric=ours", "statistic=number"]
    assert [*key, "value", "1.0", "1.5", "0.333333", "moved"] in map(str.split, checked.stdout.splitlines())
    assert "made_up/first differs from results/made_up/first.csv" in checked.stdout
    assert (checked.returncode, "make accept" in checked.stderr) == (1, True)
    accepted = ran.run("accept", **full)
    assert accepted.stdout == "copied into results/, figures/ and notebooks/: made_up/first\n", accepted.stderr
    assert '"execution_count": 4' in (ran.root / "notebooks" / "made_up" / "first.ipynb").read_text()
    assert (reference / "first.csv").read_text() == moved
    assert "moved" not in ran.run("check", **full).stdout


@pytest.mark.parametrize("case", ["never run", "altered", "edited", "sample"])
def test_what_was_not_made_so_is_not_taken_over(ran: Checkout, case: str) -> None:
    shutil.copytree(ran.root / "build" / "sample" / "results", ran.root / "build" / "results")
    result, full = ran.root / "build" / "results" / "made_up" / "first.csv", {"DATA": "full"}
    if case != "never run":
        record_run(ran.root, "first")
    if case == "altered":
        result.write_text(result.read_text().replace("1.0", "1.5"))
    if case == "edited":
        ran.edit_notebook("made_up/first.ipynb", [*FIRST, "1 + 1"])
    refused = ran.run("accept", "made_up/first", **(full if case != "sample" else {}))
    words = {"never run": "was not made here", "altered": "was altered since", "edited": "notebook changed since"}
    assert (refused.returncode, words.get(case, "of full runs without overrides") in refused.stderr) == (2, True)
    assert not (ran.root / "results").exists()
