"""How a command ends, by itself, interrupted or killed: every process that it started ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

MESSAGE = "Interrupted. Finished work is saved; run the same command to resume."
MARK = "NFQA_STARTED_BY"  # a variable that the processes of a run have, as they inherit it
RUN = f"{os.environ.get(MARK, '')}{os.getpid()}-{time.time_ns()}/"  # begins as that of what started it
SIGNALS = list[int]()  # that came to the command; 0: it ended
_PATIENCE = 3.0  # seconds


def run_command(command: Callable[[], int]) -> int:
    """Run a command in the main thread. SIGINT, SIGTERM or SIGHUP ends this process with 130 and one message.

    The first signal raises KeyboardInterrupt; a second would break off what the first one tidies up, so it does
    nothing. After 3 seconds the process ends in any case, whatever it waits for. An ignored signal stays so (nohup).
    In another thread, or inside of another command, it is run as it is.
    """
    if threading.current_thread() is not threading.main_thread() or os.environ.get(MARK) == RUN:
        return command()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    kinds = [
        kind for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(kind) != signal.SIG_IGN
    ]
    ended = threading.Event()
    SIGNALS.clear()

    def interrupt(kind: int, _: object) -> None:
        if not SIGNALS:
            SIGNALS.append(kind)
            raise KeyboardInterrupt

    def end() -> None:
        while (kind := os.read(reader, 1)[0]) and kind not in kinds:
            pass
        if kind:
            ended.wait(_PATIENCE)
            end_processes(RUN)
            with suppress(OSError, ValueError):  # a terminal that was closed
                sys.stdout.flush()
                print(f"\n{MESSAGE}", file=sys.stderr, flush=True)
            os._exit(130)

    guard = subprocess.Popen(  # ends what is left, also where this process is killed
        [sys.executable, "-P", __file__, RUN], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, cwd="/", start_new_session=True,
    )  # fmt: skip
    os.environ[MARK] = RUN
    thread = threading.Thread(target=end, daemon=True)
    thread.start()
    handlers = {kind: signal.getsignal(kind) for kind in kinds}
    wakeup = signal.set_wakeup_fd(writer)  # written to at once, also where the main thread is busy outside Python
    try:
        for kind in kinds:
            signal.signal(kind, interrupt)
        return command()
    except KeyboardInterrupt:
        os.write(writer, bytes([signal.SIGINT]))
        raise
    finally:
        SIGNALS.append(0)
        os.write(writer, b"\0")
        ended.set()
        thread.join()  # after an interruption it ends the process
        signal.set_wakeup_fd(wakeup)
        for kind, handler in handlers.items():
            signal.signal(kind, handler)
        del os.environ[MARK]
        guard.communicate()
        os.close(reader)
        os.close(writer)


def end_processes(mark: str) -> None:
    """Kill the processes whose mark begins so, and their children, until none is left."""
    for _ in range(100):
        working = psutil.process_iter(["environ"])
        marked = [each for each in working if (each.info["environ"] or {}).get(MARK, "").startswith(mark)]
        for process in marked:
            with suppress(psutil.Error):
                for one in (*process.children(recursive=True), process):
                    one.kill()
        if not marked:
            return
        time.sleep(0.02)


if __name__ == "__main__":
    sys.stdin.read()  # until the process that started this one closes it, or is gone
    end_processes(sys.argv[1])
