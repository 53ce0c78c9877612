"""A notebook, run in a kernel: a process group of its own, which ends with the command that started
it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nfqa.files.code import PACKAGES
from reproduction.notebooks import ANSWER

_ENVIRONMENT = {
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",  # two notebooks at a time on two cores, and sums in one order
}
_IGNORED = "ignore:IProgress not found"  # a warning of tqdm.auto, which transformers imports, of widgets
_CLIENTS = set[Any]()  # of the kernels at work
_LONGEST = 10_000  # characters of a failure that are shown


def execute_notebook(
    notebook: Path,
    executed: Path,
    parameters: Mapping[str, Any],
    folder: Path,
    *,
    environment: Mapping[str, str] | None = None,
    with_answer: bool = False,
) -> str:
    """Run a notebook with its working directory at `folder`; returns why it failed, "" on success.

    Not in the main thread, in which nbclient would take Ctrl-C for itself. A kernel looks each
    second whether the process that started it is still there, and ends if not; `end_kernels` is
    faster.

    Args: environment: variables for the kernel alone. with_answer: keep the answer, which is the
        committed run's.
    """
    # jsonschema, behind nbformat, takes up to 2 s to compile a grammar of IRIs, a format that no notebook has; it does
    # without what can't be imported.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    warnings.filterwarnings("ignore", module="papermill|nbclient|jupyter_client|zmq")  # not the notebook's own
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from papermill.iorw import load_notebook_node
    from papermill.parameterize import parameterize_notebook

    node = parameterize_notebook(load_notebook_node(str(notebook)), dict(parameters))
    node.cells = [cell for cell in node.cells if with_answer or ANSWER not in cell.metadata.get("tags", [])]
    variables = os.environ | _ENVIRONMENT | dict(environment or {})
    variables["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), _IGNORED]))
    arguments = ["--log-level=ERROR"]  # a kernel warns of its own local connection
    client = NotebookClient(node, kernel_name="python3", startup_timeout=120, extra_arguments=arguments)
    _CLIENTS.add(client)
    try:
        asyncio.run(client.async_execute(cwd=str(folder), env=variables))
    except CellExecutionError as error:
        return _say_failure(error)
    except DeadKernelError as error:
        return f"the kernel died, out of memory perhaps ({error})"
    except RuntimeError as error:
        return f"the kernel did not start ({error})"
    finally:
        _end_group(client)
        _CLIENTS.discard(client)
    nbformat.write(node, executed)  # type: ignore[no-untyped-call]
    return ""


@contextmanager
def end_with_kernels(pool: ThreadPoolExecutor) -> Iterator[ThreadPoolExecutor]:
    """A pool whose threads run notebooks; where the block is left, by an interruption or an error,
    the kernels at work are killed.
    """
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        while _CLIENTS:
            for client in list(_CLIENTS):
                _end_group(client)
            time.sleep(0.1)


def _end_group(client: Any) -> None:
    """Kill a kernel, and what it started in its process group."""
    provisioner = getattr(client.km, "provisioner", None)
    group = getattr(provisioner, "pgid", None)
    if group:  # it has started
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def _say_failure(error: Any) -> str:
    """What a refusal of our own says; of another error the cell and where it was raised."""
    raised_at = error.traceback.rpartition("File ")[2]
    ours = any(package in raised_at for package in PACKAGES)
    if ours and error.ename in ("ValueError", "UnreachableError", "StoppedError"):
        return str(error.evalue)
    return str(error)[-_LONGEST:]
