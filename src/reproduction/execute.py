"""Running one notebook by papermill, in a kernel of its own. The kernel ends by itself when its runner is gone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import papermill
from jupyter_core.utils import ensure_event_loop
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from nfqa.files.code import PACKAGES
from nfqa.interruption import SIGNALS
from reproduction.notebooks import read_cells

warnings.filterwarnings("ignore", module="papermill|nbclient|jupyter_client|zmq")  # not the notebook's own


class _Engine(NBClientEngine):  # type: ignore[misc]
    """papermill's own engine, but for the kernel's environment, folder and log."""

    @classmethod
    def execute_managed_notebook(
        cls, notebook: Any, kernel_name: str, *, environment: Mapping[str, str], folder: Path, log: IO[bytes], **_: Any
    ) -> None:
        client = PapermillNotebookClient(notebook, kernel_name=kernel_name, startup_timeout=120)
        client.execute(env=dict(environment), cwd=str(folder), stdout=log, stderr=log)


papermill_engines.register("nfqa", _Engine)


def execute_notebook(
    notebook: Path, executed: Path, parameters: Mapping[str, Any], environment: Mapping[str, str], folder: Path
) -> str:
    """Run a notebook with its working directory at `folder`; returns why it failed, "" on success."""
    with closing(ensure_event_loop()), executed.with_name("log.txt").open("w+b") as log:  # the loop of this thread
        for _ in range(2):
            try:
                papermill.execute_notebook(
                    notebook, executed, parameters=dict(parameters), kernel_name="python3", progress_bar=False,
                    engine_name="nfqa", environment=environment, folder=folder, log=log,
                )  # fmt: skip
                return ""
            except papermill.PapermillExecutionError as error:
                if error.ename == "KeyboardInterrupt":  # a signal to all processes of a run came here first
                    raise KeyboardInterrupt from None
                number = "?" if error.exec_count is None else error.exec_count
                ours = any(package in "".join(error.traceback[-2:]) for package in PACKAGES)
                if ours and error.ename in ("ValueError", "UnreachableError", "StoppedError"):
                    return f"cell [{number}]: {error.evalue}"  # our own refusal says what to do
                frames = "\n".join(error.traceback[-6:])
                return f"cell [{number}] failed:\n\n{error.source}\n\n{frames}"
            except RuntimeError as error:  # two kernels that start at once can be given one port: tried once more
                begun = any(cell.get("execution_count") for cell in read_cells(executed))  # saved after each cell
                what = "died in the middle of the notebook, out of memory perhaps" if begun else "did not start"
                log.seek(0)
                lines = log.read().decode(errors="replace").splitlines()
                said = "".join(f"\n{line}" for line in lines if not line.startswith("[IPKernelApp]"))
                failure = f"the kernel {what} ({error}){said}"
                if begun or SIGNALS:
                    break
    return failure
