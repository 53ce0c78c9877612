"""What the runner starts in a process of its own: a notebook, or the embedding of all texts that notebooks will need.

`python -m nfqa.lab.execute JOB.json` and `python -m nfqa.lab.execute vectors REQUEST`.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
import time
import warnings
from pathlib import Path


def execute(job: Path) -> int:
    """Run the notebook that a job file names; 0 on success, 1 with the failing cell on standard error."""
    task = json.loads(job.read_text(encoding="utf-8"))
    _end_with(task["runner"])
    # jsonschema, behind papermill, takes up to 2 s to compile a grammar of IRIs, a format that no notebook has; it does
    # without what can't be imported.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import papermill

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # lets papermill end its kernel
    os.environ |= task["environment"]
    quiet = "ignore:IProgress not found"  # tqdm.auto, which transformers imports, misses widgets that nothing here uses
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), quiet]))
    warnings.filterwarnings("ignore", module="papermill|nbclient|jupyter_client|zmq")  # not the notebook's own
    for attempt in (1, 2):
        try:
            papermill.execute_notebook(
                task["notebook"], task["output"], parameters=task["parameters"], cwd=task["cwd"],
                kernel_name="python3", progress_bar=False, log_output=False, start_timeout=120,
            )  # fmt: skip
            return 0
        except papermill.PapermillExecutionError as error:
            number = error.exec_count if error.exec_count is not None else "?"
            ours = "nfqa" in "".join(error.traceback[-2:])
            if ours and error.ename in ("ValueError", "UnreachableError", "StoppedError"):
                print(f"cell [{number}]: {error.evalue}", file=sys.stderr)  # our own refusal says what to do
            else:
                frames = "\n".join(error.traceback[-6:])
                print(f"cell [{number}] failed:\n\n{error.source}\n\n{frames}", file=sys.stderr)
            return 1
        except RuntimeError as error:  # two kernels that start at once can be given one port: tried once more
            begun = _has_begun(Path(task["output"]))
            if begun or attempt == 2:
                what = "died in the middle of the notebook, out of memory perhaps" if begun else "did not start"
                print(f"the kernel {what} ({error})", file=sys.stderr)
                break
    return 1


def prepare_vectors(request: str) -> int:
    """Fill the cache of vectors for the datasets, and the file of answers, that a JSON request names."""
    task = json.loads(request)
    _end_with(task["runner"])
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from nfqa.data.load import load
    from nfqa.data.own_answers import read_answers
    from nfqa.data.paths import find_cache, find_root
    from nfqa.models.embed import Embedder

    root = find_root()
    embedder = Embedder(task["embedder"], find_cache(root, "embeddings"), progress=True)
    sets = [load(name, data=task["data"], limit=task["limit"], root=root) for name in task["datasets"]]
    texts = [text for dataset in sets for text in dataset.texts()]
    if "answers" in task:
        from nfqa.metrics.coverage import split_answer
        from nfqa.metrics.flags import remove_question

        own = read_answers(task["answers"], task.get("questions", ""))
        answers = [(question, answer.text) for question in own.questions for answer in question.answers]
        texts += own.texts() + [remove_question(text, question.text) for question, text in answers]
        texts += [part for question, text in answers if question.partial_answers for part in split_answer(text)]
    embedder.prepare(texts)
    return 0


def _has_begun(output: Path) -> bool:
    """Whether a cell of the executed notebook has run: papermill saves it after each."""
    try:
        cells = json.loads(output.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError):
        return False
    return any(cell.get("execution_count") for cell in cells)


def _end_with(runner: int) -> None:
    """A runner that was killed can't end its jobs, so they watch it: a stray one would ask and write beside the next.

    runner: its process. One that is gone already was killed before this was read.
    """
    if os.getppid() != runner:
        sys.exit(1)

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    try:
        sys.exit(prepare_vectors(sys.argv[2]) if sys.argv[1] == "vectors" else execute(Path(sys.argv[1])))
    except (ValueError, OSError, sqlite3.Error) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
