"""How a command ends when it is interrupted: within seconds, with one message and exit code 130."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

MESSAGE = "Interrupted. Finished work is saved; run the same command to resume."
_PATIENCE = 3.0  # seconds


def run_command(command: Callable[[], int]) -> int:
    """Run a command. SIGINT, SIGTERM or SIGHUP ends this process with exit code 130 and one
    message.

    The first signal raises KeyboardInterrupt in the main thread. Later ones do nothing: they would
    break off what the first one tidies up. After three seconds the process ends in any case,
    whatever it waits for. A signal that is ignored stays so (nohup). In another thread, which gets
    no signals, the command is run as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return command()
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {kind: signal.getsignal(kind) for kind in kinds if signal.getsignal(kind) is not signal.SIG_IGN}

    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def interrupt(*_: object) -> NoReturn:
        for kind in handlers:
            signal.signal(kind, signal.SIG_IGN)
        raise KeyboardInterrupt

    wakeup = signal.set_wakeup_fd(writer)
    threading.Thread(target=_watch, args=(reader, kinds), daemon=True).start()
    try:
        for kind in handlers:
            signal.signal(kind, interrupt)
        return command()
    except KeyboardInterrupt:
        _end()
    finally:
        for kind, handler in handlers.items():
            signal.signal(kind, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writer)


def _watch(reader: int, kinds: Sequence[int]) -> None:
    """End the process some time after a signal, also where the main thread is busy outside Python
    and can't see it.
    """
    while kind := os.read(reader, 1):
        if kind[0] in kinds:
            time.sleep(_PATIENCE)
            _end()
    os.close(reader)


def _end() -> NoReturn:
    with suppress(OSError, ValueError):  # a terminal that was closed
        sys.stdout.flush()
        print(f"\n{MESSAGE}", file=sys.stderr, flush=True)
    os._exit(130)
