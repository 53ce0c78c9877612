"""Judge long answers to questions that have no single right answer, by the methods of LINKAGE and DebateQA.

    import nfqa

    frames = nfqa.read("my.jsonl")                                  # answers, references, points of view
    nfqa.perspective_diversity(frames, evaluator="embedded:small")  # DebateQA's P.D., lower is better
    nfqa.coverage(frames)                                           # which points of view an answer states
    nfqa.linkage(frames, judge="embedded")                          # LINKAGE's score and rank in the list
    nfqa.dispute_awareness(frames)                                  # DebateQA's D.A., 0 or 1, and its probability
    nfqa.agreement(scores, grades)                                  # tau, rho and r inside each question
    nfqa.summarise(scores)                                          # each system's mean, over questions

Five folders, each importing only from those before it: `kernels` (numbers in, numbers out), `files` (users' files to
records and frames), `models` (text to vectors, losses), `judge` (asking a language model), `metrics` (a paper's method,
frame to frame). Importing `nfqa` loads none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nfqa.functions import (
    EMBEDDER,
    SAMPLE,
    Frames,
    agreement,
    answer_questions,
    coverage,
    dispute_awareness,
    linkage,
    perspective_diversity,
    read,
    summarise,
)  # fmt: skip

if TYPE_CHECKING:
    import pandas as pd

__version__ = "0.4.0"
__all__ = [
    "SAMPLE", "Frames", "agreement", "answer_questions", "coverage", "dispute_awareness", "linkage",
    "perspective_diversity", "read", "score", "summarise",
]  # fmt: skip


def score(
    answers: str | Path,
    out: str | Path,
    methods: Sequence[str] = ("pd", "da", "linkage", "rouge", "bertscore"),
    *,
    evaluator: str = "embedded:small",
    judge: str = "embedded",
    embedder: str = EMBEDDER,
    prompts: str = "own",
    engine: str = "local",
    workers: int = 0,
    gpus: float = 0,
    shard: int = 1_000,
    skip_bad: bool = False,
    dry_run: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Score a file of any size, part by part, into a folder; the same call goes on where it was stopped.

    Args: answers: a file as `read` takes it (in Parquet, the rows of one question beside each other); out: the folder,
        of this file alone, for `parts/METHOD-NUMBER.parquet` (a row an answer and metric), `summary.csv`, `noticed.csv`
        and, where lines were left out, `skipped.csv`; methods: "pd", "da", "linkage", "rouge" (1, 2
        and L, as the released code), "bertscore"; judge: of linkage and D.A.; embedder, evaluator, prompts: as the
        functions of those names; engine: "local", or "ray" or "ray:ADDRESS" for Ray's workers, which need the same file
        system and package; workers: how many of these, by default one a core or GPU; gpus: of each worker, such as 0.5;
        shard: lines of a part, which is written whole or not at all, and again where its answers, model or code
        changed; skip_bad: leave out lines that don't fit, and list them; dry_run: say what it would take
        (`nfqa.scoring.estimate`).
    Returns: a row a metric and system ("" for all answers): the mean over questions of an answer's score, `value` with
        its 95 % interval `low` to `high`, n questions, dropped answers and why.
    Raises: ValueError naming file, line and field for what doesn't fit, or where no line is left, the folder holds
        scores of another file, or another run writes there.
    """
    from nfqa.files.json_lines import suggest
    from nfqa.scoring import METHODS, Job, estimate, score_file

    methods = tuple(dict.fromkeys(methods))
    for name in methods or ("",):
        if name not in METHODS:
            raise ValueError(f"there is no method {name!r}; {suggest(name, METHODS)}known: {', '.join(METHODS)}")
    path, folder = Path(answers).resolve(), Path(out).resolve()
    job = Job(str(path), str(folder), methods, evaluator, judge, embedder, prompts, skip_bad)
    if dry_run:
        return estimate(job, shard=shard)
    return score_file(job, shard=shard, engine=engine, workers=workers, gpus=gpus, progress=progress)
