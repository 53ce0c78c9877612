"""Making partial answers of a user's own questions from the command line: the steps in order, each kept on disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from nfqa.data import kept_frames, own_debates
from nfqa.data.kept_frames import Frames, keep_frames
from nfqa.data.own_debates import hash_folder, read_folder, read_questions
from nfqa.data.paths import find_cache, write_atomically
from nfqa.data.registry import hash_file
from nfqa.debates import checking, domains, duplicates, extract, pipeline, search, write
from nfqa.debates.checking import check_views, measure_agreement, read_labels, remove_rejected
from nfqa.debates.extract import FEWEST, join_views
from nfqa.debates.pipeline import Search
from nfqa.judge.prompts import read_prompt_set
from nfqa.lab.judging import Asking, open_generators, open_judge
from nfqa.lab.options import RunOptions
from nfqa.lab.own_scores import escape_formula
from nfqa.lab.scoring import name_folder
from nfqa.models.chat import UNSETTLED
from nfqa.models.cross_encoder import open_cross_encoder
from nfqa.models.embed import Embedder
from nfqa.models.roles import identify_role, parse_role

_CODE = (checking, domains, duplicates, extract, pipeline, search, write, own_debates, kept_frames)
_MADE_BY = {True: "written by the generator", False: "extractive: sentences of the documents, by no language model"}
_FAILED = ("search failed", "no reply", "no explanation came", *(f"no verdict ({why})" for why in UNSETTLED))
_FEW = r"fewer than|no document found|no point of view left"  # more documents or points of view may help
_PAGES = r"timeout|connection|no such host|http (?:408|425|429|5\d\d)"  # not fetched: another run asks again


@dataclass
class Run:
    """What the steps have come to: how many each was given, what was dropped, and the hash that the next depends on.

    source, writer: what may bring a question more documents, and more points of view ("" for nothing).
    """

    folder: Path
    depends_on: str
    source: str
    writer: str = ""
    steps: list[tuple[str, str, int]] = field(default_factory=list)
    dropped: list[pd.DataFrame] = field(default_factory=list)

    def step(self, name: str, unit: str, given: int, make: Callable[[], Frames], *more: str) -> pd.DataFrame:
        """What the step keeps, made or as it was kept; what it drops is counted under its name."""
        named = f"{len(self.steps):02}-{name.replace(' ', '-')}"
        frames, self.depends_on = keep_frames(
            self.folder / "steps", named, make, depends_on=[self.depends_on, *more], modules=_CODE, lasting=_lasts
        )
        kept, dropped = frames
        self.steps.append((name, unit, given))
        self.dropped.append(dropped.assign(step=name))
        counted = {each: _count(part.reason) for each, part in dropped.groupby("unit")}
        own = counted.pop(unit, "")
        left = given - (dropped.unit == unit).sum()
        print(f"{name:20} {given:7,} {_pluralise(unit)}, {left:,} kept{f' ({own})' if own else ''}", flush=True)
        for each, reasons in counted.items():
            print(f"{'':20} {_pluralise(each)} left out: {reasons}", flush=True)
        few = dropped[(dropped.unit == "question") & dropped.reason.str.match(_FEW)]
        if len(few):
            rest = f" and {len(few) - 5:,} more" if len(few) > 5 else ""
            print(f"{'':20} {', '.join(few['item'][:5])}{rest}: {self.advise(few)}", flush=True)
        return kept

    def advise(self, few: pd.DataFrame) -> str:
        """What to do for questions that were dropped; of all domains only where they have more of their documents."""
        gone = pd.concat(self.dropped)
        untrusted = gone["item"][gone.reason == "domain not trusted"]
        hidden = untrusted.str.startswith(tuple(f"{name}: " for name in few["item"])).sum()
        return "; or ".join([
            self.source,
            *([f"keep the {hidden:,} of untrusted domains (DOMAINS=all)"] if hidden else []),
            *([self.writer] if self.writer and few.reason.str.contains("of view").any() else []),
        ])  # fmt: skip


def _count(reasons: pd.Series) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in reasons.value_counts(sort=False).items())


def _pluralise(unit: str) -> str:
    return "points of view" if unit == "point of view" else f"{unit}s"


def _lasts(frames: Frames) -> bool:
    """Whether a step met nothing that another run may not meet."""
    reasons = frames[1].reason.astype(str)
    return not (reasons.isin(_FAILED) | reasons.str.fullmatch(_PAGES)).any()


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
    given = {"answers": str(path.resolve()), "questions": str(documents.resolve()) if documents else ""}
    folder = root / "build" / "debates" / name_folder(options, **given)
    folder.mkdir(parents=True, exist_ok=True)
    askers = [asker for asker in (generator, judge.asker if judge else None) if asker]
    asked = [f"{asker.spec.identity}|{asker.decoding.signature}" for asker in askers]
    source = hash_folder(documents) if documents else f"a search, {every}"  # which fetches no pages of other domains
    start = [hash_file(path), embedder.fingerprint, *asked, source]
    more = (
        f"add documents about them to {documents}"
        if documents
        else "give a folder of documents about them (DOCUMENTS=)"
    )
    writer = "let a language model find and write points of view (GENERATOR=)" if generator is None else ""
    run = Run(folder, "|".join(start), more, writer)
    print(f"{path}: {len(questions):,} questions; points of view {_MADE_BY[generator is not None]}", flush=True)

    kept = run.step("sourcing", "question", len(questions), lambda: pipeline.drop_repeats(questions, embedder))
    queries = write.write_queries(kept, generator, prompts) if generator else pipeline.expand_questions(kept)
    if documents is not None:
        collection, unread = read_folder(documents)
        held = len(collection) + len(unread)
        collection = run.step("reading the folder", "document", held, lambda: (collection, unread))
        look = partial(pipeline.search_collection, kept, queries, collection, embedder)
    else:
        look = partial(pipeline.search_web, kept, queries, search_with)  # type: ignore[arg-type]
    found = run.step("search", "question", len(kept), look, queries.to_csv(index=False))
    trusted = run.step(
        "trusted domains", "document", len(found), lambda: pipeline.keep_trusted(found, every=every), str(every)
    )
    still, reranker = kept[kept.id.isin(found.id)], identify_role("reranker", options.find_role("reranker"))
    nearest = run.step(
        "nearest documents", "question", len(still), partial(_rerank, options, embedder, still, trusted), reranker
    )
    still = kept[kept.id.isin(nearest.id)]
    if generator is None:
        make: Callable[[], Frames] = lambda: (  # noqa: E731
            pipeline.extract_parts(nearest, embedder, show=tqdm), pipeline.list_dropped("question", [], "")
        )  # fmt: skip
        said = []
    else:
        said = [prompts.signature(name) for name in ("extract_views", "write_explanation")]
        make = partial(write.write_parts, nearest, generator, prompts, embedder)
    parts = run.step("points of view", "question", len(still), make, *said)
    still = still[~still.id.isin(run.dropped[-1].loc[run.dropped[-1].unit == "question", "item"])]
    parts = run.step("debatable", "question", len(still), lambda: pipeline.keep_debatable(still, parts))
    views = join_views(parts.assign(question=parts.id)).rename(columns={"question": "id"})
    views = kept.merge(views, on="id", sort=False)
    check, said = partial(check_views, views, embedder, judge=judge), [prompts.signature("check_view")] if judge else []
    checked = run.step("checking", "point of view", len(views), check, *said)
    checked = _keep_viewed(run, "left after checking", kept[kept.id.isin(parts.id)], checked)
    if labels is not None:
        table = read_labels(labels)
        written = {escape_formula(name): name for name in checked["view"]}  # as anchors.csv has them
        table["item"] = table["item"].replace(written)
        people, labelled = partial(remove_rejected, checked, table), kept[kept.id.isin(checked.id)]
        checked = run.step("people's labels", "point of view", len(checked), people, hash_file(labels))
        kappa, n_items = measure_agreement(table)
        print(f"{'':20} Fleiss' kappa {kappa:.2f} of {table.annotator.nunique()} people on {n_items} points of view")
        checked = _keep_viewed(run, "left after labels", labelled, checked)
    names = write_made(run, checked, parts, nearest, seed)
    if checked.empty:
        gone = pd.concat(run.dropped).query("unit == 'question'")
        advice = run.advise(gone) if gone.reason.str.match(_FEW).any() else "run again to ask once more"
        where = f"{folder.relative_to(root)}/removed.csv"
        raise ValueError(f"no question of {path} is left ({_count(gone.reason)}): {advice}; {where} says more")
    print(f"\n{checked.id.nunique()} questions with {len(checked)} partial answers")
    print(f"in {folder.relative_to(root)}/: {', '.join(names)}")
    gone = pd.concat(run.dropped)
    lost = gone[gone.reason.isin(_FAILED)]
    if len(lost):
        print(f"{len(lost)} could not be had: run again to ask once more ({lost.detail.iloc[0]})", file=sys.stderr)
    return int(bool(len(lost)))


def _keep_viewed(run: Run, name: str, questions: pd.DataFrame, views: pd.DataFrame) -> pd.DataFrame:
    """The points of view of questions that still have one; those with fewer than three are named, with what may help.

    Source: DebateQA, which counts three before people remove some, and leaves out no question after.
    """
    counts = views.id.value_counts(sort=False)
    few = counts[counts < FEWEST]
    if len(few):
        said = ", ".join(f"{identifier} {count}" for identifier, count in few.head(5).items())
        rest = f" and {len(few) - 5:,} more questions" if len(few) > 5 else ""
        advice = run.advise(pipeline.list_dropped("question", list(few.index), "few points of view", [""] * len(few)))
        print(f"{'':20} fewer than {FEWEST} points of view are left: {said}{rest}: {advice}", flush=True)
    step = partial(pipeline.keep_debatable, questions, views, fewest=1)
    return run.step(name, "question", len(questions), step)


def _rerank(options: RunOptions, embedder: Embedder, questions: pd.DataFrame, found: pd.DataFrame) -> pipeline.Stage:
    """The nearest documents by the reranker role: a cross-encoder, whose scores have no bound, or cosines."""
    spec = parse_role("reranker", options.find_role("reranker"))
    if spec.kind == "embedded":
        return pipeline.keep_nearest(questions, found, pipeline.score_by_cosine(embedder))
    return pipeline.keep_nearest(questions, found, open_cross_encoder(spec), near=-inf)


def write_made(run: Run, views: pd.DataFrame, parts: pd.DataFrame, found: pd.DataFrame, seed: int) -> list[str]:
    """Write debates.jsonl and its splits, anchors.csv, removed.csv and funnel.csv; returns their names."""
    dropped = pd.concat(run.dropped, ignore_index=True)
    dropped = dropped[["step", *pipeline.DROPPED]]
    lines = {
        identifier: json.dumps(
            {
                "id": identifier,
                "question": part.question.iloc[0],
                "partial_answers": part[["point_of_view", "explanation"]].to_dict("records"),
            },
            ensure_ascii=False,
        )
        for identifier, part in views.groupby("id", sort=False)
    }
    splits = pipeline.split_questions(list(lines), seed=seed)
    wanted = {
        "debates.jsonl": list(lines),
        **{f"{name}.jsonl": list(part.id) for name, part in splits.groupby("split")},
    }
    for name in {"test.jsonl", "dev.jsonl"} - wanted.keys():  # of an earlier run with more questions
        (run.folder / name).unlink(missing_ok=True)
    for name, identifiers in wanted.items():
        with write_atomically(run.folder / name) as scratch:
            scratch.write_text("".join(f"{lines[i]}\n" for i in identifiers), encoding="utf-8")
    anchors = parts[parts["view"].isin(views["view"])].merge(
        found[["id", "document", "address"]], on=["id", "document"], how="left"
    )
    columns = ["id", "view", "part", "document", "address", "place", "cosine", "text"]
    tables = {
        "anchors.csv": anchors.assign(cosine=anchors.cosine.round(6))[columns],
        "removed.csv": dropped,
        "funnel.csv": pipeline.count_funnel(run.steps, dropped),
    }
    for name, table in tables.items():
        with write_atomically(run.folder / name) as scratch:
            table.map(escape_formula).to_csv(scratch, index=False, lineterminator="\n")
    return [*wanted, *tables]
