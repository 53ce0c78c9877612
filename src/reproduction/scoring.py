"""Scoring a user's own file from the command line: the notebook run headless, its files put where they are found."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from nfqa.files.own_answers import read_answers
from nfqa.files.paths import Place
from reproduction.compare import name_rows
from reproduction.fingerprint import list_targets
from reproduction.options import RunOptions
from reproduction.own_scores import OF_VIEWS, escape_formula, list_flat
from reproduction.papers import Paper
from reproduction.plan import plan_targets
from reproduction.runner import copy_file, hold_scratch, prepare_vectors, run_pending
from reproduction.values import NAMES, name_keys, pick, read_values, write_intervals

_NEEDS = {
    "references": "overlap and ranking among references (LINKAGE) are",
    "partial_answers": "coverage of points of view, P.D. and D.A. (DebateQA) are",
}
_SHOWN = 8  # answers, or answers of no named system, that are shown one by one


def score_file(root: Path, options: RunOptions, identifier: str, path: Path, questions: Path | None = None) -> int:
    """Score a file of answers into build/scores/STEM-HASH/, the hash being that of its path, as `name_folder` has it.

    `questions` is the file of the questions where `path` holds answers in the released scripts' format.

    Returns: 0, or 1 when the notebook failed, with the reason on standard error; what lay there before stays then.
    Raises: ValueError for a file, role or parameter that is wrong, before anything is computed.
    """
    own = read_answers(path, questions or "")
    given = {"answers": str(path.resolve())} | ({"questions": str(questions.resolve())} if questions else {})
    folder = root / "build" / "scores" / name_folder(options, **given)
    chosen = replace(options, parameters=options.parameters | given)
    target = list_targets(root, chosen, [identifier])[-1]
    scratch, held = folder.with_name(f".new.{folder.name}"), f"another run scores {path}; wait for it, or stop it first"
    with hold_scratch(scratch, folder.with_name(f".lock.{folder.name}"), held):
        place = Place(root, scratch / "results", scratch / "results", scratch)
        print(f"{path}: {len(own.answers):,} answers to {len(own.questions):,} questions", flush=True)
        named = {each.reason: each.question for each in reversed(own.excluded)}
        for reason, count in Counter(each.reason for each in own.excluded).items():
            print(f"left out: {reason} ({count:,}), such as {named[reason]!r}", flush=True)
        noted = "; ".join(f"{name.replace('_', ' ')} ({times:,})" for name, times in own.irregularities.items())
        print(f"of note: {noted or 'nothing'}", flush=True)
        lacking = [part for part in _NEEDS if not any(getattr(question, part) for question in own.questions)]
        for part in lacking:
            print(f"no question has {part}: {_NEEDS[part]} left out (docs/formats.md)", flush=True)
        for line in plan_targets(root, [target], chosen):  # what a language model would be asked, before it is
            print(line, flush=True)
        prepare_vectors(root, options, (), own, limit=None)
        _, failed = run_pending(place, [target], jobs=1)
        if failed:
            print(f"{path} could not be scored; the message above says why", file=sys.stderr)
            return 1
        made = [scratch / "scratch" / identifier / file for file in ("scores.csv", "scores.json", "notes.md")]
        made += [*(scratch / "results").rglob("*.*"), place.notebooks / f"{identifier}.ipynb"]
        table = place.results / f"{identifier}.csv"
        values, cells = read_values(table), pd.read_csv(table, dtype=str, keep_default_na=False)
        cells.map(escape_formula).to_csv(table, index=False, lineterminator="\n")
        for file in made:
            copy_file(file, folder / file.name)
    print(f"\n{tabulate_means(target.paper, values, own.systems)}\n")
    (folder / "views.csv").unlink(missing_ok=True)
    if len(own.views):
        views = pivot_views(pd.read_csv(folder / "scores.csv", dtype=str, keep_default_na=False))
        cells = views.set_axis(views.columns.map(" ".join), axis=1).reset_index().map(escape_formula)
        cells.to_csv(folder / "views.csv", index=False, lineterminator="\n")
        shown = f"each answer: {folder.relative_to(root)}/views.csv"
        if len(own.answers) <= _SHOWN:
            shown = views.to_string(float_format="{:.1f}".format, na_rep="–")
        print(f"{describe_views(root)}\n{shown}\n")
    print(*json.loads((folder / f"{target.name}.json").read_text(encoding="utf-8"))["findings"], sep="\n")
    print(f"\nin {folder.relative_to(root)}/: {', '.join(sorted(file.name for file in folder.iterdir()))}")
    return 0


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
    named = [name for name in name_keys(table) if name not in ("dataset", "statistic", *NAMES)]
    table = table.assign(label=name_rows(paper, table, named))
    means, each = table[table.statistic == "mean_ten"], table[(table.statistic == "ten") & ~table.metric.isin(OF_VIEWS)]
    if not systems and 0 < len(each[["question", "answer"]].drop_duplicates()) <= _SHOWN:
        each = each.assign(system=each.question + " " + each.answer)
        systems, means = list(each.system.unique()), pd.concat([means, each])
    means = means[~means.label.isin(list_flat(table))]
    said = pd.Series(write_intervals(means.assign(low=np.nan), tiny=True), means.index, dtype=object)
    said = (said + " (" + means.n.astype(str) + ")").where(means.n.notna(), said).where(means.value.notna())
    by_vectors = means.metric == "embedded_judge"
    shown = means.assign(method=means.label + np.where(by_vectors, " †", ""), said=said)
    wide = shown.pivot(index="method", columns="system", values="said")
    wide = wide.reindex(columns=["", *systems]).set_axis(["all answers", *systems], axis=1)
    wide = wide.rename_axis(index=None, columns="mean, 0 (worst) to 10 (best), (questions)")
    caveat = "\n† sees topic and words more than truth: a false answer on the topic can come first"
    return wide.to_string(na_rep="–", line_width=None) + (caveat if by_vectors.any() else "")


def pivot_views(scores: pd.DataFrame) -> pd.DataFrame:
    """Each answer's place on each point of view, 0 to 10, by coverage and by P.D., beside that of the question alone.

    Args: scores: as `write_scores` wrote them, all text. Returns: a row an answer, named by question and answer; a
        column a method and point of view.
    """
    views = scores[scores.metric.isin(OF_VIEWS) & (scores.get("variant", "") != "released")]
    views = views.assign(answer=views.answer.replace("", "the question alone"), ten=pd.to_numeric(views.ten))
    views["by"] = views.metric.map({"view_coverage": "coverage", "pd_view": "P.D."})
    wide = views.pivot(index=["question", "answer"], columns=["by", "view"], values="ten")
    order = sorted(wide.columns, key=lambda column: (column[0] == "P.D.", int(column[1])))
    return wide[order].rename_axis(columns=["", "view"])


def describe_views(root: Path) -> str:
    """How to read the points of view, and how well each method tells a view that is stated from another one.

    Args: root: the checkout, whose results/debateqa/stated_views.csv says what was measured.
    """
    stated = read_values(root / "results" / "debateqa" / "stated_views.csv")
    measured = {"dataset": "perspectrum", "compared": "same_text", "statistic": "auroc"}
    by_coverage = pick(stated, **measured, metric="coverage").value
    by_perplexity = pick(stated, **measured, metric="pd_view", evaluator="small").value
    return (
        "Points of view, 0 to 10; compare the answers to one question, column by column\n"
        "Measured on points of view in other people's words (Perspectrum): coverage places the stated one above another"
        f" in {by_coverage:.0%} of cases, P.D. by the small evaluator in {by_perplexity:.0%}"
    )
