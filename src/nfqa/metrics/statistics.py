"""From scores to values, frame to frame: correlation or choice inside each question, averages,
differences, intervals.

Scores have a row for each answer: `dataset`, `question`, `answer`, `grade`, `seed`, `metric`,
conditions, `score`, and `missing`, the reason where there is no score. Measurements have a row for
each question: `statistic`, `measured` and `missing`. Values have a row for each average:
`statistic`, `value`, `low`, `high`, `spread`, `n`, `resampled` (what was drawn independently, and
how many of it), `dropped` and `dropped_because`. Every other column is a condition and passes
through unchanged, but for `note`, which is of one score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nfqa.files.json_lines import suggest
from nfqa.kernels.choice import TieRule, credit_choice
from nfqa.kernels.correlation import REASONS, Coefficient, correlate_groups
from nfqa.kernels.intervals import (
    FEWEST,
    Interval,
    clip_share,
    estimate_difference,
    estimate_mean,
    estimate_ratio,
    find_share,
)  # fmt: skip

Undefined = Literal["drop", "zero"]
COEFFICIENTS: tuple[Coefficient, ...] = get_args(Coefficient)
OF_AN_ANSWER = (  # never a condition
    "answer", "system", "text", "grade", "score", "missing", "verdicts", "unreadable", "mass",
    "words", "other", "ten", "rank", "probability", "wins", "note", "flags",
)  # fmt: skip
_MEASURED = ("measured", "missing")
_NO_CONDITIONS = (*_MEASURED, "note")  # what happened to one text, such as that it was cut, is none of a mean


def correlate(
    scores: pd.DataFrame,
    *,
    x: str = "score",
    y: str = "grade",
    by: Sequence[str] | None = None,
    methods: Sequence[Coefficient] = COEFFICIENTS,
    undefined: Undefined = "drop",
) -> pd.DataFrame:
    """Correlate two columns inside each group, such as scores with people's grades: one measurement
    per coefficient.

    Args: scores: columns `missing` (a reason, or blank) and those of x, y and by; by: the columns
        whose distinct values make a group, those of `list_conditions` where None; undefined: a
        coefficient that does not exist (constant scores or grades, fewer than two answers) is
        missing ("drop") or counts as 0 ("zero"). A row without x is excluded; a group in which no
        row has it stays missing.
    Returns: the columns of `by`, `statistic`, `measured` in [-1, 1], and `missing`, "" where it is
        defined.
    Raises: ValueError for a column that is not there, or an unknown rule.
    Source: `nfqa.kernels.correlation.correlate_groups`.
    """
    if undefined not in get_args(Undefined):
        raise ValueError(f"undefined is {undefined!r}; expected one of {', '.join(get_args(Undefined))}")
    keys = list_conditions(scores, x, y) if by is None else list(by)
    require_columns(scores, [*keys, x, y])
    group = scores.groupby(keys, sort=False, dropna=False).ngroup().to_numpy()
    order = np.argsort(group, kind="stable")  # groups one after another, in the order of their first row
    scored = scores[x].notna().to_numpy()[order]
    sizes = np.bincount(group[order][scored], minlength=group.max(initial=-1) + 1)
    heads = scores.iloc[order].drop_duplicates(keys)
    first, second = (scores[name].to_numpy(dtype=np.float64)[order][scored] for name in (x, y))
    why = heads.missing.fillna("").to_numpy(dtype=object) if "missing" in scores else np.full(len(heads), "", object)
    why = np.where(sizes == 0, why, "")
    frames = []
    for method in methods:
        result = correlate_groups(first, second, sizes, method=method)
        reasons = np.array(["", *REASONS[1:]], dtype=object)[result.reasons]
        measured = np.where((reasons != "") & (undefined == "zero") & (why == ""), 0.0, result.values)
        reasons = np.where(np.isnan(measured), np.where(why != "", why, reasons), "")
        frames.append(heads[keys].assign(statistic=method, measured=measured, missing=reasons))
    return pd.concat(frames, ignore_index=True)


def credit_choices(scores: pd.DataFrame, *, ties: TieRule = "expected") -> pd.DataFrame:
    """Whether the highest score is on a best-graded answer of a question, and the lowest on a
    worst-graded one as well.

    Args: scores: one row an answer, `score`, `grade`, `missing` (a reason, or blank); ties: what
        tied scores earn.
    Returns: two measurements a question and set of conditions, `statistic` "acc_best" and
        "acc_best_worst", `measured` from 0 to 1. With any answer unscored both are missing, with
        the first answer's reason, or "unscored".
    Source: `nfqa.kernels.choice.credit_choice`.
    """
    require_columns(scores, ["question", "score", "grade"])
    keys = list_conditions(scores)
    rows = []
    for key, group in iterate_groups(scores, keys):
        reasons = group.get("missing", pd.Series("", group.index))[group.score.isna()]
        why = "" if reasons.empty else reasons.iloc[0] or "unscored"
        for statistic, worst_too in (("acc_best", False), ("acc_best_worst", True)):
            credit = np.nan if why else credit_choice(group.score, group.grade, worst_too=worst_too, ties=ties)
            rows.append(key | {"statistic": statistic, "measured": credit, "missing": why})
    return pd.DataFrame(rows, columns=[*keys, "statistic", *_MEASURED])


def average(
    measurements: pd.DataFrame,
    *,
    over: str = "question",
    columns: str = "seed",
    within: str = "",
    crossed: bool = False,
    share: bool | Collection[str] = False,
) -> pd.DataFrame:
    """Average over questions and seeds, with a 95 % interval over questions: one value for each set
    of conditions.

    Args: measurements: `over`, `measured`, `missing` (optional, the reason of a NaN), `columns`
        (optional), conditions; over: what was drawn independently, and stays together; columns:
        what an average is taken over first, and spread is over; within: what is averaged inside
        each of `over` before that, so that each weighs alike however many it has; crossed: each of
        `columns` was drawn as well, for all of `over`; share: measurements, or those of the metrics
        named, are from 0 to 1, as is the interval: Wilson's where all are 0 or 1 in one column, or
        where fewer than five of `over` are above 0, or below 1.
    Returns: the conditions in order of first appearance, `value`, `low`, `high`, `spread` (standard
        deviation over `columns`, NaN for one), `n` and `dropped` (measurements present and
        missing), `dropped_because`, `resampled`.
    Source: `nfqa.kernels.intervals`: estimate_mean, find_share.
    """
    rows = []
    for key, group in _split(measurements, [over, columns, within, *_NO_CONDITIONS]):
        table = _tabulate(group, over, columns, within, group[over].drop_duplicates())
        interval = estimate_mean(table, crossed=crossed)
        if share if isinstance(share, bool) else key["metric"] in share:
            decided = table.shape[1] == 1 and np.isin(table[~np.isnan(table)], (0, 1)).all()
            rare = min((table > 0).any(1).sum(), (table < 1).any(1).sum()) < FEWEST  # of Student's t on either side
            of_units = find_share(pd.DataFrame(table).mean(axis=1))
            interval = (
                replace(interval, low=of_units.low, high=of_units.high) if decided or rare else clip_share(interval)
            )
            interval = replace(interval, spread=interval.spread or None)  # a spread of 0 says nothing
        row = key | _describe(interval, group, over, columns if crossed else "")
        rows.append(row | {"n": group.measured.count(), "dropped": group.measured.isna().sum()} if within else row)
    return pd.DataFrame(rows)


def subtract(
    measurements: pd.DataFrame,
    base: pd.Series,
    *,
    across: Sequence[str],
    named: str,
    over: str = "question",
    within: str = "",
    crossed: bool = False,
) -> pd.DataFrame:
    """The average of each group minus that of its base, paired over the questions that they share.

    Args: measurements, over, within, crossed: as `average`; base: which rows belong to a base;
        across: the conditions in which a group may differ from its base, all others are equal;
        named: what the base is, for the column `difference_from`.
    Returns: as `average`, for every group that is no base and has one; n counts what either side
        has of `over`.
    Raises: ValueError where a group has several bases.
    Source: `nfqa.kernels.intervals.estimate_difference`.
    """
    columns = [over, "seed", within, *_NO_CONDITIONS]
    shared = [name for name in measurements.columns if name not in (*columns, *across)]
    bases = {_hashable(key, shared): group for key, group in _split(measurements[base], columns)}
    if len(bases) < len(measurements[base].drop_duplicates([*shared, *across])):
        raise ValueError(f"a group has several bases; name the conditions that distinguish them in across={across}")
    rows = []
    for key, group in _split(measurements[~base], columns):
        other = bases.get(_hashable(key, shared))
        if other is None:
            continue
        index = group[over].drop_duplicates()
        tables = (_tabulate(part, over, "seed", within, index) for part in (group, other))
        interval = estimate_difference(*tables, crossed=crossed)
        rows.append(key | {"difference_from": named} | _describe(interval, group, over, "seed" if crossed else ""))
    return pd.DataFrame(rows)


def pool(items: pd.DataFrame, *, sums: str, sizes: str, over: str | Sequence[str] = "question") -> pd.DataFrame:
    """Shares of all items, which come in rows of several: one value for each set of conditions.

    Args: items: a row for each of `over`, or of two that cross, the columns `sums` and `sizes`, and
        conditions.
    Returns: the conditions in order of first appearance, value, low, high, n (items), resampled.
    Source: `nfqa.kernels.intervals.estimate_ratio`.
    """
    rows = []
    ways = [over] if isinstance(over, str) else [*over]
    for key, group in iterate_groups(items, [name for name in items.columns if name not in (*ways, sums, sizes)]):
        share = estimate_ratio(group[sums], group[sizes], *(group[way] for way in ways))
        units = [count_units(group.loc[group[sizes] > 0, way].nunique(), way) for way in ways]
        rows.append(key | describe_interval(share, ways[0]) | {"resampled": ", ".join(units)})
    return pd.DataFrame(rows)


def require_columns(frame: pd.DataFrame, names: Sequence[str]) -> None:
    """Refuse a frame without one of the columns. Raises: ValueError naming those it lacks and those
    it has.
    """
    lacking = [name for name in names if name not in frame]
    if lacking:
        known = [*map(str, frame.columns)]
        hints = "".join(suggest(name, known) for name in lacking)
        raise ValueError(f"no column {', '.join(lacking)}; {hints}the frame has {', '.join(known)}")


def list_conditions(scores: pd.DataFrame, *others: str) -> list[str]:
    """The columns that are of no single answer, without the `others`."""
    return [name for name in scores.columns if name not in (*OF_AN_ANSWER, *others)]


def iterate_groups(frame: pd.DataFrame, by: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The rows of each group with its values of the columns `by` by name, in order of first
    appearance.
    """
    for key, group in frame.groupby(list(by), sort=False, dropna=False):
        yield dict(zip(by, key, strict=True)), group


def count_units(units: int, noun: str) -> str:
    """What was drawn independently, as the column `resampled` says it: "1,204 questions"."""
    return f"{units:,} {noun}{'s' * (units != 1)}"


def describe_interval(interval: Interval, over: str) -> dict[str, object]:
    """The columns value, low, high, n and resampled of an interval over units called `over`."""
    values = {"value": interval.value, "low": interval.low, "high": interval.high, "n": interval.n}
    return values | {"resampled": count_units(interval.units, over)}


def count_reasons(reasons: pd.Series) -> str:
    """How often each reason is given, in alphabetical order, as "no_text 1; unreadable 2"; blanks
    are excluded.
    """
    counts = reasons[reasons.fillna("") != ""].value_counts().sort_index()
    return "; ".join(f"{reason} {count}" for reason, count in counts.items())


def _split(measurements: pd.DataFrame, others: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Each set of conditions, which are all columns but `own`, with its measurements."""
    require_columns(measurements, [others[0], "measured"])
    return iterate_groups(measurements, [name for name in measurements.columns if name not in others])


def _hashable(key: dict[str, Any], names: Sequence[str]) -> tuple[object, ...]:
    return tuple("" if pd.isna(key[name]) else key[name] for name in names)  # NaN is not equal to itself


def _tabulate(group: pd.DataFrame, over: str, columns: str, within: str, index: pd.Series) -> NDArray[np.float64]:
    """[rows of `index`, distinct `columns`], NaN where nothing was measured."""
    if columns not in group:
        group = group.assign(**{columns: 0})
    if within:
        group = group.groupby([over, columns], sort=False)["measured"].mean().reset_index()
    if group.duplicated([over, columns]).any():
        raise ValueError(f"several measurements of one {over} and {columns}; distinguish them by a column")
    return group.pivot(index=over, columns=columns, values="measured").reindex(index).to_numpy(dtype=np.float64)


def _describe(interval: Interval, group: pd.DataFrame, over: str, columns: str) -> dict[str, object]:
    crossed = f", {count_units(group.loc[group.measured.notna(), columns].nunique(), columns)}" if columns else ""
    row = describe_interval(interval, over)
    return row | {
        "spread": np.nan if interval.spread is None else interval.spread, "dropped": interval.n_missing,
        "dropped_because": count_reasons(group.missing) if "missing" in group else "",
        "resampled": f"{row['resampled']}{crossed}",
    }  # fmt: skip
