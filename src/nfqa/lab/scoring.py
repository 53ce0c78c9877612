"""Scoring a user's own file from the command line: the notebook run headless, its files put where they are found."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from nfqa.data.own_answers import read_answers
from nfqa.data.paths import Place, write_atomically
from nfqa.data.records import QuestionSet
from nfqa.data.registry import UnreachableError
from nfqa.lab.compare import name_rows
from nfqa.lab.fingerprint import Target, list_targets
from nfqa.lab.options import RunOptions
from nfqa.lab.own_scores import OF_VIEWS, escape_formula, list_flat
from nfqa.lab.papers import Paper
from nfqa.lab.plan import plan_targets
from nfqa.lab.runner import prepare_vectors, reach_data, run_pending
from nfqa.lab.values import NAMES, name_keys, pick, read_values, write_intervals

_NEW = ".new."  # then the process and a random name: a scratch folder
_NEEDS = {
    "references": "overlap and ranking among references (LINKAGE) are",
    "partial_answers": "coverage of points of view, P.D. and D.A. (DebateQA) are",
}
_SHOWN = 8  # answers of no named system that are shown by themselves
_SMALL = {"metric": "pd_view", "evaluator": "small"}


def score_file(root: Path, options: RunOptions, identifier: str, path: Path, questions: Path | None = None) -> int:
    """Score a file of answers into build/scores/STEM-HASH/, the hash being that of its path, as `name_folder` has it.

    `questions` is the file of the questions where `path` holds answers in the released scripts' format.

    Returns: 0, or 1 when the notebook failed, with the reason on standard error; what lay there before stays then.
    Raises: ValueError for a file, role or parameter that is wrong, before anything is computed.
    """
    own = read_answers(path, questions or "")
    files = {"answers": path, "questions": questions}
    given = {key: str(file.resolve()) for key, file in files.items() if file}
    folder = root / "build" / "scores" / name_folder(options, **given)
    chosen = replace(options, parameters=options.parameters | given)
    target = list_targets(root, chosen, [identifier])[-1]
    folder.parent.mkdir(parents=True, exist_ok=True)
    clear_stale(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{_NEW}{os.getpid()}.") as name:
        scratch = Path(name)
        place = Place(root, scratch / "results", scratch / "results", scratch)
        print(f"{path}: {len(own.answers):,} answers to {len(own.questions):,} questions", flush=True)
        for given_part, lost in _NEEDS.items():
            if not any(getattr(question, given_part) for question in own.questions):
                print(f"no question has {given_part}: {lost} left out (docs/formats.md)", flush=True)
        _say_plan(root, target, chosen)
        datasets = _list_training(root, target, chosen, own)
        prepare_vectors(root, options, datasets, limit=None, **given)
        _, failed = run_pending(place, [target], jobs=1)
        if failed:
            print(f"{path} could not be scored; the message above says why", file=sys.stderr)
            return 1
        made = [scratch / "scratch" / identifier / file for file in ("scores.csv", "scores.json", "notes.md")]
        made += [*(scratch / "results").rglob("*.*"), place.notebooks / f"{identifier}.ipynb"]
        values = read_values(place.results / f"{identifier}.csv")
        for file in made:
            with write_atomically(folder / file.name) as copy:
                shutil.copyfile(file, copy)
                if file.name == f"{target.name}.csv":
                    cells = pd.read_csv(file, dtype=str, keep_default_na=False)
                    cells.map(escape_formula).to_csv(copy, index=False, lineterminator="\n")
    print(f"\n{tabulate_means(target.paper, values, own.systems)}\n")
    if len(own.views):
        print(f"{tabulate_views(pd.read_csv(folder / 'scores.csv', dtype=str, keep_default_na=False), root)}\n")
    print(*json.loads((folder / f"{target.name}.json").read_text(encoding="utf-8"))["findings"], sep="\n")
    print(f"\nin {folder.relative_to(root)}/: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    return 0


def clear_stale(folder: Path) -> None:
    """Remove the scratch folders in it whose process is gone: a run that was killed could not remove its own."""
    for scratch in folder.glob(f"{_NEW}*"):
        process = scratch.name.removeprefix(_NEW).partition(".")[0]
        if not (process.isdigit() and _is_alive(int(process))):
            shutil.rmtree(scratch, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        pass
    return True


def name_folder(options: RunOptions, answers: str, questions: str = "") -> str:
    """STEM-HASH, the hash of the files' resolved paths, then what is overridden: no two files share a folder."""
    digest = hashlib.sha256(os.fsencode(f"{answers}\n{questions}")).hexdigest()[:8]
    stem = Path(answers).stem.strip(". ")[:40] or "answers"
    changed = (options.variant, options.data, "" if options.variant else options.profile)
    return "-".join([stem, digest, *(part for part in changed if part not in ("", "full"))])


def tabulate_means(paper: Paper, table: pd.DataFrame, systems: Sequence[str]) -> str:
    """A line a method: its means on the 0-10 scale, of all answers and of each system's; a dash for none.

    In brackets, over how many questions: systems may have answered different ones. A few answers of no named system
    have a column each. Overlap measures under which no answer reaches 0.005 are left out; the embedded judge has a
    mark, with its caveat below.
    """
    means, each = table[table.statistic == "mean_ten"], table[(table.statistic == "ten") & ~table.metric.isin(OF_VIEWS)]
    if not systems and 0 < len(each[["question", "answer"]].drop_duplicates()) <= _SHOWN:
        systems = list(dict.fromkeys(each.question + " " + each.answer))
        means = pd.concat([means, each.assign(system=each.question + " " + each.answer)])
    named = [name for name in name_keys(table) if name not in ("dataset", "statistic", *NAMES)]
    said = pd.Series(write_intervals(means.assign(low=np.nan), tiny=True), means.index)
    said = (said + " (" + means.n.astype(str) + ")").where(means.n.notna(), said).where(means.value.notna())
    labels = pd.Series(name_rows(paper, means, named), means.index)
    marked = labels + np.where(means.metric == "embedded_judge", " †", "")
    flat = list_flat(table.assign(label=name_rows(paper, table, named)))
    shown = means.assign(method=marked, said=said)[~labels.isin(flat)]
    wide = shown.pivot(index="method", columns="system", values="said")
    wide = wide.reindex(columns=["", *systems]).set_axis(["all answers", *systems], axis=1)
    wide = wide.rename_axis(index=None, columns="mean, 0 (worst) to 10 (best), (questions)")
    caveat = "† sees topic and words more than truth: a false answer on the topic can come first"
    text = wide.to_string(na_rep="–", line_width=None)
    return f"{text}\n{caveat}" if shown.metric.eq("embedded_judge").any() else text


def tabulate_views(scores: pd.DataFrame, root: Path) -> str:
    """Each answer's place on each point of view, 0 to 10, by cosine and by P.D., beside that of the question alone.

    Above it, how well each tells a view that is stated from another one, as results/debateqa/stated_views.csv has it.
    Args: scores: as `write_scores` wrote them, all text; root: the checkout, whose results say what was measured.
    """
    views = scores[scores.metric.isin(OF_VIEWS) & (scores.get("variant", "") != "released")]
    views = views.assign(answer=views.answer.replace("", "the question alone"), ten=pd.to_numeric(views.ten))
    views["by"] = pd.Categorical(views.metric.map({"view_cosine": "cosine", "pd_view": "P.D."}), ["cosine", "P.D."])
    wide = views.astype({"view": int}).pivot(index=["question", "answer"], columns=["by", "view"], values="ten")
    table = wide.sort_index(axis=1).rename_axis(columns=["", "view"])
    title = "Points of view, 0 to 10; compare the answers to one question, column by column"
    return f"{title}\n{_say_measured(root)}{table.to_string(float_format='{:.1f}'.format, na_rep='–')}"


def _say_measured(root: Path) -> str:
    path = root / "results" / "debateqa" / "stated_views.csv"
    if not path.is_file():
        return ""
    measured = {"dataset": "perspectrum", "compared": "same_text", "statistic": "auroc"}
    table = read_values(path)
    cosine, perplexity = (pick(table, **measured, **row).value for row in ({"metric": "cosine"}, _SMALL))
    return (
        "Measured on points of view in other people's words (Perspectrum): cosine places the stated one above another"
        f" in {cosine:.0%} of cases, P.D. by the small evaluator in {perplexity:.0%}\n"
    )


def _say_plan(root: Path, target: Target, options: RunOptions) -> None:
    """What a language model would be asked, before it is."""
    try:
        for line in plan_targets(root, [target], options):
            print(line, flush=True)
    except UnreachableError as error:  # the released prompts
        raise ValueError(f"{error}; or use PROMPTS=own") from None


def _list_training(root: Path, target: Target, options: RunOptions, own: QuestionSet) -> list[str]:
    """What the trained judge learns from. Without it, or without references to place an answer among, it's left out."""
    if not any(question.references for question in own.questions):
        return []
    problems = reach_data(root, [target]) if options.data == "full" else []
    for line in problems:
        print(f"left out, as its data can't be reached: the trained judge. {line}", file=sys.stderr, flush=True)
    return [] if problems else list(target.artefact.datasets)
