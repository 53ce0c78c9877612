"""Making partial answers of a user's own questions from the command line: the steps in order, each kept on disk."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from tqdm import tqdm

from nfqa.data.code import hash_maker
from nfqa.data.own_debates import hash_folder, read_folder, read_questions
from nfqa.data.paths import find_cache, write_atomically
from nfqa.data.registry import hash_file
from nfqa.data.store import Store
from nfqa.debates import pipeline, write
from nfqa.debates.checking import check_views, measure_agreement, read_labels, remove_rejected
from nfqa.debates.extract import FEWEST, join_views
from nfqa.debates.pipeline import Search, Stage, list_dropped
from nfqa.debates.search import score_by_cosine
from nfqa.judge.asking import Asker
from nfqa.judge.prompts import PromptSet, read_prompt_set
from nfqa.lab.judging import Asking, open_generators, open_judge
from nfqa.lab.options import RunOptions
from nfqa.lab.own_scores import escape_formula
from nfqa.lab.scoring import name_folder
from nfqa.metrics.judging import LanguageJudge
from nfqa.models.chat import UNSETTLED
from nfqa.models.cross_encoder import open_cross_encoder
from nfqa.models.embed import Embedder
from nfqa.models.roles import RoleSpec, parse_role

_CODE = ("nfqa.debates.checking", "nfqa.debates.pipeline", "nfqa.debates.web_search", "nfqa.debates.write")
_FAILED = ("search failed", "no reply", "no explanation came", *(f"no verdict ({why})" for why in UNSETTLED))
_FEW = r"fewer than|no document found|no point of view left"  # more documents or points of view may help
_PASSING = r"no query came|timeout|connection|no such host|http (?:408|425|429|5\d\d)"  # another run asks again


@dataclass
class Run:
    """What the steps are made with, and what they have come to: what each kept, and all that was dropped."""

    folder: Path
    questions: pd.DataFrame  # those that are left
    embedder: Embedder
    generator: Asker | None
    judge: LanguageJudge | None
    reranker: RoleSpec
    prompts: PromptSet
    documents: Path | None
    search: Search | None
    labels: Path | None
    every: bool
    depends_on: str = ""
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    counts: list[tuple[str, str, int]] = field(default_factory=list)  # step, unit, how many it was given
    dropped: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["step", *pipeline.DROPPED]))

    @property
    def last(self) -> pd.DataFrame:
        """What the last step kept."""
        return self.frames[self.counts[-1][0]]


class Step(NamedTuple):
    """A step: what it counts by, how it is made, and what it follows from beyond the run's start and earlier steps."""

    name: str
    unit: str
    make: Callable[[Run], Stage]
    depends_on: str = ""


def open_run(
    root: Path,
    options: RunOptions,
    path: Path,
    documents: Path | None = None,
    *,
    search_with: Search | None = None,
    labels: Path | None = None,
    every: bool = False,
) -> Run:
    """A run over a file of questions, with the roles' models, in build/debates/STEM-HASH/.

    Raises: ValueError for a file, folder or role that can't be used.
    """
    if "evaluator" in options.roles:
        raise ValueError("EVALUATOR is set, but making debates scores nothing; unset it")
    asking = Asking(**({"prompts": "own"} | options.asking))
    generators = open_generators(root, options.find_role("generator"), asking)
    judge = open_judge(root, options.find_role("judge"), asking)
    if len(generators) > 1:
        raise ValueError(f"GENERATOR names {len(generators)} models; name one")
    generator, prompts = next(iter(generators), None), read_prompt_set(root, asking.prompts)
    if generator is not None:
        generator.decoding = replace(generator.decoding, max_tokens=write.LONGEST)
    questions = read_questions(path)
    if documents is None and search_with is None:
        raise ValueError("name a folder of texts, as in DOCUMENTS=data/sample/debate_documents, or a search: SEARCHER=")
    embedder = Embedder(options.find_role("embedder"), find_cache(root, "embeddings"), progress=True)
    reranker = parse_role("reranker", options.find_role("reranker"))
    given = {"answers": str(path.resolve()), "questions": str(documents.resolve()) if documents else ""}
    folder = root / "build" / "debates" / name_folder(options, **given)
    folder.mkdir(parents=True, exist_ok=True)
    asked = [(asker.spec.identity, asker.decoding.signature) for asker in (generator, judge and judge.asker) if asker]
    signed = [prompts.signature(name) for name in ("write_queries", "extract_views", "write_explanation", "check_view")]
    source = hash_folder(documents) if documents else "a search"
    start = [hash_file(path), embedder.fingerprint, reranker.identity, source, every, asked, asked and signed]
    depends_on = json.dumps([*start, hash_maker(*_CODE)])
    models = (embedder, generator, judge, reranker, prompts)
    return Run(folder, questions, *models, documents, search_with, labels, every, depends_on)


def list_steps(run: Run) -> list[Step]:
    """The steps of a run, in their order."""
    folder, labels = run.documents, run.labels
    return [
        Step("sourcing", "question", lambda run: pipeline.drop_repeats(run.questions, run.embedder)),
        Step("queries", "question", _write_queries),
        *([Step("reading the folder", "document", lambda _: read_folder(folder))] if folder else []),
        Step("search", "question", _search),
        Step("trusted domains", "document", lambda run: pipeline.keep_trusted(run.last, every=run.every)),
        Step("nearest documents", "question", _keep_nearest),
        Step("points of view", "question", _find_views),
        Step("debatable", "question", lambda run: pipeline.keep_debatable(run.questions, run.last)),
        Step("checking", "point of view", _check),
        Step("left after checking", "question", _keep_viewed),
        *([Step("people's labels", "point of view", _remove_rejected, hash_file(labels))] if labels else []),
        *([Step("left after labels", "question", _keep_viewed)] if labels else []),
    ]


def take_steps(run: Run) -> Iterator[tuple[Step, int, pd.DataFrame]]:
    """Take each step, or read what it came to in an earlier run: the step, how many it was given, what it drops.

    A step that failed in part, as where a server gave no reply, is not kept: the next run takes it again.
    """
    store = Store(run.folder / "steps.sqlite", "steps", frames="TEXT")
    for step in list_steps(run):
        key = hashlib.sha256("\0".join([run.depends_on, step.name, step.depends_on]).encode()).digest()
        known = store.read([key])
        text = known[key][0] if known else _write_frames(step.make(run))
        kept, dropped = (pd.DataFrame(part["data"], columns=part["columns"]) for part in json.loads(text))
        reasons = dropped.reason.astype(str)
        if not (reasons.isin(_FAILED) | reasons.str.fullmatch(_PASSING)).any():
            store.write([(key, text)])
        run.depends_on = hashlib.sha256(key + text.encode()).hexdigest()
        gone = dropped["item"][dropped.unit == step.unit]
        given = len(run.questions) if step.unit == "question" else len(kept) + len(gone)
        if step.unit == "question":
            run.questions = run.questions[~run.questions.id.isin(gone)]
        run.frames[step.name] = kept
        run.counts.append((step.name, step.unit, given))
        run.dropped = pd.concat([run.dropped, dropped.assign(step=step.name)], ignore_index=True)
        yield step, given, dropped


def _write_frames(frames: Stage) -> str:
    parts = [json.loads(frame.to_json(orient="split", index=False, double_precision=15)) for frame in frames]
    return json.dumps(parts, ensure_ascii=False)


def _write_queries(run: Run) -> Stage:
    if run.generator:
        return write.write_queries(run.questions, run.generator, run.prompts)
    return pipeline.expand_questions(run.questions), list_dropped("question", [], "")


def _search(run: Run) -> Stage:
    if run.search is not None and not run.documents:
        return pipeline.search_web(run.questions, run.frames["queries"], run.search)
    return pipeline.search_collection(run.questions, run.frames["queries"], run.last, run.embedder)


def _keep_nearest(run: Run) -> Stage:
    """The nearest documents by the reranker role: a cross-encoder, whose scores have no bound, or cosines."""
    if run.reranker.kind == "embedded":
        return pipeline.keep_nearest(run.questions, run.last, score_by_cosine(run.embedder))
    return pipeline.keep_nearest(run.questions, run.last, open_cross_encoder(run.reranker), near=-inf)


def _find_views(run: Run) -> Stage:
    if run.generator:
        return write.write_parts(run.last, run.generator, run.prompts, run.embedder)
    return pipeline.extract_parts(run.last, run.embedder, show=tqdm), list_dropped("question", [], "")


def _check(run: Run) -> Stage:
    views = join_views(run.last.assign(question=run.last.id)).rename(columns={"question": "id"})
    return check_views(run.questions.merge(views, on="id", sort=False), run.embedder, judge=run.judge)


def _keep_viewed(run: Run) -> Stage:
    """Source: DebateQA, which counts three points of view before people remove some, and leaves out none after."""
    return pipeline.keep_debatable(run.questions, run.last, fewest=1)


def _remove_rejected(run: Run) -> Stage:
    table = read_labels(run.labels)  # type: ignore[arg-type]
    written = {escape_formula(name): name for name in run.last["view"]}  # as anchors.csv has them
    return remove_rejected(run.last, table.assign(item=table["item"].replace(written)))


def make_debates(
    root: Path,
    options: RunOptions,
    path: Path,
    documents: Path | None = None,
    *,
    search_with: Search | None = None,
    labels: Path | None = None,
    every: bool = False,
    seed: int = 0,
) -> int:
    """Make partial answers for the questions of a file into build/debates/STEM-HASH/, in DebateQA's own format.

    Args: documents: a folder of texts; search_with: a search in its place; labels: people's labels of points of view of
        an earlier run; every: documents of untrusted domains count too; seed: of the splits.
    Returns: 0, or 1 where a search or a model failed for a question, which is counted and left out.
    Raises: ValueError for a file, folder or role that is wrong, or where no question is left.
    """
    run = open_run(root, options, path, documents, search_with=search_with, labels=labels, every=every)
    made_by = (
        "written by the generator" if run.generator else "extractive: sentences of the documents, by no language model"
    )
    print(f"{path}: {len(run.questions):,} questions; points of view {made_by}", flush=True)
    for step, given, dropped in take_steps(run):
        _print_step(run, step, given, dropped)
        if labels is not None and step.name == "people's labels":
            table = read_labels(labels)
            kappa, n = measure_agreement(table)
            print(f"{'':20} Fleiss' kappa {kappa:.2f} of {table.annotator.nunique()} people on {n} points of view")
    names, folder = write_made(run, seed), run.folder.relative_to(root)
    if run.last.empty:
        gone = run.dropped[run.dropped.unit == "question"]
        advice = _advise(run, gone) if gone.reason.str.match(_FEW).any() else "run again to ask once more"
        raise ValueError(
            f"no question of {path} is left ({_count(gone.reason)}): {advice}; {folder}/removed.csv says more"
        )
    print(f"\n{run.last.id.nunique()} questions with {len(run.last)} partial answers")
    print(f"in {folder}/: {', '.join(names)}")
    lost = run.dropped[run.dropped.reason.isin(_FAILED)]
    if len(lost):
        print(f"{len(lost)} could not be had: run again to ask once more ({lost.detail.iloc[0]})", file=sys.stderr)
    return int(bool(len(lost)))


def _print_step(run: Run, step: Step, given: int, dropped: pd.DataFrame) -> None:
    counted = {unit: _count(part.reason) for unit, part in dropped.groupby("unit")}
    own, left = counted.pop(step.unit, ""), given - (dropped.unit == step.unit).sum()
    print(f"{step.name:20} {given:7,} {_pluralise(step.unit)}, {left:,} kept{f' ({own})' if own else ''}", flush=True)
    for unit, reasons in counted.items():
        print(f"{'':20} {_pluralise(unit)} left out: {reasons}", flush=True)
    few = dropped[(dropped.unit == "question") & dropped.reason.str.match(_FEW)]
    if len(few):
        print(f"{'':20} {_shorten(few['item'])}: {_advise(run, few)}", flush=True)
    if step.unit == "point of view":  # DebateQA counts three before people remove some, and leaves out none after
        counts = run.last.id.value_counts(sort=False)
        thin = counts[counts < FEWEST]
        if len(thin):
            said = _shorten([f"{identifier} {count}" for identifier, count in thin.items()])
            advice = _advise(run, list_dropped("question", list(thin.index), "few points of view"))
            print(f"{'':20} fewer than {FEWEST} points of view are left: {said}: {advice}", flush=True)


def _advise(run: Run, few: pd.DataFrame) -> str:
    """What to do for questions that were dropped; of all domains only where they have more of their documents."""
    folder = f"add documents about them to {run.documents}"
    advice = [folder if run.documents else "give a folder of documents about them (DOCUMENTS=)"]
    untrusted = run.dropped["item"][run.dropped.reason == "domain not trusted"]
    hidden = untrusted.str.startswith(tuple(f"{name}: " for name in few["item"])).sum()
    if hidden:
        advice.append(f"keep the {hidden:,} of untrusted domains (DOMAINS=all)")
    if run.generator is None and few.reason.str.contains("of view").any():
        advice.append("let a language model find and write points of view (GENERATOR=)")
    return "; or ".join(advice)


def _count(reasons: pd.Series) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in reasons.value_counts(sort=False).items())


def _shorten(names: Sequence[str]) -> str:
    return ", ".join(list(names)[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def _pluralise(unit: str) -> str:
    return {"point of view": "points of view", "query": "queries"}.get(unit, f"{unit}s")


def write_made(run: Run, seed: int) -> list[str]:
    """Write debates.jsonl and its splits, anchors.csv, removed.csv and funnel.csv; returns their names."""
    lines = {}
    for identifier, part in run.last.groupby("id", sort=False):
        views = part[["point_of_view", "explanation"]].to_dict("records")
        debate = {"id": identifier, "question": part.question.iloc[0], "partial_answers": views}
        lines[identifier] = json.dumps(debate, ensure_ascii=False)
    splits = pipeline.split_questions(list(lines), seed=seed)
    chosen = {f"{name}.jsonl": list(part.id) for name, part in splits.groupby("split")}
    texts = {"debates.jsonl": list(lines), **chosen}
    for name in {"test.jsonl", "dev.jsonl"} - texts.keys():  # of an earlier run with more questions
        (run.folder / name).unlink(missing_ok=True)
    for name, identifiers in texts.items():
        with write_atomically(run.folder / name) as scratch:
            scratch.write_text("".join(f"{lines[i]}\n" for i in identifiers), encoding="utf-8")
    found = run.frames["nearest documents"][["id", "document", "address"]]
    parts = run.frames["debatable"]
    anchors = parts[parts["view"].isin(run.last["view"])].merge(found, on=["id", "document"], how="left")
    columns = ["id", "view", "part", "document", "address", "place", "cosine", "text"]
    tables = {
        "anchors.csv": anchors.assign(cosine=anchors.cosine.round(6))[columns],
        "removed.csv": run.dropped,
        "funnel.csv": pipeline.count_funnel(run.counts, run.dropped),
    }
    for name, table in tables.items():
        with write_atomically(run.folder / name) as scratch:
            table.map(escape_formula).to_csv(scratch, index=False, lineterminator="\n")
    return [*texts, *tables]
