"""Making partial answers of a user's own questions from the command line: the steps in order, each kept on disk."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from nfqa.files.code import hash_maker
from nfqa.files.own_tables import escape_formula
from nfqa.files.paths import find_cache, hash_file, write_text
from nfqa.files.readers import read_questions
from nfqa.files.store import Store
from nfqa.judge.asking import Asker
from nfqa.models.adapters import COVERAGE
from nfqa.models.chat import UNSETTLED
from nfqa.models.embed import Embedder
from nfqa.models.reranker import open_cross_encoder
from nfqa.models.roles import parse_role
from nfqa.opening import Asking
from reproduction.data.own_debates import hash_folder, read_folder
from reproduction.debates import pipeline, write
from reproduction.debates.checking import check_views, read_labels, remove_rejected
from reproduction.debates.extract import FEWEST, join_views
from reproduction.debates.pipeline import Search, Stage, list_dropped
from reproduction.debates.search import score_by_cosine
from reproduction.judging import open_generators, open_judges, read_prompt_set
from reproduction.options import RunOptions, name_folder
from reproduction.studies.people import measure_kappa

_CODE = (
    "reproduction.debates.checking",
    "reproduction.debates.pipeline",
    "reproduction.debates.web_search",
    "reproduction.debates.write",
)
_FAILED = ("search failed", "no reply", "no explanation came", *(f"no verdict ({why})" for why in UNSETTLED))
_FEW = r"fewer than|no document found|no point of view left"  # more documents or points of view may help
_LABELS = "people's labels"  # taken anew in each run: the file may have others now
_PASSING = r"no query came|timeout|connection|no such host|http (?:408|425|429|5\d\d)"  # another run asks again


Step = tuple[str, str, Callable[[], Stage]]  # its name, the unit that it counts by, how it is made


@dataclass
class Run:
    """What the steps of a run come to: what each kept, and all that was dropped."""

    folder: Path
    questions: pd.DataFrame  # those that are left
    documents: Path | None
    generator: Asker | None
    depends_on: str
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    counts: list[tuple[str, str, int]] = field(default_factory=list)  # step, unit, how many it was given
    dropped: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["step", *pipeline.DROPPED]))

    @property
    def last(self) -> pd.DataFrame:
        """What the last step kept."""
        return list(self.frames.values())[-1]


def open_run(
    root: Path, options: RunOptions, path: Path, documents: Path | None, search: Search | None,
    labels: pd.DataFrame | None, every: bool,
) -> tuple[Run, list[Step]]:  # fmt: skip
    """A run over a file of questions, in build/debates/STEM-HASH/, and its steps in their order.

    Source: DebateQA, which counts three points of view before people remove some, and leaves out none after.
    """
    if "evaluator" in options.roles:
        raise ValueError("EVALUATOR is set, but making debates scores nothing; unset it")
    asking = Asking(**({"prompts": "own"} | options.asking))
    generators = open_generators(root, options.find_role("generator"), asking)
    judges = open_judges(root, options.find_role("judge"), asking)
    for role, opened in (("GENERATOR", generators), ("JUDGE", judges)):
        if len(opened) > 1:
            raise ValueError(f"{role} names {len(opened)} models; name one")
    writer, judge = next(iter(generators.values()), None), next(iter(judges.values()), None)
    prompts = read_prompt_set(root, asking.prompts)
    if writer is not None:
        writer.decoding = replace(writer.decoding, max_tokens=write.LONGEST)
    embedder = Embedder(options.find_role("embedder"), find_cache(root, "embeddings"), progress=True)
    reranker = parse_role("reranker", options.find_role("reranker"))
    given = {"answers": str(path.resolve()), "questions": str(documents.resolve()) if documents else ""}
    folder = root / "build" / "debates" / name_folder(options, **given)
    asked = [(asker.spec.identity, asker.decoding.signature) for asker in (writer, judge and judge.asker) if asker]
    signed = [prompts.signature(name) for name in ("write_queries", "extract_views", "write_explanation", "check_view")]
    source = hash_folder(documents) if documents else "a search"
    vectors = embedder.tune(COVERAGE).fingerprint  # the check reads these; it holds that of the plain ones too
    start = [hash_file(path), vectors, reranker.identity, source, every, asked, asked and signed]
    run = Run(folder, read_questions(path), documents, writer, json.dumps([*start, hash_maker(*_CODE)]))
    nothing = list_dropped("question", [], "")

    def keep_viewed() -> Stage:
        return pipeline.keep_debatable(run.questions, run.last, fewest=1)

    def write_queries() -> Stage:
        if writer:
            return write.write_queries(run.questions, writer, prompts)
        return pipeline.expand_questions(run.questions), nothing

    def find_documents() -> Stage:
        if search and not documents:
            return pipeline.search_web(run.questions, run.last, search)
        return pipeline.search_collection(run.questions, run.frames["queries"], run.last, embedder)

    def keep_nearest() -> Stage:  # by a cross-encoder, whose scores have no bound, or by cosines
        if reranker.kind == "embedded":
            return pipeline.keep_nearest(run.questions, run.last, score_by_cosine(embedder))
        return pipeline.keep_nearest(run.questions, run.last, open_cross_encoder(reranker), near=-inf)

    def find_views() -> Stage:
        if writer:
            return write.write_parts(run.last, writer, prompts, embedder)
        return pipeline.extract_parts(run.last, embedder), nothing

    def check() -> Stage:
        views = join_views(run.last.assign(question=run.last.id)).rename(columns={"question": "id"})
        return check_views(run.questions.merge(views, on="id", sort=False), embedder, judge=judge)

    def remove(labels: pd.DataFrame) -> Stage:
        written = {escape_formula(name): name for name in run.last["view"]}  # as anchors.csv has them
        return remove_rejected(run.last, labels.assign(item=labels["item"].replace(written)))

    steps: list[Step] = [
        ("sourcing", "question", lambda: pipeline.drop_repeats(run.questions, embedder)),
        ("queries", "question", write_queries),
        *([("reading the folder", "document", lambda: read_folder(documents))] if documents else []),
        ("search", "question", find_documents),
        ("trusted domains", "document", lambda: pipeline.keep_trusted(run.last, every=every)),
        ("nearest documents", "question", keep_nearest),
        ("points of view", "question", find_views),
        ("debatable", "question", lambda: pipeline.keep_debatable(run.questions, run.last)),
        ("checking", "point of view", check),
        ("left after checking", "question", keep_viewed),
    ]
    if labels is not None:
        steps.append((_LABELS, "point of view", lambda: remove(labels)))
        steps.append(("left after labels", "question", keep_viewed))
    return run, steps


def make_answers(root: Path, options: RunOptions, path: Path | None, folder: Path | None) -> int:
    """Answers of the generators to a file's questions, or to DebateQA's test split: a file per model.

    What is asked is counted before it is, and every answer is kept: the same command goes on where one was stopped.
    """
    from nfqa.judge.answering import answer_questions
    from reproduction.data.load import load
    from reproduction.debates.answering import write_answer_files

    if "generator" not in options.roles:
        raise ValueError("no GENERATOR is named, as in `make answers GENERATOR=hf:Qwen/Qwen2-0.5B-Instruct`")
    if path is None:
        asked = load("debateqa_test", data=options.data, root=root).texts_by_name
    else:
        asked = read_questions(path).set_index("id").question.to_dict()
    asking = Asking(**({"prompts": "own", "decoding": "greedy"} | options.asking))
    prompts, generators = read_prompt_set(root, "own"), options.roles["generator"]
    planned = open_generators(root, generators, asking, dry=True)
    answer_questions(asked, planned, prompts)
    for name, asker in planned.items():
        wanted, tally = f"{name}: {asker.tally.wanted:,} answers wanted", asker.tally
        print(f"{wanted}, {tally.kept:,} in the journal, {tally.asked:,} to ask", flush=True)
    with tqdm(unit="answer", disable=None) as bar:

        def show(done: int, total: int) -> None:
            bar.total, bar.n = total, done
            bar.refresh()

        writers = open_generators(root, generators, asking, progress=show)
        answers = answer_questions(asked, writers, prompts)
    test_split = "sample_debateqa_test" if options.data == "sample" else "debateqa_test"
    folder = folder or root / "build" / "answers" / (path.stem if path else test_split)
    written = write_answer_files(answers, folder)
    print(pd.crosstab(answers.system, answers.ended).to_string())
    print(f"in {folder}/: {', '.join(file.name for file in written)}; `length`: an answer that was cut at its limit")
    _say_thinking(sum(writer.tally.thinking for writer in writers.values()), "answers")
    return 0


def _say_thinking(count: int, texts: str) -> None:
    if count:
        print(f"{count:,} {texts} came after a model's thinking, which is left out")


def _list_cells(frame: pd.DataFrame) -> Any:
    return json.loads(frame.to_json(orient="split", index=False, double_precision=15))


def take_steps(run: Run, steps: list[Step]) -> Iterator[tuple[str, str, int, pd.DataFrame]]:
    """Take each step, or read what it came to before: its name and unit, how many it was given, what it drops.

    A step that failed in part, as where a server gave no reply, is not kept: the next run takes it again.
    """
    store = Store(run.folder / "steps.sqlite", "steps", frames="TEXT")
    for name, unit, make in steps:
        key = hashlib.sha256(f"{run.depends_on}\0{name}".encode()).digest()
        known = store.read([key]) if name != _LABELS else {}
        text = known[key][0] if known else json.dumps([_list_cells(frame) for frame in make()], ensure_ascii=False)
        kept, dropped = (pd.DataFrame(part["data"], columns=part["columns"]) for part in json.loads(text))
        reasons = dropped.reason.astype(str)
        if not (reasons.isin(_FAILED) | reasons.str.fullmatch(_PASSING)).any():
            store.write([(key, text)])
        run.depends_on = hashlib.sha256(key + text.encode()).hexdigest()
        gone = dropped["item"][dropped.unit == unit]
        given = len(run.questions) if unit == "question" else len(kept) + len(gone)
        if unit == "question":
            run.questions = run.questions[~run.questions.id.isin(gone)]
        run.frames[name] = kept
        run.counts.append((name, unit, given))
        run.dropped = pd.concat([run.dropped, dropped.assign(step=name)], ignore_index=True)
        yield name, unit, given, dropped


def make_debates(
    root: Path,
    options: RunOptions,
    path: Path,
    documents: Path | None = None,
    *,
    search_with: Search | None = None,
    labels: Path | None = None,
    every: bool = False,
) -> int:
    """Make partial answers for the questions of a file into build/debates/STEM-HASH/, in DebateQA's own format.

    Args: documents: a folder of texts; search_with: a search in its place; labels: people's labels of points of view of
        an earlier run; every: documents of untrusted domains count too.
    Returns: 0, or 1 where a search or a model failed for a question, which is counted and left out.
    Raises: ValueError for a file, folder or role that is wrong, or where no question is left.
    """
    if documents is None and search_with is None:
        raise ValueError("name a folder of texts, as in DOCUMENTS=data/sample/debate_documents, or a search: SEARCHER=")
    labelled = read_labels(labels) if labels else None
    run, steps = open_run(root, options, path, documents, search_with, labelled, every)
    extractive = "extractive: sentences of the documents, by no language model"
    made_by = "written by the generator" if run.generator else extractive
    print(f"{path}: {len(run.questions):,} questions; points of view {made_by}", flush=True)
    for name, unit, given, dropped in take_steps(run, steps):
        _print_step(run, name, unit, given, dropped)
        if labelled is not None and name == _LABELS:
            for task, own in labelled.groupby("task", sort=False):
                kappa = measure_kappa(own, "label", items=["item"], raters="most").iloc[0]
                people = f"{own.annotator.nunique()} people on {kappa.n} points of view{f', {task}' if task else ''}"
                print(f"{'':20} Fleiss' kappa {kappa['value']:.2f} of {people}")
    names, folder = write_made(run), run.folder.relative_to(root)
    if run.last.empty:
        gone = run.dropped[run.dropped.unit == "question"]
        advice = _advise(run, gone) if gone.reason.str.match(_FEW).any() else "run again to ask once more"
        left = f"no question of {path} is left ({_count(gone.reason)})"
        raise ValueError(f"{left}: {advice}; {folder}/removed.csv says more")
    _say_thinking(run.generator.tally.thinking if run.generator else 0, "replies of the generator")
    print(f"\n{run.last.id.nunique()} questions with {len(run.last)} partial answers")
    print(f"in {folder}/: {', '.join(names)}")
    lost = run.dropped[run.dropped.reason.isin(_FAILED)]
    if len(lost):
        print(f"{len(lost)} could not be had: run again to ask once more ({lost.detail.iloc[0]})", file=sys.stderr)
    return int(bool(len(lost)))


def _print_step(run: Run, name: str, unit: str, given: int, dropped: pd.DataFrame) -> None:
    counted = {each: _count(part.reason) for each, part in dropped.groupby("unit")}
    own, left = counted.pop(unit, ""), given - (dropped.unit == unit).sum()
    print(f"{name:20} {given:7,} {_pluralise(unit)}, {left:,} kept{f' ({own})' if own else ''}", flush=True)
    for each, reasons in counted.items():
        print(f"{'':20} {_pluralise(each)} left out: {reasons}", flush=True)
    few = dropped[(dropped.unit == "question") & dropped.reason.str.match(_FEW)]
    if len(few):
        print(f"{'':20} {_shorten(list(few['item']))}: {_advise(run, few)}", flush=True)
    counts = run.last.id.value_counts(sort=False) if unit == "point of view" else pd.Series(dtype=int)
    thin = counts[counts < FEWEST]
    if len(thin):
        said = _shorten([f"{identifier} {count}" for identifier, count in thin.items()])
        advice = _advise(run, list_dropped("question", thin.index, "few points of view"))
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


def _pluralise(unit: str) -> str:
    return {"point of view": "points of view", "query": "queries"}.get(unit, f"{unit}s")


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def write_made(run: Run) -> list[str]:
    """Write debates.jsonl and its splits, anchors.csv, removed.csv and funnel.csv; returns their names."""
    lines = {}
    for identifier, part in run.last.groupby("id", sort=False):
        views = part[["point_of_view", "explanation"]].to_dict("records")
        debate = {"id": identifier, "question": part.question.iloc[0], "partial_answers": views}
        lines[identifier] = json.dumps(debate, ensure_ascii=False) + "\n"
    splits, texts = pipeline.split_questions(list(lines)), {"debates.jsonl": "".join(lines.values())}
    for name, part in splits.groupby("split"):
        texts[f"{name}.jsonl"] = "".join(lines[identifier] for identifier in part.id)
    for name in {"test.jsonl", "dev.jsonl"} - texts.keys():  # of an earlier run with more questions
        (run.folder / name).unlink(missing_ok=True)
    parts = run.frames["debatable"]
    found = run.frames["nearest documents"][["id", "document", "address"]]
    anchors = parts[parts["view"].isin(run.last["view"])].merge(found, on=["id", "document"], how="left")
    columns = ["id", "view", "part", "document", "address", "place", "cosine", "text"]
    tables = {
        "anchors.csv": anchors.assign(cosine=anchors.cosine.round(6))[columns],
        "removed.csv": run.dropped,
        "funnel.csv": pipeline.count_funnel(run.counts, run.dropped),
    }
    for name, table in tables.items():
        texts[name] = table.map(escape_formula).to_csv(index=False, lineterminator="\n")
    for name, text in texts.items():
        write_text(run.folder / name, text)
    return list(texts)
