"""Scores of a file of answers of any size: it is cut into parts, each scored by itself, in this process or by Ray."""

from __future__ import annotations

import os
import time
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from nfqa import functions
from nfqa.files.answers import read_part
from nfqa.files.code import is_refusal
from nfqa.files.parts import Part, read_note, write_table
from nfqa.files.paths import lock_file, refuse_edited, start_outputs, write_output
from nfqa.files.tables import escape_formula
from nfqa.job import LABELS, METHODS, Job
from nfqa.judge.asking import Tally, merge_tallies
from nfqa.models.chat import UNSETTLED
from nfqa.models.roles import SMOLLM2, is_installed
from nfqa.opening import open_embedder, open_evaluator, open_judge

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator

_TEXTS = (
    "question", "question_text", "answer", "system", "metric", "view", "point_of_view", "missing", "guarded", "note",
    "flags", "signature",
)  # fmt: skip
_NUMBERS = {"grade": "float", "score": "float", "rank": "Int64", "probability": "float"}
_MOST_ROWS = 100_000  # of scores.csv; parts hold all
_TRIED = 16  # questions, to tell how long all will take
_WRITTEN = 12  # tokens that a judge writes, about: a bare verdict


class Worker:
    """Scores parts, one after the other; models are opened once.

    Args: note: is told a method's name when it begins, with 0, and when it ends, with the lines that it has scored.
    """

    def __init__(self, job: Job, *, dry: bool = False, note: Callable[[str, int], None] = lambda *_: None) -> None:
        self.job = job
        self.dry = dry
        self._open = ExitStack()
        self._note = note

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Score a part by the methods that it lacks. What is wrong is returned: Ray would wrap an exception."""
        part = Part(**row)
        job = self.job
        skipped: list[str] | None = [] if job.skip_bad else None
        advice = "correct the line, or skip it with --skip-bad, and "
        try:
            answered = read_part(job.path, part, skipped)
            frames = functions.read(answered)
            advice = ""
            flags = frames.flags["flags"]
            flagged = "flag " + flags[flags != ""].str.split("; ").explode()
            of_part = {
                "part": part.digest, "source": job.source, "skipped": skipped or [],
                "warnings": answered.warnings | flagged.value_counts().to_dict(),
            }  # fmt: skip
            for method in (methods := job.list_missing(part)):
                self._note(method, 0)
                scores = self.score(method, frames)
                late = scores.missing.isin(UNSETTLED).any()  # asked again by the next run
                texts = scores.melt("metric", ["note", "guarded"], value_name="text").query("text != ''")
                note = of_part | {
                    "made_from": "" if late else job.sign(method, part), "rows": len(scores),
                    "of_rows": (texts.metric + ": " + texts.text).value_counts().to_dict(),
                    "signatures": scores[scores.signature != ""].groupby("metric").signature.first().to_dict(),
                }  # fmt: skip
                write_table(job.find(method, part.number), scores, note)
                self._note(method, part.lines)
        except (ValueError, OSError) as error:
            if not is_refusal(error):
                raise
            saved = "Finished parts are saved; " if any((job.out / "parts").glob("*.parquet")) else ""
            advice = f"{saved}{advice}run the same command to resume."
            return {"steps": 0, "error": f"{error}. {advice[0].upper()}{advice[1:]}"}
        finally:
            self.forget()
        return {"steps": part.lines * len(methods), "error": ""}

    def score(self, method: str, frames: functions.Frames) -> pd.DataFrame:
        """A row per answer, those excluded too, and metric of the method; of coverage a row per point of view."""
        import pandas as pd

        from nfqa.metrics.flags import add_flags
        from nfqa.metrics.grades import add_unscored
        from nfqa.metrics.references import sign_texts

        metrics = self.job.list_metrics(method)
        needs = METHODS[method].needs
        if frames.answers.empty or getattr(frames, needs).empty:
            lacking = frames.answers.assign(missing=f"needs {needs}", metric="", signature="")
            lacking = add_flags(lacking, frames.flags)
            lacking = add_unscored(lacking, frames.answers, frames.unscored)
            scores = pd.concat(lacking.assign(metric=name) for name in metrics)
        else:
            scores = self._score(method, frames, metrics)
        scores = sign_texts(scores.reset_index(drop=True), frames.warnings)
        scores["question_text"] = scores.question.map(frames.texts_by_name)
        texts = scores.reindex(columns=_TEXTS).astype(object).fillna("").astype(str)
        return texts.join(scores.reindex(columns=[*_NUMBERS]).astype(_NUMBERS))

    def _score(self, method: str, frames: functions.Frames, metrics: list[str]) -> pd.DataFrame:
        import pandas as pd

        from nfqa.metrics.flags import add_flags
        from nfqa.metrics.grades import add_unscored
        from nfqa.metrics.overlap import score_overlap
        from nfqa.metrics.references import gather_draws
        from nfqa.metrics.systems import complete_scores

        match method:
            case "pd":
                scores = functions.perspective_diversity(frames, self.evaluator)
                share = scores.share.where(scores.missing == "")
                unknown = share.isna() & (scores.missing == "")
                missing = scores.missing.mask(unknown, "no_share")
                return pd.concat([scores, scores.assign(metric="pd_share", score=share, missing=missing)])
            case "da":
                return functions.dispute_awareness(frames, SMOLLM2 if self.job.has_detector else self.judge)
            case "coverage":
                if self.job.reader == "embedded":
                    return functions.coverage(frames, "embedded", embedder=self.embedder)
                return functions.coverage(frames, self.job.reader or self.judge)
            case "linkage":
                return functions.linkage(frames, self.judge, embedder=self.embedder)
            case "pointwise" | "pointwise_ref" | "pairwise":
                return functions.linkage(frames, self.judge, method=method)
        draws = gather_draws(frames.answers, frames.references, frames.texts_by_name, ungraded=False)
        embedder = self.embedder if "embedder" in METHODS[method].roles else None
        scores = complete_scores(score_overlap(draws, metrics, embedder), frames.answers, missing="needs references")
        return add_unscored(add_flags(scores, frames.flags), frames.answers, frames.unscored)

    @property
    def _journal(self) -> str | None:
        path = os.environ.get("NFQA_JOURNAL") or str(self.job.out / "verdicts.sqlite")
        return path if not self.dry or Path(path).exists() else None

    @property
    def tally(self) -> Tally:
        """What language models were asked, or, dry, would be."""
        asker = getattr(self.__dict__.get("judge"), "asker", None)
        return merge_tallies([asker.tally] if asker else [])

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


def score_file(job: Job, *, shard: int, engine: str, workers: int, gpus: float, progress: bool) -> pd.DataFrame:
    """Score every part that has no scores yet, or older ones; then summarise all.

    Raises: ValueError for what can't be read or written, with file and line; what was finished stays.
    """
    kind, _, address = engine.partition(":")
    if kind not in ("local", "ray"):
        raise ValueError(f"engine is {engine!r}; expected local, ray or ray:ADDRESS")
    message = f"{job.out}: another run writes there; wait for it, or name another folder"
    parts = job.cut(shard)  # a file or model that doesn't fit leaves no folder
    for part in parts[:1]:
        job.list_missing(part)
    start_outputs(job.out)
    with lock_file(job.out / ".lock", message):
        missing = {part.number: job.list_missing(part) for part in parts}
        todo = [part for part in parts if missing[part.number]]
        for file in list(job.list_surplus(parts)):
            file.unlink()
        rows = [asdict(part) for part in todo]
        steps = len(job.methods) * sum(part.lines for part in parts)  # the lines of each method
        done = steps - sum(part.lines * len(missing[part.number]) for part in todo)
        shown = "{desc}: {percentage:3.0f} %|{bar}| {elapsed}, {remaining} left"
        with tqdm(total=steps, initial=done, desc="scoring", bar_format=shown, disable=not progress) as bar:

            def note(method: str, lines: int) -> None:
                bar.set_description_str(f"scoring by {method}")
                bar.update(lines)

            local = map(Worker(job, note=note), rows)
            results = _run_ray(job, rows, address, workers, gpus) if kind == "ray" else local
            for result in results if todo else ():
                if result["error"]:
                    raise ValueError(result["error"])
                done += result["steps"]
                bar.update(done - bar.n)  # Ray's workers note nothing
        return _summarise(job, parts)


def _run_ray(job: Job, rows: list[dict[str, Any]], address: str, workers: int, gpus: float) -> Iterator[dict[str, Any]]:
    """Score the parts by Ray Data: workers hold the models, and a part is scored again where one dies."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not find_spec("ray"):
        raise ValueError("ray is not installed: pip install 'nfqa[ray]'")
    import ray.data

    if not ray.is_initialized():
        ray.init(address or None, log_to_driver=False, include_dashboard=False)
    if not workers:
        resources = ray.cluster_resources()  # type: ignore[no-untyped-call]
        workers = int(resources.get("GPU", 0) / gpus if gpus else resources["CPU"])
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        Worker,  # type: ignore[arg-type]
        fn_constructor_args=(job,), num_gpus=gpus or None, num_cpus=None if gpus else 1,
        compute=ray.data.ActorPoolStrategy(size=max(1, min(workers, len(rows)))),
    )  # fmt: skip
    try:
        yield from dataset.iter_rows()
    except ray.exceptions.RayError as error:
        raise ValueError(f"Ray stopped: {str(error).partition(chr(10))[0]}") from error


def _summarise(job: Job, parts: Sequence[Part]) -> pd.DataFrame:
    """Write summary.csv by `summarise_systems`, scores.csv, differences.csv, warnings.csv, and skipped.csv if need be.

    Warnings are what `Frames.warnings` and flags count. scores.csv holds the parts where they have at most 100,000
    rows. differences.csv is by `compare_systems`, from the system that comes first. Means and differences are with and
    without the answers whose flags harm a score, as the column `answers` says.
    Raises: ValueError where no line is left.
    """
    import pandas as pd

    from nfqa.metrics.systems import average_answers, compare_systems, count_both_ways, summarise_systems

    files = [job.find(method, part.number) for method in job.methods for part in parts]
    notes = list(map(read_note, files))
    of_parts = notes[: len(parts)]  # each method repeats them
    rows = sum(note["rows"] for note in notes)
    counts = [job.warnings, *(note["warnings"] for note in of_parts), *(note["of_rows"] for note in notes)]
    tables = {"warnings": pd.DataFrame(sum(map(Counter, counts), Counter[str]()).items(), columns=["what", "count"])}
    if skipped := [why for note in of_parts for why in note["skipped"]]:
        tables["skipped"] = pd.DataFrame({"why": skipped})
    if rows:
        columns = ["question", "answer", "system", "metric", "score", "missing", "flags", "signature"]
        by = ["metric", "answers"]
        signatures = ChainMap(*(note["signatures"] for note in notes))  # the first part that has one
        of_files = (pd.read_parquet(file, columns=columns) for file in files)
        means, lost = average_answers(map(count_both_ways, of_files), by, every="")
        tables["summary"] = summarise_systems(means, lost, by)
        tables["summary"]["signature"] = [signatures.get(metric, "") for metric in tables["summary"].metric]
        systems = [name for name in tables["summary"].system.unique() if name]
        if len(systems) > 1:
            tables["differences"] = compare_systems(means[means.system != ""], systems[0], by)
        for name in tables.keys() & {"summary", "differences"}:
            tables[name].insert(1, "label", tables[name].metric.map(LABELS))
    if 0 < rows <= _MOST_ROWS:
        tables["scores"] = pd.concat(map(pd.read_parquet, files), ignore_index=True)
    for name in ("scores", "differences", "skipped"):
        refuse_edited(job.out / f"{name}.csv")
        (job.out / f"{name}.csv").unlink(missing_ok=True)
    for name, table in tables.items():
        with write_output(job.out / f"{name}.csv") as scratch:
            table.map(escape_formula).to_csv(scratch, index=False, lineterminator="\n")
    if not rows:
        why = f"every line was skipped ({len(skipped):,}); {job.out}/skipped.csv says why"
        raise ValueError(f"{job.path}: {why if skipped else 'holds no answer; expected one JSON object per line'}")
    return tables["summary"]


def estimate(job: Job, *, shard: int) -> pd.DataFrame:
    """What scoring would take, by a few questions scored here: one row a method; nothing is written, no server asked.

    Returns: method, lines (left to score), tokens (an evaluator's, texts run one by one, or about those of prompts),
        seconds (by one worker on this machine; NaN for what a server does), requests and cost (at PRICE_IN and
        PRICE_OUT).
    """
    import pandas as pd

    from nfqa.judge.limits import Limits
    from nfqa.metrics.perspective_diversity import score_views

    parts = job.cut(shard)
    rows = []
    for method in job.methods:
        todo = [part for part in parts if method in job.list_missing(part)]
        row: dict[str, Any] = {"method": method, "lines": sum(part.lines for part in todo)}
        if todo:
            answered = read_part(job.path, todo[0], [])
            worker = Worker(job, dry=True)
            sample = answered.questions[:_TRIED]
            frames = functions.read(replace(answered, questions=sample))
            share = row["lines"] / todo[0].lines * len(answered.questions) / max(1, len(sample))
            worker.score(method, frames)  # opens what it needs
            tally = worker.tally
            worker.forget()
            started = time.perf_counter()
            worker.score(method, frames)
            seconds = time.perf_counter() - started
            if tally.requests:
                tokens = share * tally.tokens_to_ask
                written = share * tally.requests * _WRITTEN
                cost = Limits.from_environment().price(round(tokens), round(written))
                row |= {"tokens": tokens, "requests": share * tally.requests, "cost": cost}
            else:
                row["seconds"] = share * seconds
                if method == "pd" and len(frames.views):  # of the losses that were just made
                    losses = score_views(frames.answers, frames.views, worker.evaluator, too_long="cut_tail")
                    row["tokens"] = share * losses.attended.sum()
        rows.append(row)
    return pd.DataFrame(rows, columns=["method", "lines", "tokens", "seconds", "requests", "cost"]).round(2)
