"""Runs are decided by content, succeed whole or change nothing, and end tidily whatever ends them."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from conftest import FIRST, SECOND, Checkout

pytestmark = pytest.mark.slow
RESULT = "results/sample/made_up/first.csv"


def list_litter(root: Path) -> list[str]:
    """Files that no finished run leaves: scratch folders and half-moved files."""
    scratch = root / "build" / "sample" / "scratch"
    left = [str(path) for path in scratch.rglob("*")] if scratch.is_dir() else []
    return left + [str(path) for path in (root / "results").rglob(".*") if path.is_file()]


def list_stale(checkout: Checkout) -> dict[str, str]:
    lines = checkout.run("status").stdout.splitlines()
    return {line.split()[0]: line for line in lines if "STALE" in line}


def test_a_run_ends_fresh_and_an_edit_stales_just_what_depends_on_it(checkout: Checkout) -> None:
    done = checkout.run("reproduce")
    assert done.returncode == 0, done.stderr
    assert "3 artefacts run, 0 were fresh, 0 failed" in done.stdout
    assert "sample" in (checkout.root / RESULT).read_text()
    assert checkout.read("results/sample/made_up/third.csv") == 4.0
    assert (checkout.root / "build" / "site" / "index.html").is_file()
    first_bytes = (checkout.root / RESULT).read_bytes()

    started = time.monotonic()
    again = checkout.run("reproduce")
    assert time.monotonic() - started < 5
    assert "0 artefacts run, 3 were fresh" in again.stdout

    # a notebook, a module that only the second imports, the data of the first, one parameter's default
    root = checkout.root
    checkout.edit_notebook("made_up/second.ipynb", [*SECOND, "1 + 1"])
    assert set(list_stale(checkout)) == {"made_up/second", "made_up/third"}  # all the way down the chain
    checkout.edit_notebook("made_up/second.ipynb", SECOND)
    assert list_stale(checkout) == {}
    module = root / "src" / "nfqa" / "kernels" / "rating.py"
    before = module.read_text()
    module.write_text(before + "# changed\n")
    assert set(list_stale(checkout)) == {"made_up/second", "made_up/third"}
    assert "module nfqa.kernels.rating changed" in list_stale(checkout)["made_up/second"]
    module.write_text(before)
    sample = root / "data" / "sample" / "cqa.json"
    text = sample.read_text()
    sample.write_text(text + "\n")
    assert set(list_stale(checkout)) == {"made_up/first", "made_up/second", "made_up/third"}
    sample.write_text(text)
    papers = root / "papers" / "made_up.yml"
    text = papers.read_text()
    papers.write_text(text.replace("made_up/first.ipynb,", "made_up/first.ipynb, parameters: {value: 3.0},"))
    assert "parameter value is new" in list_stale(checkout)["made_up/first"]
    assert "reads second, which is stale" in list_stale(checkout)["made_up/third"]

    # the parameter changes the first's result, so the others, which read it or what is made of it, must follow
    done = checkout.run("reproduce")
    assert "STALE" not in checkout.run("status").stdout
    assert checkout.read("results/sample/made_up/third.csv") == 12.0
    papers.write_text(text)
    checkout.run("run", "made_up/first")
    assert (root / RESULT).read_bytes() == first_bytes

    (root / RESULT).write_text("{}")
    assert "results/sample/made_up/first.csv was altered" in list_stale(checkout)["made_up/first"]
    assert list_litter(root) == []


def test_a_failing_notebook_shows_its_cell_and_keeps_the_last_good_result(checkout: Checkout) -> None:
    assert checkout.run("run", "made_up/second").returncode == 0
    good = (checkout.root / RESULT).read_bytes()
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST[:3], "raise RuntimeError('the middle')", FIRST[3]])
    failed = checkout.run("reproduce")
    assert failed.returncode == 1
    assert "made_up/first FAILED; its last good result stays" in failed.stderr
    assert "raise RuntimeError('the middle')" in failed.stderr
    assert "made_up/second: not run, because it reads first, which failed" in failed.stderr
    assert "0 artefacts run, 0 were fresh, 3 failed" in failed.stdout
    assert (checkout.root / RESULT).read_bytes() == good
    assert "made_up/first" in list_stale(checkout)
    assert list_litter(checkout.root) == []


def test_a_notebook_that_writes_no_result_fails(checkout: Checkout) -> None:
    checkout.edit_notebook("made_up/first.ipynb", FIRST[:3])
    failed = checkout.run("run", "made_up/first")
    assert failed.returncode == 1
    assert "ended without writing a result" in failed.stderr


def test_a_kernel_that_dies_is_named_and_not_tried_again(checkout: Checkout) -> None:
    counted = checkout.root / "count"
    die = f"open({str(counted)!r}, 'a').write('x')\nimport os\nos._exit(9)"
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST[:3], die, FIRST[3]])
    failed = checkout.run("run", "made_up/first")
    assert failed.returncode == 1
    assert "the kernel died in the middle of the notebook" in failed.stderr
    assert counted.read_text() == "x"


def test_a_figure_that_is_no_longer_made_does_not_stay(checkout: Checkout) -> None:
    drawn = "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()"
    with_figure = FIRST[3].replace("findings=['found']", "figure=figure")
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST[:3], drawn, with_figure])
    assert checkout.run("run", "made_up/first").returncode == 0
    figure = checkout.root / "figures" / "sample" / "made_up" / "first.png"
    assert figure.is_file()
    checkout.edit_notebook("made_up/first.ipynb", FIRST)
    assert checkout.run("run", "made_up/first").returncode == 0
    assert not figure.exists()


def test_a_run_record_that_is_none_is_no_record(checkout: Checkout) -> None:
    record = checkout.root / "build" / "sample" / "runs" / "made_up" / "first.json"
    record.parent.mkdir(parents=True)
    for content in ("null", '{"parts": [], "outputs": []}', "half"):
        record.write_text(content)
        assert "never run here" in list_stale(checkout)["made_up/first"]


def test_a_full_disk_leaves_the_last_good_result(checkout: Checkout) -> None:
    assert checkout.run("run", "made_up/first").returncode == 0
    good = (checkout.root / RESULT).read_bytes()
    full = (
        "import pathlib\ndef full(*_):\n    raise OSError(28, 'No space left on device')\npathlib.Path.replace = full"
    )
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST[:3], full, FIRST[3]])
    failed = checkout.run("run", "made_up/first")
    assert failed.returncode == 1
    assert "No space left on device" in failed.stderr
    assert (checkout.root / RESULT).read_bytes() == good
    assert list_litter(checkout.root) == []


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_leaves_nothing_half_written(checkout: Checkout, kind: signal.Signals) -> None:
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST, "import time\ntime.sleep(60)"])
    process = checkout.start("run", "made_up/first")
    scratch = checkout.root / "build" / "sample" / "scratch" / "made_up" / "first" / "first.csv"
    wait_for(scratch)
    process.send_signal(kind)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "nothing half-written stays" in errors
    assert not (checkout.root / RESULT).exists()
    assert list_litter(checkout.root) == []
    time.sleep(1.5)
    assert list_processes(checkout.root) == []


def list_processes(root: Path) -> list[str]:
    """Processes that still work in the checkout."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if process.joinpath("cwd").resolve() == root:
                found.append(process.joinpath("cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended meanwhile
    return found


def wait_for(path: Path, seconds: float = 60) -> None:
    ends = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < ends, f"{path} never came"
        time.sleep(0.05)


def test_a_kill_at_any_moment_is_healed_by_the_next_run(checkout: Checkout) -> None:
    moments = random.Random(7)
    for _ in range(4):
        process = checkout.start("reproduce")
        time.sleep(moments.uniform(0.3, 9))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        path = checkout.root / RESULT
        if path.exists():
            assert checkout.read(RESULT) == 1.0  # whole or absent, never half
    done = checkout.run("reproduce")
    assert done.returncode == 0, done.stderr
    assert "STALE" not in checkout.run("status").stdout
    assert list_litter(checkout.root) == []


def test_two_runs_in_one_checkout_do_not_mix(checkout: Checkout) -> None:
    wait = "import time\nfrom pathlib import Path\nwhile not Path('go').exists():\n    time.sleep(0.05)"
    checkout.edit_notebook("made_up/first.ipynb", [*FIRST, wait])
    first = checkout.start("run", "made_up/first")
    wait_for(checkout.root / "build" / "sample" / "scratch" / "made_up" / "first" / "job.json")
    second = checkout.run("run", "made_up/first")
    assert second.returncode == 2
    assert "another run is at work in this checkout" in second.stderr
    (checkout.root / "go").touch()
    first.communicate(timeout=60)
    assert first.returncode == 0


def test_overrides_go_to_a_folder_of_their_own(checkout: Checkout) -> None:
    done = checkout.run("run", "made_up/first", PARAMS="value=5.0")
    assert done.returncode == 0, done.stderr
    assert not (checkout.root / RESULT).exists()
    (made,) = (checkout.root / "build" / "variants").glob("*/sample/results/made_up/first.csv")
    assert checkout.read(str(made)) == 5.0


def test_results_are_compared_with_the_committed_ones(checkout: Checkout) -> None:
    import subprocess

    def git(*words: str) -> None:
        name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *name, *words], cwd=checkout.root, check=True, capture_output=True)

    checkout.run("reproduce")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    assert checkout.run("check").returncode == 0
    checkout.edit_notebook("made_up/first.ipynb", [FIRST[0].replace("1.0", "1.5"), *FIRST[1:]])
    said = checkout.run("reproduce").stdout
    assert (
        "moved: made_up/first dataset=sample_antique metric=ours statistic=number, value: committed 1, now 1.5" in said
    )
    checked = checkout.run("check")
    assert (checked.returncode, "moved" in checked.stdout) == (1, True)
    excuses = [
        f"- {{artefact: made_up/{name}, row: statistic={what}, reason: another definition}}\n"
        for name, what in (("first", "number"), ("second", "twice"), ("third", "again"))
    ]
    (checkout.root / "results" / "intended_changes.yml").write_text("".join(excuses[:2]))
    assert checkout.run("check").returncode == 1
    (checkout.root / "results" / "intended_changes.yml").write_text("".join(excuses))
    assert checkout.run("check").returncode == 0
