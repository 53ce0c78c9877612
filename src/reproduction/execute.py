"""One artefact, in a process that the runner starts: papermill runs the notebook, its files are moved."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from nfqa.files.code import PACKAGES
from nfqa.files.json_lines import read_json
from nfqa.files.paths import copy_file, hash_file, lock_file, write_text
from nfqa.interruption import RUN, SIGNALS, end_processes
from reproduction.check import list_files
from reproduction.keys import Key, Record, explain_staleness, hash_result, read_record
from reproduction.notebooks import drop_answer, read_cells, read_parameters
from reproduction.place import Place

warnings.filterwarnings("ignore", module="papermill|nbclient|jupyter_client|zmq")  # not the notebook's own


def make_artefact(place: Place, identifier: str) -> int:
    """Run the notebook of an artefact whose key is written, and move what it made into place on success.

    A language model is asked by one notebook at a time: verdicts that two share are paid once, and a model in process
    fills a device alone. Once asking has failed, no other notebook of the run asks.
    Returns: 0; 1 where it failed, with the reason on stdout; the last result stays then.
    """
    scratch = place.work / "scratch" / identifier
    started = time.monotonic()
    key = Key.model_validate_json((place.work / "keys" / f"{identifier}.json").read_bytes())
    read = [part.removeprefix("result ") for part in key.parts if part.startswith("result ")]  # perhaps made just now
    parts = key.parts | {f"result {name}": hash_result(place, f"{Path(identifier).parent}/{name}") for name in read}
    record = read_record(place, identifier)
    if record and not explain_staleness(record, parts, place):
        return 0
    lock = place.root / "build" / "model-lock"
    stopped = place.work / "scratch" / "asking-failed"
    alone = lock_file(lock, "waiting for the model", wait=True) if key.fills_machine else nullcontext()
    with alone:
        scratch.mkdir(parents=True)
        os.environ |= {
            "NFQA_GIVEN": json.dumps({"parameters": key.parameters, "size": key.size, "work": str(place.work)}),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            # Two notebooks at a time on two cores, sums in one order; but a model in process has the machine alone.
            "OMP_NUM_THREADS": str(os.cpu_count() or 1) if key.fills_machine else "1",
            # tqdm.auto, which transformers imports, misses widgets that nothing here uses
            "PYTHONWARNINGS": ",".join(filter(None, [os.getenv("PYTHONWARNINGS"), "ignore:IProgress not found"])),
        }
        if key.asks and stopped.exists():
            failure = "not run, because the model failed before; see above"
        else:
            failure = execute_notebook(Path(key.notebook), scratch / "executed.ipynb", key.parameters, place.root)
        end_processes(RUN)  # what the notebook started ends with it
        name = scratch.name
        if not failure and not (scratch / f"{name}.csv").is_file():
            failure = "it ended without writing a result; its last cell must be lab.write"
        if failure:
            print(failure)
            if key.asks:
                stopped.touch()
            return 1
    if not place.is_full or read_parameters(Path(key.notebook))["artefact"] != identifier:
        drop_answer(scratch / "executed.ipynb")
    files = {f"{name}{ending}": path for ending, path in list_files(place.work, identifier).items()}
    files |= {"executed.ipynb": place.notebooks / f"{identifier}.ipynb"}
    for source, file in files.items():
        if (scratch / source).is_file():
            copy_file(scratch / source, file)
        else:
            file.unlink(missing_ok=True)  # what the notebook no longer makes must not look as if it did
    outputs = {str(file.relative_to(place.root)): hash_file(file) for file in files.values() if file.is_file()}
    usage = scratch / f"{name}.usage.json"
    record = Record(
        parts=parts, outputs=outputs, missing=read_json(usage)["missing"] if usage.is_file() else {},
        minutes=round((time.monotonic() - started) / 60, 3),
    )  # fmt: skip
    shutil.rmtree(scratch)
    write_text(place.runs / f"{identifier}.json", record.model_dump_json(indent=1))  # last: before, it is stale
    return 0


def execute_notebook(notebook: Path, executed: Path, parameters: Mapping[str, Any], folder: Path) -> str:
    """Run a notebook with its working directory at `folder`; returns why it failed, "" on success."""
    # jsonschema, behind papermill, takes up to 2 s to compile a grammar of IRIs, a format that no notebook has; it does
    # without what can't be imported.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import papermill

    options = {"kernel_name": "python3", "progress_bar": False, "cwd": folder, "start_timeout": 120}
    options |= {"extra_arguments": ["--log-level=ERROR"]}  # a kernel warns of its own local connection
    for _ in range(2):
        try:
            papermill.execute_notebook(notebook, executed, dict(parameters), **options)
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
            state = "died in the middle of the notebook, out of memory perhaps" if begun else "did not start"
            failure = f"the kernel {state} ({error})"
            if begun or SIGNALS:
                break
    return failure
