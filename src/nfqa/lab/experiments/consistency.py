"""Does a paper agree with itself? Checks on its printed numbers alone: leaves in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from operator import attrgetter

import numpy as np

from nfqa.lab.artefacts import Leaf
from nfqa.lab.results import Row

MODELS = ("mistral", "chatgpt")
RUNS = ("spearman_run_1", "spearman_run_2", "spearman_run_3")
RULES = {  # how a printed number may come from three runs: which of them, and what n is lessened by in a deviation
    "runs_1_2_3": ((0, 1, 2), 1), "runs_1_2_3_population": ((0, 1, 2), 0),
    "runs_1_2": ((0, 1), 1), "runs_1_3": ((0, 2), 1), "runs_2_3": ((1, 2), 1),
}  # fmt: skip
CHECKS = {  # check -> the function that makes it, what its value is, what is borne out or not
    "same_setting": ("find_same_settings", "first-second", "reports of one setting are equal"),
    "mean_of_runs": ("find_spreads", "printed-computed", "printed means follow from the runs"),
    "std_of_runs": ("find_spreads", "printed-computed,n-1", "printed deviations follow from the runs"),
    "single_run": ("find_single_runs", "single-printed_mean", "a single value equals one of three runs"),
    "lead_by_mean": ("find_mean_leads", "linkage-best_other_judge", "LINKAGE leads, by single values and by means"),
    "column_order": ("find_column_order", "by_letter-by_caption", "the caption's names fit as often as the letters"),
    "repeated_value": ("find_repeats", "equal_cells", "a value equals no cell of another setting or metric"),
    "linkage_best": ("find_linkage_leads", "linkage-best_other", "LINKAGE is above its model's other rows"),
    "uniform_best": ("find_composition_leads", "uniform-best_other", "the uniform list of eight is the best of three"),
    "longer_list": ("find_composition_leads", "eight-four", "a longer list helps on ANTIQUE and hurts on TREC-DL-NF"),
    "references_help": ("find_reference_leads", "with-without", "pointwise with references is above without"),
}
LENGTH_EFFECTS = {"antique": 1, "trec_dl_nf": -1}  # section 5.2: longer lists help on the first, hurt on the other
EIGHTS = ("33221100", "33321000", "32221110")
_EDGE = 1e-12  # a value on the edge of a rounding interval is inside
_by_value = attrgetter("value")


@dataclass(frozen=True)
class Finding:
    """One comparison. where: DATASET/NAME; values: the first is the result; holds: the printed numbers bear it out."""

    check: str
    where: str
    text: str
    values: dict[str, float]
    holds: bool


def find_same_settings(leaves: Iterable[Leaf], groups: Iterable[Sequence[str]]) -> list[Finding]:
    """Compare every two reports of one setting, metric by metric, at the coarser printed precision.

    Raises: ValueError for an entry without printed numbers, or a group over several data sets.
    """
    cells, findings = {"/".join(key): cell for key, cell in group_cells(leaves).items()}, []
    for group in groups:
        if missing := [entry for entry in group if entry not in cells]:
            raise ValueError(f"same_settings: {missing[0]!r} has no printed numbers; expected ARTEFACT/SYSTEM/DATASET")
        if len({entry.rpartition("/")[2] for entry in group}) > 1:
            raise ValueError(f"same_settings: {list(group)} spans several data sets; expected one data set a group")
        for one, two in combinations(group, 2):
            pairs = {metric: (leaf, cells[two][metric]) for metric, leaf in cells[one].items() if metric in cells[two]}
            table, system, _ = one.split("/")
            findings += _compare("same_setting", f"{table}_vs_{two.partition('/')[0]}_{system}", pairs, sign=0)
    return findings


def find_spreads(leaves: Iterable[Leaf]) -> list[Finding]:
    """Compare printed means and deviations with those of the three printed runs, as far as rounding can tell."""
    findings = []
    for ((table, system, dataset), cell), name in product(group_cells(leaves).items(), ("mean", "std")):
        leaf, bounds, half = cell[f"spearman_{name}"], {}, 0.5 * 10.0 ** -cell[f"spearman_{name}"].decimals
        for rule, (members, less) in RULES.items():
            runs = [cell[RUNS[member]].value for member in members]
            around = tuple(sum(runs) / len(runs) + shift for shift in (0.0, -half, half))
            bounds[rule] = around if name == "mean" else bound_deviation(runs, half, less=less)
        reach = half + _EDGE  # the printed number is rounded too
        fits = [rule for rule, (_, low, high) in bounds.items() if low - reach <= leaf.value <= high + reach]
        (centre, low, high), holds = bounds["runs_1_2_3"], "runs_1_2_3" in fits
        others = " or ".join(f"{rule.replace('_', ' ')} ({bounds[rule][0]:.5f})" for rule in fits)
        text = f"{dataset}: {table} {system}: the printed {name} {_show(leaf)} "
        text += f"{'follows' if holds else 'does not follow'} from the three printed runs, which give {centre:.5f} "
        text += f"({low:.5f} to {high:.5f} before rounding)"
        text += "." if holds else f"; other rules tried that reproduce it: {others or 'none'}."
        values = {"gap": leaf.value - centre, "printed": leaf.value, "low": low, "high": high, "n": 3.0}
        values |= {rule: bound[0] for rule, bound in bounds.items()}
        findings.append(Finding(f"{name}_of_runs", f"{dataset}/{table}_{system}_{leaf.metric}", text, values, holds))
    return findings


def find_single_runs(singles: Iterable[Leaf], leaves: Iterable[Leaf]) -> list[Finding]:
    """Where a single printed Spearman lies among three runs. Holds where it equals one of them."""
    published, findings = {leaf.key: leaf for leaf in singles}, []
    for (table, system, dataset), cell in group_cells(leaves).items():
        leaf, mean, runs = published[system, dataset, "spearman"], cell["spearman_mean"], [cell[run] for run in RUNS]
        nearest = min(range(3), key=lambda index: abs(_subtract(leaf, runs[index])))
        rank, above = 1 + sum(run.value > runs[nearest].value for run in runs), _subtract(leaf, mean)
        holds = are_equal(leaf, runs[nearest])
        text = f"{dataset}: {_name_table(leaf)} {system}: Spearman {_show(leaf)} "
        text += "equals " if holds else f"equals no run of {table}; the nearest, {_show(runs[nearest])}, is "
        text += f"run {nearest + 1}, {('best', 'second', 'worst')[rank - 1]} of three; "
        text += f"{above:+.4f} from the printed mean {_show(mean)}."
        values = {"above_mean": above, "single": leaf.value, "run": nearest + 1.0, "rank": float(rank), "n": 3.0}
        name = f"{_name_table(leaf)}_vs_{table}_{system}_spearman"
        findings.append(Finding("single_run", f"{dataset}/{name}", text, values, holds))
    return findings


def find_mean_leads(singles: Iterable[Leaf], leaves: Iterable[Leaf]) -> list[Finding]:
    """LINKAGE's lead over its evaluator model's best other judge, by single Spearman values and by printed means.

    A judge that sees no references has no runs: its single value serves twice.
    """
    means, published, findings = group_cells(leaves), {leaf.key: leaf for leaf in singles}, []
    for (table, system, dataset), cell in means.items():
        judge, model = name_judge(system)
        if judge != "linkage":
            continue
        judges = [leaf for key, leaf in published.items() if key[1:] == (dataset, "spearman") and model in key[0]]
        rivals = [leaf for leaf in judges if name_judge(leaf.system)[0] != judge]
        averaged = [means.get((table, leaf.system, dataset), {}).get("spearman_mean", leaf) for leaf in rivals]
        pairs = {"spearman": (published[system, dataset, "spearman"], max(rivals, key=_by_value))}
        pairs["spearman_mean"] = (cell["spearman_mean"], max(averaged, key=_by_value))
        findings += _compare("lead_by_mean", f"{table}_{system}_lead", pairs)
    return findings


def find_column_order(lettered: Sequence[Leaf], named: Sequence[Leaf]) -> list[Finding]:
    """Count the values of lettered columns that named columns repeat for the same judge and data set.

    Holds where the order of the caption's names (Pearson before Spearman) fits as often as the letters do.
    """
    findings = []
    for table, dataset in dict.fromkeys((_name_table(leaf), leaf.dataset) for leaf in named):
        equal: dict[bool, set[tuple[str, str, str]]] = {True: set(), False: set()}
        targets = [leaf for leaf in named if (_name_table(leaf), leaf.dataset) == (table, dataset)]
        for one, two in product(lettered, targets):
            compared = one.metric in ("spearman", "pearson") and two.metric in ("spearman", "pearson", *RUNS)
            listwise = name_judge(one.system)[0] == "linkage" and name_judge(one.system) == name_judge(two.system)
            kin = one.dataset == dataset and (one.system == two.system or listwise)
            if compared and kin and are_equal(one, two):
                equal[two.metric.startswith(one.metric)].add(one.key)
        letters, caption = len(equal[True]), len(equal[False])
        text = f"{dataset}: Table 2's second and third column share {letters} values with {table} when read by letter "
        text += f"(Spearman, Pearson), {caption} when read in the order of the caption's names (Pearson, Spearman)."
        values = {"more": float(letters - caption), "by_letters": float(letters), "by_caption": float(caption)}
        findings.append(Finding("column_order", f"{dataset}/table_02_vs_{table}", text, values, caption >= letters))
    return findings


def find_repeats(singles: Sequence[Leaf], leaves: Iterable[Leaf], groups: Sequence[Sequence[str]]) -> list[Finding]:
    """Published cells of the same judge under another setting or metric that have a value too; holds without one."""
    findings = []
    for leaf in (leaf for leaf in leaves if leaf.metric in ("kendall", "spearman", "pearson", *RUNS)):
        table, metric = _name_table(leaf), leaf.metric.partition("_run_")[0]
        own = f"{table}/{leaf.system}/{leaf.dataset}"
        same = [own.split("/")[1:], *(entry.split("/")[1:] for group in groups if own in group for entry in group)]
        kin = [twin for twin in singles if name_judge(twin.system) == name_judge(leaf.system) and are_equal(twin, leaf)]
        twins = [twin for twin in kin if twin.metric != metric or [twin.system, twin.dataset] not in same]
        told = ", ".join(f"{_name_table(twin)} {twin.system} {twin.metric} on {twin.dataset}" for twin in twins)
        text = f"{leaf.dataset}: {table} {leaf.system} {leaf.metric} {_show(leaf)} equals {told or 'no other cell'}."
        values, where = {"equal_cells": float(len(twins))}, f"{leaf.dataset}/{table}_{leaf.system}_{leaf.metric}"
        findings.append(Finding("repeated_value", where, text, values, not twins))
    return findings


def find_linkage_leads(leaves: Sequence[Leaf]) -> list[Finding]:
    """The best LINKAGE row of an evaluator model against the best of its other judges, and of automatic metrics."""
    findings, columns = [], dict[tuple[str, str], dict[str, list[Leaf]]]()
    for leaf in leaves:
        columns.setdefault((_name_table(leaf), leaf.dataset), {}).setdefault(leaf.metric, []).append(leaf)
    for ((table, _), column), model, rival in product(columns.items(), MODELS, ("judges", "automatic")):
        pairs = {}
        for metric, cells in column.items():
            ours = [leaf for leaf in cells if name_judge(leaf.system) == ("linkage", model)]
            judges = [leaf for leaf in cells if name_judge(leaf.system)[1] == model and leaf not in ours]
            others = judges if rival == "judges" else [leaf for leaf in cells if not name_judge(leaf.system)[1]]
            if ours and others:
                pairs[metric] = (max(ours, key=_by_value), max(others, key=_by_value))
        findings += _compare("linkage_best", f"{table}_{model}_linkage_over_{rival}", pairs)
    return findings


def find_composition_leads(leaves: Iterable[Leaf]) -> list[Finding]:
    """The uniform list of eight against the best other list of eight; every list of eight against the list of four."""
    cells, findings = group_cells(leaves), []
    for (table, system, dataset), cell in cells.items():
        stem, _, name = system.rpartition("_r")
        if name == EIGHTS[0]:
            others = [cells[table, f"{stem}_r{other}", dataset] for other in EIGHTS[1:]]
            pairs = {m: (leaf, max((other[m] for other in others), key=_by_value)) for m, leaf in cell.items()}
            findings += _compare("uniform_best", f"{table}_{system}", pairs)
        if name in EIGHTS:
            pairs = {metric: (leaf, cells[table, f"{stem}_r3210", dataset][metric]) for metric, leaf in cell.items()}
            findings += _compare("longer_list", f"{table}_{system}", pairs, sign=LENGTH_EFFECTS[dataset])
    return findings


def find_reference_leads(leaves: Iterable[Leaf]) -> list[Finding]:
    """A score with references against the same judge's without; Table 2 has the latter where a table lacks it."""
    cells, findings = group_cells(leaves), []
    for (table, system, dataset), cell in cells.items():
        plain = system.replace("pointwise_ref_", "pointwise_")
        without = cells.get((table, plain, dataset)) or cells.get(("table_02", plain, dataset), {})
        named = {metric: metric.removesuffix("_mean") for metric in cell if plain != system}
        pairs = {metric: (cell[metric], without[name]) for metric, name in named.items() if name in without}
        findings += _compare("references_help", f"{table}_{system}_lead", pairs)
    return findings


def make_rows(findings: Sequence[Finding]) -> list[Row]:
    """A row a finding, and a row a check with how many of its findings the printed numbers don't bear out."""
    cases = [(f.check, f.where, next(iter(f.values.values())), f.values.get("n")) for f in findings]
    for check in dict.fromkeys(finding.check for finding in findings):
        held = [finding.holds for finding in findings if finding.check == check]
        cases.append((check, "all/n_not_borne_out", float(held.count(False)), float(len(held))))
    rows = []
    for check, where, value, size in cases:
        (dataset, name), (function, what, _), n = where.split("/"), CHECKS[check], None if size is None else int(size)
        rows.append(Row(
            system=check, dataset=dataset, metric=name, value=value, n=n, signature=f"{check}|value:{what}|printed|v1",
            kernels=(f"{__name__}:{function}",), origin="paper",
        ))  # fmt: skip
    return rows


def describe_findings(findings: Sequence[Finding]) -> list[str]:
    """A count a check, then every pair of rows that doesn't bear it out, once."""
    told = []
    for check in dict.fromkeys(finding.check for finding in findings):
        some = [finding for finding in findings if finding.check == check]
        held, what = sum(finding.holds for finding in some), CHECKS[check][2]
        told.append(f"{check} ({what}): borne out by {held} of {len(some)} comparisons.")
        if check == "single_run":
            best, second, worst = (sum(finding.values["rank"] == place for finding in some) for place in (1, 2, 3))
            told[-1] += f" The run equal or nearest is the best of three {best} times, second {second}, worst {worst}."
        told += list(dict.fromkeys(finding.text for finding in some if not finding.holds))
    return told


def group_cells(leaves: Iterable[Leaf]) -> dict[tuple[str, str, str], dict[str, Leaf]]:
    """Leaves by (table, system, data set), then metric, in the paper's order."""
    cells: dict[tuple[str, str, str], dict[str, Leaf]] = {}
    for leaf in leaves:
        cells.setdefault((_name_table(leaf), leaf.system, leaf.dataset), {})[leaf.metric] = leaf
    return cells


def are_equal(one: Leaf, two: Leaf) -> bool:
    """Whether two printed numbers agree at the coarser of their precisions."""
    return abs(one.value - two.value) <= 0.5 * 10.0 ** -min(one.decimals, two.decimals) + _EDGE


def name_judge(system: str) -> tuple[str, str]:
    """The way of judging and the evaluator model in a row's name; the model is "" for an automatic metric."""
    return system.partition("_")[0], next((model for model in MODELS if model in system), "")


def bound_deviation(values: Sequence[float], half: float, *, less: int = 1) -> tuple[float, float, float]:
    """The deviation with n - `less`, and the least and greatest one of numbers within `half` of `values`.

    The deviation is convex: greatest on a corner of that box, least where each number is as near to their mean as it
    may be, which repeated clipping finds.
    """
    nearest = middle = np.array(values)
    for _ in range(100):
        nearest = np.clip(nearest.mean(), middle - half, middle + half)
    corners = [middle + np.array(shifts) for shifts in product((-half, half), repeat=len(middle))]
    spread = [float(np.std(numbers, ddof=less)) for numbers in (middle, nearest, *corners)]
    return spread[0], spread[1], max(spread)


def _compare(check: str, name: str, pairs: Mapping[str, tuple[Leaf, Leaf]], *, sign: int = 1) -> list[Finding]:
    """Whether the first leaf is above (sign 1), below (-1) or equal to (0) the second; the same rows share a text."""
    told, titles, findings = dict[str, list[str]](), {}, []
    for metric, (one, two) in pairs.items():
        titles[metric] = f"{one.dataset}: {_name_table(one)} {one.system} against {_name_table(two)} {two.system}"
        order = ", the same digits in another order" * (sorted(one.text) == sorted(two.text) and one.text != two.text)
        gap = f"{metric} {_show(one)}, {_show(two)} ({_subtract(one, two):+.4f}{order})"
        told.setdefault(titles[metric], []).append(gap)
    for metric, (one, two) in pairs.items():
        difference, text = _subtract(one, two), f"{titles[metric]}: {'; '.join(told[titles[metric]])}."
        holds = difference * sign > 0 if sign else are_equal(one, two)
        values = {"gap": difference, "first": one.value, "second": two.value}
        findings.append(Finding(check, f"{one.dataset}/{name}_{metric}", text, values, holds))
    return findings


def _name_table(leaf: Leaf) -> str:
    return leaf.artefact.rpartition("/")[2]


def _show(leaf: Leaf) -> str:
    return f"{leaf.value:.{leaf.decimals}f}"


def _subtract(one: Leaf, two: Leaf) -> float:
    return round(one.value - two.value, max(one.decimals, two.decimals))
