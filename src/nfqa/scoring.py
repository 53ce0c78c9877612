"""Scores of many answers: a large file is cut into parts, each scored by itself, in this process or by Ray."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from nfqa import functions
from nfqa.files.code import hash_maker
from nfqa.files.own_answers import read_shard
from nfqa.files.paths import hash_file, lock_file, write_atomically
from nfqa.files.shards import Part, cut_file, read_note, write_table
from nfqa.judge.asking import Tally, merge_tallies
from nfqa.judge.served_evaluator import ServedEvaluator
from nfqa.metrics.dispute_detector import HEADS, SENTENCES
from nfqa.models.chat import UNSETTLED
from nfqa.models.precision import read_precision
from nfqa.models.roles import identify_role
from nfqa.opening import open_embedder, open_evaluator, open_judge

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.files.records import Excluded
    from nfqa.metrics.judging import LanguageJudge
    from nfqa.models.embed import Embedder
    from nfqa.models.evaluator import Evaluator

_PACKAGES = ("numpy", "scikit-learn", "sentence-transformers", "torch", "transformers")
_TEXTS = ("question", "answer", "system", "metric", "missing", "guarded", "note", "signature")
_NUMBERS = {"grade": "float", "score": "float", "rank": "Int64", "probability": "float"}
METHODS = {  # the roles that each depends on
    "pd": ("evaluator",), "da": ("judge",), "linkage": ("judge", "embedder"), "rouge": (),
    "bertscore": ("embedder",),
}  # fmt: skip
_SAMPLE = 16  # questions, to tell how long all will take
_WRITTEN = 12  # tokens that a judge writes, about: a bare verdict


@dataclass(frozen=True)
class Job:
    """What every part of a file is scored by, and where to."""

    path: str
    out: str
    methods: tuple[str, ...]
    evaluator: str
    judge: str
    embedder: str
    prompts: str
    skip_bad: bool

    @property
    def source(self) -> str:
        """The file from the folder of its scores, so that both may be moved together."""
        return os.path.relpath(self.path, self.out)

    def cut(self, size: int) -> list[Part]:
        """The parts of the file. Raises: as `cut_file`; ValueError where the folder holds scores of another file."""
        parts = list(cut_file(Path(self.path), size))
        for made in Path(self.out, "parts").glob("[!.]*.parquet"):
            if (source := read_note(made).get("source", self.source)) != self.source:
                other = os.path.normpath(Path(self.out, source))
                raise ValueError(f"{self.out}: holds scores of {other}; name another folder with --out")
        return parts

    def find(self, method: str, number: int) -> Path:
        """The file of a part's scores."""
        return Path(self.out, "parts", f"{method}-{number:06}.parquet")

    def sign(self, method: str, part: Part) -> str:
        """What a part's scores depend on; they are made anew where it changes."""
        roles = [self._identities[role] for role in METHODS[method]]
        made_by = hash_maker("nfqa.scoring", packages=_PACKAGES)
        return json.dumps([part.digest, part.first, method, *roles, self.skip_bad, read_precision(""), made_by])

    @cached_property
    def _identities(self) -> dict[str, str]:
        given = {"evaluator": self.evaluator, "embedder": self.embedder}
        found = {role: identify_role(role, spec) for role, spec in given.items()}
        embedded = self.judge == "embedded"
        packaged = [SENTENCES, HEADS]
        packaged += [] if embedded else sorted((Path(__file__).parent / "prompts" / self.prompts).rglob("*.*"))
        judged = "|".join(["" if embedded else identify_role("judge", self.judge), *map(hash_file, packaged)])
        return found | {"judge": f"{judged}|{self.prompts}"}

    def list_missing(self, part: Part) -> list[str]:
        """The methods that a part has no scores by, or older ones."""
        return [m for m in self.methods if read_note(self.find(m, part.number)).get("made_from") != self.sign(m, part)]


class Worker:
    """Scores parts, one after the other; models are opened once."""

    def __init__(self, job: dict[str, Any], *, dry: bool = False) -> None:
        self.job, self.dry, self._open = Job(**job), dry, ExitStack()

    def __call__(self, part: dict[str, Any]) -> dict[str, Any]:
        """Score a part by the methods that it lacks. What is wrong is returned: Ray would wrap an exception."""
        given = Part(**part)
        skipped: list[str] | None = [] if self.job.skip_bad else None
        advice = "mend the line, or leave it out with --skip-bad, and "
        try:
            own = read_shard(Path(self.job.path), given, skipped)
            frames, advice = functions.read(own), ""
            for method in self.job.list_missing(given):
                scores = self.score(method, frames, own.excluded)
                late = scores.missing.str.removeprefix("server: ").isin(UNSETTLED).any()  # asked again by the next run
                note = {"made_from": "" if late else self.job.sign(method, given), "part": given.digest}
                texts = scores.melt("metric", ["note", "guarded"], value_name="text").query("text != ''")
                note["of_rows"] = (texts.metric + ": " + texts.text).value_counts().to_dict()
                write_table(
                    self.job.find(method, given.number),
                    scores,
                    note | {"skipped": skipped or [], "noticed": own.irregularities, "source": self.job.source},
                )
        except (ValueError, OSError) as error:
            advice = f"Finished parts are saved; {advice}run the same command to resume."
            return {"lines": given.lines, "error": f"{error}. {advice}"}
        finally:
            self.forget()
        return {"lines": given.lines, "error": ""}

    def score(self, method: str, frames: functions.Frames, excluded: Sequence[Excluded] = ()) -> pd.DataFrame:
        """A row an answer, those excluded too, and metric of the method."""
        import pandas as pd

        from nfqa.metrics.overlap import score_overlap
        from nfqa.metrics.references import gather_draws, sign_texts
        from nfqa.metrics.systems import add_unscored

        answers, needed = frames.answers, {"pd": "views", "da": "answers"}.get(method, "references")
        if getattr(frames, needed).empty:
            found = pd.concat(answers.assign(metric=name) for name in self._name_metrics(method))
            found = found.assign(missing=f"needs {needed}", signature="")
        elif method == "pd":
            found = functions.perspective_diversity(frames, self.evaluator)
        elif method == "da":
            found = functions.dispute_awareness(frames, self.judge)
        elif method == "linkage":
            found = functions.linkage(frames, self.judge, embedder=self.embedder)
        else:
            draws = gather_draws(answers, frames.references, frames.texts_by_name, ungraded=False)
            embedder = self.embedder if "embedder" in METHODS[method] else None
            scores = score_overlap(draws, self._name_metrics(method), embedder)
            found = add_unscored(scores, answers, missing="needs references")
        names = ["question", "answer", "missing", "system"]
        empty = pd.DataFrame([tuple(vars(each).values()) for each in excluded if each.answer], columns=names)
        unscored = (empty.assign(metric=name, signature="") for name in self._name_metrics(method))
        found = sign_texts(pd.concat([found, *unscored], ignore_index=True), frames.noticed)
        texts = found.reindex(columns=_TEXTS).astype(object).fillna("").astype(str)
        return texts.join(found.reindex(columns=[*_NUMBERS]).astype(_NUMBERS))

    def _name_metrics(self, method: str) -> list[str]:
        ranked = "embedded_judge" if self.job.judge == "embedded" else "listwise"
        return {"linkage": [ranked], "rouge": ["rouge1", "rouge2", "rougel"]}.get(method, [method])

    @property
    def _journal(self) -> str | None:
        path = os.environ.get("NFQA_JOURNAL") or str(Path(self.job.out, "verdicts.sqlite"))
        return path if not self.dry or Path(path).exists() else None

    @property
    def tally(self) -> Tally:
        """What language models were asked, or, dry, would be."""
        opened = (getattr(self.__dict__.get(role), "asker", None) for role in ("judge", "evaluator"))
        return merge_tallies(asker.tally for asker in opened if asker)

    def forget(self) -> None:
        """Let go of what was kept of the texts, so that memory stays flat; the models stay."""
        from nfqa.metrics.overlap import forget_texts

        forget_texts()
        for opened in {"embedder", "evaluator"} & self.__dict__.keys():
            self.__dict__[opened].forget()

    @cached_property
    def evaluator(self) -> Evaluator:
        """The evaluator role."""
        opens = open_evaluator.__wrapped__ if self.dry else open_evaluator
        opened = opens(self.job.evaluator, self._journal, bar=False)
        if isinstance(opened, ServedEvaluator):
            opened.asker.dry = self.dry
        return opened

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder role."""
        return open_embedder(self.job.embedder)

    @cached_property
    def judge(self) -> str | LanguageJudge:
        """The judge role: "embedded", or a language model."""
        if self.job.judge == "embedded":
            return self.job.judge
        judge = self._open.enter_context(open_judge(self.job.judge, self.job.prompts, self._journal, bar=False))
        judge.asker.dry = self.dry
        return judge


def score_file(job: Job, *, shard: int, engine: str, workers: int, gpus: float, progress: bool) -> pd.DataFrame:
    """Score every part that has no scores yet, or older ones; then summarise all.

    Raises: ValueError for what can't be read or written, with file and line; what was finished stays.
    """
    kind, _, address = engine.partition(":")
    if kind not in ("local", "ray"):
        raise ValueError(f"engine is {engine!r}; expected local, ray or ray:ADDRESS")
    held = f"{job.out}: another run writes there; wait for it, or name another folder"
    parts = job.cut(shard)  # a file that doesn't fit leaves no folder
    with lock_file(Path(job.out, ".lock"), held):
        todo = [part for part in parts if job.list_missing(part)]
        for made in Path(job.out, "parts").glob("*.parquet"):
            method, _, number = made.stem.rpartition("-")
            surplus = made.name.startswith(".") or int(number) >= len(parts)  # of a killed run, of a longer file
            if surplus or (method not in job.methods and read_note(made).get("part") != parts[int(number)].digest):
                made.unlink()
        rows = [asdict(part) for part in todo]
        done = _run_ray(job, rows, address, workers, gpus) if kind == "ray" else map(Worker(asdict(job)), rows)
        total, left = (sum(part.lines for part in some) for some in (parts, todo))
        with tqdm(total=total, initial=total - left, desc="scoring", unit="line", disable=not progress) as bar:
            for result in done if todo else ():
                if result["error"]:
                    raise ValueError(result["error"])
                bar.update(result["lines"])
        return _summarise(job, parts)


def _run_ray(job: Job, rows: list[dict[str, Any]], address: str, workers: int, gpus: float) -> Iterator[dict[str, Any]]:
    """The same by Ray Data: workers that hold the models, each part scored again where one dies."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if not find_spec("ray"):
        raise ValueError("ray is not installed: pip install 'nfqa[ray]'")
    import ray.data

    if not ray.is_initialized():
        ray.init(address or None, log_to_driver=False, include_dashboard=False)
    if not workers:
        there = ray.cluster_resources()  # type: ignore[no-untyped-call]
        workers = int(there.get("GPU", 0) / gpus if gpus else there["CPU"])
    ray.data.DataContext.get_current().enable_progress_bars = False
    dataset = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        Worker,  # type: ignore[arg-type]
        fn_constructor_args=(asdict(job),), num_gpus=gpus or None, num_cpus=None if gpus else 1,
        compute=ray.data.ActorPoolStrategy(size=max(1, min(workers, len(rows)))),
    )  # fmt: skip
    try:
        yield from dataset.iter_rows()
    except ray.exceptions.RayError as error:
        raise ValueError(f"Ray stopped: {str(error).partition(chr(10))[0]}") from error


def _summarise(job: Job, parts: Sequence[Part]) -> pd.DataFrame:
    """Write summary.csv by `nfqa.metrics.systems.summarise_systems`, noticed.csv, and skipped.csv if there is any line.

    The last two are counts as `Frames.noticed` has them, and why each line was left out.
    Raises: ValueError where no line is left.
    """
    import pandas as pd

    from nfqa.metrics.systems import summarise_systems

    columns = ["question", "system", "metric", "score", "missing"]
    files = (job.find(method, part.number) for part in parts for method in job.methods)
    summary = summarise_systems(pd.read_parquet(file, columns=columns) for file in files)
    every = [[read_note(job.find(method, part.number)) for part in parts] for method in job.methods]
    notes, rows = every[0], [note.get("of_rows", {}) for method in every for note in method]
    skipped = pd.DataFrame({"why": [why for note in notes for why in note.get("skipped", [])]})
    noticed = sum(map(Counter, [*(note.get("noticed", {}) for note in notes), *rows]), Counter[str]())
    counts = pd.DataFrame(noticed.items(), columns=["what", "count"])
    Path(job.out, "skipped.csv").unlink(missing_ok=True)
    tables = {"summary": summary, "noticed": counts} | ({} if skipped.empty else {"skipped": skipped})
    for name, table in tables.items():
        with write_atomically(Path(job.out, f"{name}.csv")) as scratch:
            table.to_csv(scratch, index=False)
    if summary.empty:
        why = f"every line was left out ({len(skipped):,}); {job.out}/skipped.csv says why"
        raise ValueError(f"{job.path}: {'holds no answer; expected one JSON object a line' if skipped.empty else why}")
    return summary


def estimate(job: Job, *, shard: int) -> pd.DataFrame:
    """What scoring would take, by a few questions scored here: one row a method; nothing is written, no server asked.

    Returns: method, lines (left to score), tokens (an evaluator's, texts run one by one, or about those of prompts),
        seconds (by one worker on this machine; NaN for what a server does), requests and cost (at PRICE_IN and
        PRICE_OUT).
    """
    import pandas as pd

    from nfqa.judge.limits import Limits
    from nfqa.metrics.perspective_diversity import score_views

    parts, rows = job.cut(shard), []
    for method in job.methods:
        todo = [part for part in parts if method in job.list_missing(part)]
        row: dict[str, Any] = {"method": method, "lines": sum(part.lines for part in todo)}
        if todo:
            own, worker = read_shard(Path(job.path), todo[0], []), Worker(asdict(job), dry=True)
            some = own.questions[:_SAMPLE]
            frames = functions.read(replace(own, questions=some))
            share = row["lines"] / todo[0].lines * len(own.questions) / max(1, len(some))
            worker.score(method, frames)  # opens what it needs
            asked = worker.tally
            worker.forget()
            started = time.perf_counter()
            worker.score(method, frames)
            seconds = time.perf_counter() - started
            if asked.asked:
                tokens = share * asked.tokens_to_ask
                written = share * asked.asked * (1 if method == "pd" else _WRITTEN)
                cost = Limits.from_environment().price(round(tokens), round(written))
                row |= {"tokens": tokens, "requests": share * asked.asked, "cost": cost}
            else:
                row["seconds"] = share * seconds
                if method == "pd" and len(frames.views):  # of the losses that were just made
                    read = score_views(frames.answers, frames.views, worker.evaluator, too_long="cut_tail")
                    row["tokens"] = share * read.attended.sum()
        rows.append(row)
    return pd.DataFrame(rows, columns=["method", "lines", "tokens", "seconds", "requests", "cost"]).round(2)
