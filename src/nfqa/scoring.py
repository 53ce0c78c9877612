"""Scores of a file of answers of any size: a hundred questions at a time, in this process or by
Ray's workers.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tqdm import tqdm

from nfqa import functions
from nfqa.files.answers import LACKS, say_expected
from nfqa.files.code import is_refusal
from nfqa.files.kinds import find_kind
from nfqa.files.paths import explain_parquet, lock_file, refuse_edited, start_outputs, write_atomically, write_output
from nfqa.files.records import QuestionSet
from nfqa.files.tables import escape_formula
from nfqa.job import LABELS, METHODS, TABLES, Job
from nfqa.judge.asking import Tally
from nfqa.kernels.texts import replace_surrogates
from nfqa.models.chat import UNSETTLED
from nfqa.models.roles import SMOLLM2, is_installed
from nfqa.opening import open_embedder, open_evaluator, open_judge

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator

_TEXTS = (
    "question", "question_text", "answer", "system", "metric", "view", "point_of_view", "missing", "note",
    "flags", "signature",
)  # fmt: skip
_NUMBERS = {"grade": "float", "score": "float", "rank": "Int64", "probability": "float"}
_MOST_ROWS = 100_000  # of scores.csv; scores.parquet holds all
_REPLY_TOKENS = 12  # about what a judge writes: a bare verdict
_RESUME = "run the same command to resume"
_TRIES = 5  # of a chunk whose worker dies
_OF_A_LINE = re.compile(r", (line|row) \d+: ")
_Work = tuple[QuestionSet, list[str]]  # a chunk and the methods that it lacks


@dataclass(frozen=True)
class Survey:
    """What a file holds: the sha256 and the number of questions of each chunk, counts, and what was
    skipped.
    """

    chunks: list[tuple[str, int]]
    counts: Counter[str]
    skipped: list[str]


class Outcome(NamedTuple):
    """What a chunk came to: its questions times the methods, and what is wrong, "" for nothing."""

    steps: int
    error: str


class Worker:
    """Scores chunks, one after the other; models are opened once.

    Args: dry: ask no language model; keep: whether verdicts go to a journal, which one process at a
        time may use; note: is told a method's name when it begins, with 0, and when it ends, with
        the questions that it has scored.
    """

    def __init__(
        self, job: Job, *, dry: bool = False, keep: bool = True, note: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        self.job = job
        self.dry = dry
        self._keep = keep
        self._open = ExitStack()
        self._note = note

    def score_chunk(self, chunk: QuestionSet, methods: list[str]) -> Outcome:
        """Score a chunk by some methods, and keep each table. What is wrong is returned, as Ray
        would wrap it.
        """
        frames = functions.read(chunk)  # how texts were changed is said of the whole file, in `_copy_scores`
        try:
            for method in methods:
                self._note(method, 0)
                scores = self.score(method, frames)
                unsettled = bool(scores.missing.isin(UNSETTLED).any())  # asked again by the next run
                with write_atomically(self.job.find_part(method, chunk.sha256, unsettled=unsettled)) as scratch:
                    scores.to_parquet(scratch, index=False, compression="zstd")
                self._note(method, len(chunk.questions))
        except (ValueError, OSError) as error:
            if not is_refusal(error):
                raise
            return Outcome(0, f"{error}. Finished parts are saved; {_RESUME}.")
        finally:
            self.forget()
        return Outcome(len(methods) * len(chunk.questions), "")

    def score(self, method: str, frames: functions.Frames) -> pd.DataFrame:
        """A row per answer and metric of the method; of coverage a row per point of view."""
        import pandas as pd

        from nfqa.metrics.flags import add_flags
        from nfqa.metrics.grades import order_by_answer

        needs = METHODS[method].needs
        if frames.has(needs):
            scores = self._score(method, frames)
        else:
            bare = frames.answers.assign(missing=frames.lacks.fillna(f"needs {needs}"), signature="")
            bare = add_flags(bare, frames.flags)
            scores = pd.concat(bare.assign(metric=name) for name in self.job.list_metrics(method))
        unscored = scores.missing.isin([*LACKS.values(), f"needs {needs}"])
        scores = scores.assign(signature=scores.signature.mask(unscored, ""))
        scores = order_by_answer(scores, frames.answers)
        scores["question_text"] = scores.question.map(frames.texts_by_name)
        texts = scores.reindex(columns=_TEXTS).astype(object).fillna("").astype(str)
        return texts.join(scores.reindex(columns=[*_NUMBERS]).astype(_NUMBERS))

    def _score(self, method: str, frames: functions.Frames) -> pd.DataFrame:
        import pandas as pd

        match method:
            case "pd":
                scores = functions.perspective_diversity(frames, self.evaluator)
                share = scores.share.where(scores.missing == "")
                unknown = share.isna() & (scores.missing == "")
                missing = scores.missing.mask(unknown, "no_share")
                return pd.concat([scores, scores.assign(metric="pd_share", score=share, missing=missing)])
            case "da":
                return functions.dispute_awareness(frames, SMOLLM2 if self.job.has_detector else self.judge)
            case "coverage" if self.job.reader == "embedded":
                return functions.coverage(frames, "embedded", embedder=self.embedder)
            case "coverage":
                return functions.coverage(frames, self.job.reader or self.judge)
            case "linkage":
                return functions.linkage(frames, self.judge, embedder=self.embedder)
            case "pointwise" | "pointwise_ref" | "pairwise":
                return functions.linkage(frames, self.judge, method=method)
        return self._score_overlap(method, frames)

    def _score_overlap(self, method: str, frames: functions.Frames) -> pd.DataFrame:
        from nfqa.metrics.overlap import score_overlap
        from nfqa.metrics.references import gather_draws
        from nfqa.metrics.systems import complete_scores

        draws = gather_draws(frames.readable, frames.references, frames.texts_by_name, ungraded=False)
        embedder = self.embedder if "embedder" in METHODS[method].roles else None
        scores = score_overlap(draws, self.job.list_metrics(method), embedder)
        return functions.finish_scores(frames, complete_scores(scores, frames.readable, missing="needs references"))

    @property
    def _journal(self) -> str | None:
        path = os.environ.get("NFQA_JOURNAL") or str(self.job.out / "verdicts.sqlite")
        return path if self._keep and (Path(path).exists() or not self.dry) else None

    @property
    def tally(self) -> Tally:
        """What language models were asked, or, dry, would be."""
        asker = getattr(self.__dict__.get("judge"), "asker", None)
        return asker.tally if asker else Tally()

    def forget(self) -> None:
        """Let go of what was kept of the texts, so that memory stays flat; the models stay."""
        from nfqa.metrics.overlap import forget_texts
        from nfqa.models.reader import open_reader

        forget_texts()
        if is_installed(SMOLLM2):
            open_reader().forget()
        for opened in {"embedder", "evaluator"} & self.__dict__.keys():
            self.__dict__[opened].forget()

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator role."""
        return open_evaluator(self.job.evaluator, bar=False)

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder role."""
        return open_embedder(self.job.embedder)

    @cached_property
    def judge(self) -> str | LanguageJudge:
        """The judge role: "embedded", or a language model."""
        if self.job.has_embedded_judge:
            return self.job.judge or "embedded"
        judge = self._open.enter_context(
            open_judge(self.job.judge, self.job.prompts, self._journal, max_tokens=self.job.max_tokens, bar=False)
        )
        judge.asker.dry = self.dry
        return judge


def survey_file(job: Job) -> Survey:
    """Read a file from end to end, so that what is wrong with it is said before anything is scored.

    Raises: ValueError naming file and line for what doesn't fit, unless it is skipped; or where no
        answer is left.
    """
    survey = Survey([], Counter(), [])
    try:
        for chunk in job.read_chunks(survey.skipped, survey.counts):
            survey.chunks.append((chunk.sha256, len(chunk.questions)))
    except ValueError as error:
        if not _OF_A_LINE.search(str(error)):
            raise
        can_skip = not job.skip_bad and find_kind(job.path) == "lines"
        ways = "Correct the line, or skip it with --skip-bad" if can_skip else "Correct it"
        raise ValueError(f"{error}. {ways}, and {_RESUME}.") from None
    if not survey.chunks and not survey.skipped:
        raise ValueError(f"{job.path}: holds no answer; expected {say_expected(job.path)}")
    return survey


def score_file(job: Job, *, engine: str, progress: bool) -> pd.DataFrame:
    """Score every chunk that has no scores yet; then summarise all.

    Raises: ValueError for what can't be read or written, with file and line; what was finished
        stays.
    """
    kind, _, address = engine.partition(":")
    if kind not in ("local", "ray"):
        raise ValueError(f"engine is {engine!r}; expected local, ray or ray:ADDRESS")
    if kind == "ray" and job.judge.startswith("openai:"):
        raise ValueError(f"judge={job.judge!r} is a server, which one process asks; leave out --engine {engine}")
    survey = survey_file(job)
    missing = {chunk: job.list_missing(chunk) for chunk, _ in survey.chunks}  # leaves no folder if a model can't be had
    total = len(job.methods) * sum(count for _, count in survey.chunks)
    done = total - sum(count * len(missing[chunk]) for chunk, count in survey.chunks)
    start_outputs(job.out)
    message = f"{job.out}: another run writes there; wait for it, or name another folder"
    bar_format = "{desc}: {percentage:3.0f} %|{bar}| {elapsed}, {remaining} left"
    bar = tqdm(total=total, initial=done, desc="scoring", bar_format=bar_format, disable=not progress)
    with lock_file(job.out / ".lock", message), bar:

        def note(method: str, count: int) -> None:
            bar.set_description_str(f"scoring by {method}")
            bar.update(count)

        todo = _list_work(job, missing)
        if kind == "ray":
            outcomes = _run_ray(job, todo, address)
        else:
            worker = Worker(job, note=note)
            outcomes = (worker.score_chunk(*work) for work in todo)
        for outcome in outcomes:
            if outcome.error:
                raise ValueError(outcome.error)
            done += outcome.steps
            bar.update(done - bar.n)  # Ray's workers note nothing
        return _write_tables(job, survey)


def _list_work(job: Job, missing: Mapping[str, list[str]]) -> Iterator[_Work]:
    """The chunks that lack scores. Raises: ValueError where the file is not as it was surveyed."""
    for chunk in job.read_chunks([], Counter()):
        if chunk.sha256 not in missing:
            raise ValueError(f"{job.path}: has changed while it was scored; {_RESUME}")
        if missing[chunk.sha256]:
            yield chunk, missing[chunk.sha256]


def _run_ray(job: Job, todo: Iterable[_Work], address: str) -> Iterator[Outcome]:
    """Score chunks by Ray, one at a time per GPU, or per core where there is none.

    A chunk whose worker dies is scored again.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not find_spec("ray"):
        raise ValueError("ray is not installed: pip install 'nfqa[ray]'")
    import ray

    if not ray.is_initialized():
        handler = signal.getsignal(signal.SIGTERM)
        ray.init(address or None, log_to_driver=False, include_dashboard=False)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's own says nothing of what is saved
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    kind = "GPU" if resources.get("GPU") else "CPU"
    needs: dict[str, Any] = {f"num_{kind.lower()}s": 1}
    score = ray.remote(**needs, max_retries=_TRIES, max_calls=0)(_score_on_ray)
    most = 2 * int(resources[kind])  # at work or waiting, so that memory stays flat
    pending: list[Any] = []
    try:
        for work in todo:
            if len(pending) >= most:
                (done,), pending = ray.wait(pending)
                yield ray.get(done)
            pending.append(score.remote(job, *work))
        while pending:
            (done,), pending = ray.wait(pending)
            yield ray.get(done)
    except ray.exceptions.RayError as error:
        raise ValueError(f"Ray stopped: {str(error).partition(chr(10))[0]}") from error
    finally:
        for left in pending:
            ray.cancel(left)


def _score_on_ray(job: Job, chunk: QuestionSet, methods: list[str]) -> Outcome:
    return _open_worker(job).score_chunk(chunk, methods)


@cache
def _open_worker(job: Job) -> Worker:
    """The worker of this process, whose models are opened once. It keeps no verdicts: a journal has
    one process.
    """
    return Worker(job, keep=False)


def _write_tables(job: Job, survey: Survey) -> pd.DataFrame:
    """Write TABLES from the kept scores.

    scores.csv holds all scores where they have at most 100,000 rows. differences.csv is by
    `compare_systems`, from the system that comes first. Means and differences are with and without
    the answers whose flags harm a score, as the column `answers` says.
    Raises: ValueError where no line is left.
    """
    import pandas as pd

    from nfqa.metrics.systems import average_answers, compare_systems, count_both_ways, summarise_systems

    for name in TABLES:
        refuse_edited(job.out / name)
        (job.out / name).unlink(missing_ok=True)
    if survey.skipped:
        _write_table(job.out / "skipped.csv", pd.DataFrame({"why": map(replace_surrogates, survey.skipped)}))
    if not survey.chunks:
        count = f"{len(survey.skipped):,}"
        raise ValueError(f"{job.path}: every line was skipped ({count}); {job.out}/skipped.csv says why")
    by = ["metric", "answers"]
    digest = _Digest()
    with write_output(job.out / "scores.parquet") as scratch:
        means, lost = average_answers(map(count_both_ways, _copy_scores(job, survey, scratch, digest)), by, every="")
    warnings = survey.counts + digest.flags + digest.notes
    _write_table(job.out / "warnings.csv", pd.DataFrame(warnings.items(), columns=["what", "count"]))
    if digest.rows <= _MOST_ROWS:
        _write_table(job.out / "scores.csv", pd.read_parquet(job.out / "scores.parquet"))
    summary = summarise_systems(means, lost, by)
    summary.insert(1, "label", summary.metric.map(LABELS))
    summary["signature"] = summary.metric.map(digest.signatures).fillna("")
    _write_table(job.out / "summary.csv", summary)
    systems = [name for name in summary.system.unique() if name]
    if len(systems) > 1:
        differences = compare_systems(means[means.system != ""], systems[0], by)
        differences.insert(1, "label", differences.metric.map(LABELS))
        _write_table(job.out / "differences.csv", differences)
    return summary


def _write_table(path: Path, table: pd.DataFrame) -> None:
    with write_output(path) as scratch:
        table.map(escape_formula).to_csv(scratch, index=False, lineterminator="\n")


@dataclass
class _Digest:
    """What the scores of a file say beside their values: counts by name, and the first signature of
    each metric.
    """

    rows: int = 0
    flags: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    signatures: dict[str, str] = field(default_factory=dict)


def _copy_scores(job: Job, survey: Survey, path: Path, digest: _Digest) -> Iterator[pd.DataFrame]:
    """The kept scores of each chunk by each method, which are written to one file and told of as
    they pass.
    """
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    from nfqa.metrics.references import sign_texts

    writer = None
    for method in job.methods:
        flags = Counter[str]()
        for chunk, _ in survey.chunks:
            scores = sign_texts(_read_part(job, method, chunk), survey.counts)
            notes = scores[scores.note != ""]
            digest.notes.update((notes.metric + ": " + notes.note).value_counts().to_dict())
            flagged = scores.drop_duplicates(["question", "answer"]).query("flags != ''")
            flags.update(("flag " + flagged["flags"].str.split("; ").explode()).value_counts().to_dict())
            digest.signatures = (
                scores[scores.signature != ""].groupby("metric").signature.first().to_dict() | digest.signatures
            )
            digest.rows += len(scores)
            table = pyarrow.Table.from_pandas(scores, preserve_index=False)
            writer = writer or ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
            yield scores
        digest.flags |= flags  # a method that reads any language has no flag for another than English
    if writer:
        writer.close()


def _read_part(job: Job, method: str, chunk: str) -> pd.DataFrame:
    """The kept scores of a chunk. Raises: ValueError for a file that is damaged."""
    import pandas as pd

    settled = job.find_part(method, chunk)
    path = settled if settled.exists() else job.find_part(method, chunk, unsettled=True)
    with explain_parquet(path, f"remove it, and {_RESUME}"):
        return pd.read_parquet(path)


def plan_file(job: Job) -> pd.DataFrame:
    """What scoring would ask of a language model as judge, counted over the whole file; nothing is
    asked or written.

    Returns: one row a method: method; questions, left to score; requests, each once; tokens,
        about those of the prompts; cost, at PRICE_IN and PRICE_OUT, of 12 written tokens a verdict. NaN
        for a method that asks no such model.
    """
    import pandas as pd

    from nfqa.judge.limits import Limits

    survey = survey_file(job)
    if not survey.chunks:
        raise ValueError(f"{job.path}: every line would be skipped, the first as {survey.skipped[0]}")
    missing = {chunk: job.list_missing(chunk) for chunk, _ in survey.chunks}
    workers = {method: Worker(job, dry=True) for method in job.methods if job.asks(method)}
    for chunk, methods in _list_work(job, missing) if workers else ():
        frames = functions.read(chunk)
        for method in workers.keys() & methods:
            workers[method].score(method, frames)
    rows = []
    for method in job.methods:
        left = sum(count for chunk, count in survey.chunks if method in missing[chunk])
        row: dict[str, Any] = {"method": method, "questions": left}
        if method in workers:
            tally = workers[method].tally
            tokens = round(tally.tokens_to_ask)
            cost = Limits.from_environment().price(tokens, tally.requests * _REPLY_TOKENS)
            row |= {"requests": tally.requests, "tokens": tokens, "cost": cost}
        rows.append(row)
    columns = ["method", "questions", "requests", "tokens", "cost"]
    return pd.DataFrame(rows, columns=columns).astype({"requests": "Int64", "tokens": "Int64", "cost": float})
