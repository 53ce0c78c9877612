"""Making partial answers of a user's own questions from the command line: the steps in order, each kept on disk."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from nfqa.files.code import hash_maker
from nfqa.files.paths import hash_file, refuse_edited, start_outputs, write_output
from nfqa.files.readers import read_questions
from nfqa.files.store import Store
from nfqa.files.tables import escape_formula
from nfqa.judge.asking import Asker
from nfqa.models.adapters import COVERAGE
from nfqa.models.chat import UNSETTLED
from nfqa.models.embed import Embedder
from nfqa.models.reranker import open_cross_encoder
from nfqa.models.roles import parse_role
from nfqa.opening import Asking, show_bar
from reproduction.data.own_debates import hash_folder, read_folder
from reproduction.debates import pipeline, write
from reproduction.debates.checking import check_views, read_labels, remove_rejected
from reproduction.debates.extract import join_views
from reproduction.debates.pipeline import Search, Stage, count_funnel, list_dropped
from reproduction.debates.search import score_by_cosine
from reproduction.debates.web_search import PASSING
from reproduction.judging import open_generators, open_judges, read_prompt_set
from reproduction.options import RunOptions, name_folder
from reproduction.place import find_cache
from reproduction.studies.people import measure_kappa

_CODE = [f"reproduction.debates.{name}" for name in ("checking", "pipeline", "web_search", "write")]
_FAILED = ("search failed", "no reply", "no explanation came", *(f"no verdict ({why})" for why in UNSETTLED))
_LABELS = "people's labels"  # read in each run: the file may have others now
_PASSING = rf"no query came|{PASSING}"  # another run asks again
Step = tuple[str, str, Callable[[], Stage]]  # its name, the unit that it counts by, how it is made


@dataclass
class Run:
    """What the steps of a run come to: the frame of each, and all that was dropped."""

    folder: Path
    questions: pd.DataFrame  # those that are left
    depends_on: str
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    counts: list[tuple[str, str, int]] = field(default_factory=list)  # step, unit, how many it was given
    dropped: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["step", *pipeline.DROPPED]))

    @property
    def last(self) -> pd.DataFrame:
        """The frame of the last step."""
        return list(self.frames.values())[-1]


def _open_one(role: str, models: dict[str, Any]) -> Any:
    if len(models) > 1:
        raise ValueError(f"{role} names {len(models)} models; name one")
    return next(iter(models.values()), None)


def open_run(
    root: Path, options: RunOptions, path: Path, documents: Path | None, search: Search | None,
    labels: pd.DataFrame | None, every: bool,
) -> tuple[Run, list[Step], Asker | None]:  # fmt: skip
    """A run over a file of questions, in build/debates/STEM-HASH/, its steps in their order, and who writes.

    Source: DebateQA, which counts three points of view before people remove some, and excludes none after.
    """
    if "evaluator" in options.roles:
        raise ValueError("EVALUATOR is set, but making debates scores nothing; unset it")
    asking = Asking(**({"prompts": "own"} | options.asking))
    writer = _open_one("GENERATOR", open_generators(root, options.find_role("generator"), asking))
    judge = _open_one("JUDGE", open_judges(root, options.find_role("judge"), asking))
    prompts = read_prompt_set(root, asking.prompts)
    if writer is not None:
        writer.decoding = replace(writer.decoding, max_tokens=write.LONGEST)
    progress = show_bar(" characters embedded", shown=True)
    embedder = Embedder(options.find_role("embedder"), find_cache(root, "embeddings"), progress=progress)
    reranker = parse_role("reranker", options.find_role("reranker"))
    folder = name_folder(options, str(path.resolve()), str(documents.resolve()) if documents else "")
    models = [(asker.spec.identity, asker.decoding.signature) for asker in (writer, judge and judge.asker) if asker]
    signed = [prompts.signature(name) for name in ("write_queries", "extract_views", "write_explanation", "check_view")]
    source = hash_folder(documents) if documents else "a search"
    vectors = embedder.tune(COVERAGE).fingerprint  # the check reads these; it holds that of the plain ones too
    start = [hash_file(path), vectors, reranker.identity, source, every, models, models and signed, hash_maker(*_CODE)]
    run = Run(root / "build" / "debates" / folder, read_questions(path), json.dumps(start))
    nothing = list_dropped("question", [], "")

    def keep_nearest() -> Stage:  # by cosines, or by a cross-encoder, whose scores have no bound
        if reranker.kind == "embedded":
            return pipeline.keep_nearest(run.questions, run.last, score_by_cosine(embedder))
        return pipeline.keep_nearest(run.questions, run.last, open_cross_encoder(reranker), near=-inf)

    def check() -> Stage:
        views = join_views(run.last.assign(question=run.last.id)).rename(columns={"question": "id"})
        return check_views(run.questions.merge(views, on="id", sort=False), embedder, judge=judge)

    def remove(labels: pd.DataFrame) -> Stage:
        views = {escape_formula(name): name for name in run.last["view"]}  # as anchors.csv has them
        return remove_rejected(run.last, labels.assign(item=labels["item"].replace(views)))

    def keep_viewed() -> Stage:
        return pipeline.keep_debatable(run.questions, run.last, fewest=1)

    steps: list[Step] = [
        ("sourcing", "question", lambda: pipeline.drop_repeats(run.questions, embedder)),
        ("queries", "question", lambda: write.write_queries(run.questions, writer, prompts) if writer
         else (pipeline.expand_questions(run.questions), nothing)),
        *([("reading the folder", "document", lambda: read_folder(documents))] if documents else []),
        ("search", "question", lambda: pipeline.search_web(run.questions, run.last, search) if search and not documents
         else pipeline.search_collection(run.questions, run.frames["queries"], run.last, embedder)),
        ("trusted domains", "document", lambda: pipeline.keep_trusted(run.last, every=every)),
        ("nearest documents", "question", keep_nearest),
        ("points of view", "question", lambda: write.write_parts(run.last, writer, prompts, embedder) if writer
         else (pipeline.extract_parts(run.last, embedder), nothing)),
        ("debatable", "question", lambda: pipeline.keep_debatable(run.questions, run.last)),
        ("checking", "point of view", check),
        ("left after checking", "question", keep_viewed),
    ]  # fmt: skip
    if labels is not None:
        steps += [(_LABELS, "point of view", lambda: remove(labels)), ("left after labels", "question", keep_viewed)]
    return run, steps, writer


def _note_thinking(writers: Iterable[Asker]) -> None:
    count = sum(writer.tally.thinking for writer in writers)
    if count:
        print(f"{count:,} texts came after a model's thinking, which was removed")


def take_steps(run: Run, steps: list[Step]) -> None:
    """Take each step, or read what it came to before, and print how many it keeps.

    A step that failed in part, as where a server gave no reply, is not kept: the next run takes it again.
    """
    store = Store(run.folder / "steps.sqlite", "steps", frames="TEXT")
    for name, unit, make in steps:
        key = hashlib.sha256(f"{run.depends_on}\0{name}".encode()).digest()
        stored = store.read([key]) if name != _LABELS else {}
        frames = stored[key][0] if stored else json.dumps([*map(_list_cells, make())], ensure_ascii=False)
        result, dropped = (pd.DataFrame(part["data"], columns=part["columns"]) for part in json.loads(frames))
        reasons = dropped.reason.astype(str)
        if not (reasons.isin(_FAILED) | reasons.str.fullmatch(_PASSING)).any():
            store.write([(key, frames)])
        run.depends_on = hashlib.sha256(key + frames.encode()).hexdigest()
        gone = dropped["item"][dropped.unit == unit]
        total = len(run.questions) if unit == "question" else len(result) + len(gone)
        if unit == "question":
            run.questions = run.questions[~run.questions.id.isin(gone)]
        run.frames[name] = result
        run.counts.append((name, unit, total))
        run.dropped = pd.concat([run.dropped, dropped.assign(step=name)], ignore_index=True)
        print(f"{name:20} {unit:14} {total:7,} given, {total - len(gone):7,} kept", flush=True)


def _list_cells(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="split", index=False, double_precision=15))


def make_debates(
    root: Path, options: RunOptions, path: Path, documents: Path | None = None,
    *, search_with: Search | None = None, labels: Path | None = None, every: bool = False,
) -> int:  # fmt: skip
    """Make partial answers for the questions of a file into build/debates/STEM-HASH/, in DebateQA's own format.

    Args: documents: a folder of texts; search_with: a search in its place; labels: people's labels of points of view of
        an earlier run; every: documents of untrusted domains count too.
    Returns: 0, or 1 where a search or a model failed for a question, which is counted and excluded.
    Raises: ValueError for a file, folder or role that is wrong, or where no question is left.
    """
    if documents is None and search_with is None:
        raise ValueError("name a folder of texts, as in DOCUMENTS=data/sample/debate_documents, or a search: SEARCHER=")
    labelled = read_labels(labels) if labels else None
    run, steps, writer = open_run(root, options, path, documents, search_with, labelled, every)
    made_by = "written by the generator" if writer else "extractive: sentences of the documents, by no language model"
    print(f"{path}: {len(run.questions):,} questions; points of view {made_by}", flush=True)
    take_steps(run, steps)
    files, folder = write_made(run), run.folder.relative_to(root)
    if len(run.dropped):
        print(f"\nExcluded:\n{run.dropped.value_counts(['step', 'unit', 'reason'], sort=False).to_string()}")
    if labelled is not None:
        kappas = [measure_kappa(part, "label", items=["item"], raters="most").assign(task=task)
                  for task, part in labelled.groupby("task", sort=False)]  # fmt: skip
        print(f"\n{pd.concat(kappas).drop(columns='dropped').to_string(index=False)}")
    if run.last.empty:
        reasons = ", ".join(run.dropped.reason[run.dropped.unit == "question"].unique())
        advice = f"give more documents about them, {'' if every else 'DOMAINS=all, '}or a language model (GENERATOR=)"
        raise ValueError(f"no question of {path} is left ({reasons}): {advice}; {folder}/removed.csv says more")
    _note_thinking([writer] if writer else [])
    print(f"\n{run.last.id.nunique()} questions with {len(run.last)} partial answers\nin {folder}/: {', '.join(files)}")
    lost = run.dropped[run.dropped.reason.isin(_FAILED)]
    if len(lost):
        print(f"{len(lost)} failed; run again to retry ({lost.detail.iloc[0]})", file=sys.stderr)
    return int(bool(len(lost)))


def write_made(run: Run) -> list[str]:
    """Write debates.jsonl and its splits, anchors.csv, removed.csv and funnel.csv; returns their names."""
    lines = {}
    for identifier, part in run.last.groupby("id", sort=False):
        views = part[["point_of_view", "explanation"]].to_dict("records")
        debate = {"id": identifier, "question": part.question.iloc[0], "partial_answers": views}
        lines[identifier] = json.dumps(debate, ensure_ascii=False) + "\n"
    texts = {"debates.jsonl": "".join(lines.values())}
    for name, part in pipeline.split_questions(list(lines)).groupby("split"):
        texts[f"{name}.jsonl"] = "".join(lines[identifier] for identifier in part.id)
    parts, alone = run.frames["debatable"], run.last["view"][run.last.explanation == ""]
    parts = parts[(parts.part == "point_of_view") | ~parts["view"].isin(alone)]
    addresses = run.frames["nearest documents"][["id", "document", "address"]]
    anchors = parts[parts["view"].isin(run.last["view"])].merge(addresses, on=["id", "document"], how="left")
    columns = ["id", "view", "part", "document", "address", "place", "cosine", "text"]
    anchors, funnel = anchors.assign(cosine=anchors.cosine.round(6))[columns], count_funnel(run.counts, run.dropped)
    for name, table in {"anchors.csv": anchors, "removed.csv": run.dropped, "funnel.csv": funnel}.items():
        texts[name] = table.map(escape_formula).to_csv(index=False, lineterminator="\n")
    start_outputs(run.folder)
    unused = {"test.jsonl", "dev.jsonl"} - texts.keys()  # of an earlier run with more questions
    for name in (*texts, *unused):
        refuse_edited(run.folder / name)
    for name in unused:
        (run.folder / name).unlink(missing_ok=True)
    for name, text in texts.items():
        with write_output(run.folder / name) as scratch:
            scratch.write_text(text, encoding="utf-8")
    return list(texts)
