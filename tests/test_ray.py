"""Ray's workers killed, with their node, and the run itself: the scores are those of one undisturbed process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
from test_scoring import write_lines

import nfqa

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
LINES = 10_000  # 100 parts


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("ray") / "answers.jsonl", LINES)


@pytest.fixture(scope="module")
def undisturbed(lines: Path) -> pd.DataFrame:
    nfqa.score(lines, lines.parent / "local", ["rouge"], progress=False)
    return read_scores(lines.parent / "local")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core, on this machine."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    from ray.cluster_utils import Cluster

    for attempt in range(3):  # a node gives up where a busy machine takes over 15 seconds to start it
        cluster = Cluster()
        try:
            for _ in range(2):
                cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=100_000_000)
            break
        except Exception:
            cluster.shutdown()
            if attempt == 2:
                raise
    yield cluster
    import ray

    ray.shutdown()
    cluster.shutdown()


def read_scores(out: Path) -> pd.DataFrame:
    found = pd.read_parquet(out / "scores.parquet").sort_values(["question", "answer", "metric"])
    return found.reset_index(drop=True)


def find_workers() -> list[psutil.Process]:
    return [
        one for one in psutil.process_iter(["cmdline"]) if "_score_on_ray" in "".join(one.info["cmdline"] or [])[:40]
    ]


def run(lines: Path, out: Path, cluster: Any, disturb: Callable[[], object]) -> pd.DataFrame:
    """Score with two workers, and disturb that when a quarter is done."""
    failed: list[BaseException] = []

    def score() -> None:
        try:
            nfqa.score(lines, out, ["rouge"], engine=f"ray:{cluster.address}", progress=False)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=score)
    thread.start()
    wait_for(lambda: len(list(out.glob("parts/rouge-*"))) > LINES / 100 / 4 or failed)
    disturb()
    thread.join(200)
    assert not failed
    assert not thread.is_alive()
    return read_scores(out)


def wait_for(happened: Callable[[], object]) -> None:
    for _ in range(6_000):
        if happened():
            return
        time.sleep(0.02)
    raise TimeoutError


@pytest.mark.monthly
def test_a_worker_and_then_its_node_die(lines: Path, undisturbed: pd.DataFrame, cluster: Any, tmp_path: Path) -> None:
    killed = []

    def kill_worker() -> None:
        killed.append(find_workers()[0])
        killed[0].kill()

    found = run(lines, tmp_path / "worker", cluster, kill_worker)
    pd.testing.assert_frame_equal(found, undisturbed, rtol=1e-6)
    assert killed
    node = cluster.list_all_nodes()[-1]
    found = run(lines, tmp_path / "node", cluster, lambda: cluster.remove_node(node, allow_graceful=False))
    pd.testing.assert_frame_equal(found, undisturbed, rtol=1e-6)


@pytest.mark.parametrize("kinds", [[signal.SIGKILL], [signal.SIGTERM] * 2], ids=["killed", "interrupted twice"])
def test_a_run_that_was_ended_goes_on(
    lines: Path, undisturbed: pd.DataFrame, cluster: Any, tmp_path: Path, kinds: list[signal.Signals]
) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "nfqa", "score", str(lines), "--methods", "rouge"]
    command += ["--engine", f"ray:{cluster.address}", "--out", str(out)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(out.glob("parts/rouge-*"))) > 10 or driver.poll() is not None)
    for kind in kinds:
        driver.send_signal(kind)
        time.sleep(0.2)
    assert driver.wait(4.6) == (130 if len(kinds) > 1 else -kinds[0])
    wait_for(lambda: not find_workers())
    made = {path.name: path.stat().st_mtime_ns for path in out.glob("parts/rouge-*")}
    assert 10 < len(made) < LINES / 100
    nfqa.score(lines, out, ["rouge"], progress=False)
    pd.testing.assert_frame_equal(read_scores(out), undisturbed, rtol=1e-6)
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("parts/rouge-*")}.items() >= made.items()


def test_a_server_is_asked_by_one_process_so_that_one_cap_holds(lines: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is a server, which one process asks; leave out --engine ray"):
        nfqa.score(lines, tmp_path / "out", ["pointwise"], judge="openai:MODEL@http://127.0.0.1:9/v1", engine="ray")
