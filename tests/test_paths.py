"""Locks between processes, and what of the library works where POSIX is not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nfqa.files.paths import lock_file

HOLD = """
import sys, time
from pathlib import Path
from nfqa.files.paths import lock_file
with lock_file(Path(sys.argv[1]), ""):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "lock"


@pytest.fixture
def holder(lock: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process, which holds the lock until it is killed."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(lock)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_of_another_process_is_told_at_once_and_gone_when_that_is_killed(lock: Path, holder) -> None:
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"^taken$"), lock_file(lock, "taken"):
        pass
    assert time.monotonic() - began < 1
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    for _ in range(2):  # and free again after each
        with lock_file(lock, "taken"):
            pass


def test_who_waits_for_a_lock_says_so_once_and_goes_on_when_it_is_free(lock: Path, holder) -> None:
    command = [sys.executable, "-c", WAIT, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        assert waiting.stdout.readline() == "waiting\n"
        assert waiting.poll() is None
        holder.kill()
        assert waiting.communicate(timeout=20)[0] == "mine\n"


WAIT = """
import sys
from pathlib import Path
from nfqa.files.paths import lock_file
with lock_file(Path(sys.argv[1]), "waiting", wait=True):
    print("mine", flush=True)
"""

# Other packages are imported first: they choose by platform, and this one is theirs.
WITHOUT_POSIX = """
import os, pkgutil, signal, sys
import filelock, huggingface_hub, numpy, openai, pandas, psutil, pyarrow.parquet, pydantic, scipy.special, tqdm, yaml

for module in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[module] = None
for module, names in {
    os: "fork fchmod getuid geteuid getpgid killpg setsid register_at_fork set_blocking sched_getaffinity uname",
    signal: "SIGHUP SIGKILL SIGALRM pthread_sigmask",
}.items():
    for name in names.split():
        vars(module).pop(name, None)

import nfqa
for module in pkgutil.walk_packages(nfqa.__path__, "nfqa."):
    if not module.name.startswith(("nfqa.frameworks", "nfqa.__main__")):
        __import__(module.name)
frames = nfqa.read(nfqa.SAMPLE)
table = frames.answers[["question", "text"]].set_axis(["question", "answer"], axis=1)
table.to_csv("answers.csv", index=False)
table.to_parquet("answers.parquet")
for name in ("answers.csv", "answers.parquet"):
    assert nfqa.read(name).answers.text.tolist() == frames.answers.text.tolist()
from nfqa.files.paths import write_text
from pathlib import Path
write_text(Path("folder", "a.txt"), "one\\n")
print(len(frames.answers), nfqa.agreement(frames.answers.assign(score=1.0), frames.answers).empty)
"""


def test_the_library_is_imported_and_reads_files_without_what_posix_alone_has(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_POSIX]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["17"]), done.stderr
