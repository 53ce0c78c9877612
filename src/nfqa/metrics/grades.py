"""Scores as users hold them, beside people's grades: one score per answer and way of scoring, one
grade per answer.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, get_args

import pandas as pd

from nfqa.files.json_lines import refuse_lost_digits, refuse_repeats, suggest
from nfqa.kernels.correlation import Coefficient
from nfqa.metrics.statistics import COEFFICIENTS, average, correlate, count_reasons, list_conditions, require_columns
from nfqa.metrics.systems import average_answers, compare_systems, drop_harmed, summarise_systems

Graders = Literal["one", "mean"]
Flagged = Literal["exclude", "keep"]
WAYS = (  # the columns in which the library's functions write how a score was made
    "dataset", "metric", "evaluator", "variant", "training", "judge", "method", "shots", "form", "reading",
    "output", "signature",
)  # fmt: skip
_ANSWER = ("dataset", "question", "answer", "system")


def add_unreadable(scores: pd.DataFrame, answers: pd.DataFrame, lacks: pd.Series) -> pd.DataFrame:
    """Scores with a row for each answer that says nothing, in its place: without a score, under
    each way of scoring.

    Args: answers: dataset, question, answer, system, text, grade, in the order of the rows to
        return; lacks: why each of them says nothing, NaN for one that says something.
    """
    unreadable = answers.drop(columns="text").assign(missing=lacks).dropna(subset="missing")
    if unreadable.empty:
        return scores
    names = [name for name in scores if name in WAYS and name not in ("dataset", "signature")]
    ways = scores.groupby(names, as_index=False, sort=False, dropna=False).signature.max()  # "" is of a missing one
    rows = unreadable.merge(ways, how="cross")
    texts = scores.columns.intersection(["view", "note", "flags"])
    rows = rows.assign(**dict.fromkeys(texts, ""))
    both = pd.concat([scores, rows[scores.columns.intersection(rows.columns)]])
    return order_by_answer(both, answers).astype({"missing": str})


def order_by_answer(scores: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    """Scores in the order of their answers; several of one answer stay as they are."""
    keys = ["question", "answer"]
    places = answers[keys].assign(place=range(len(answers)))
    ordered = scores.merge(places, "left", keys).sort_values("place", kind="stable", ignore_index=True)
    return ordered.drop(columns="place")


def list_scores(scores: pd.DataFrame, by: str | Sequence[str] | None = None) -> tuple[pd.DataFrame, list[str]]:
    """One row per answer under each way of scoring; scores of single points of view are averaged
    over these.

    A score that is missing without a reason is so as "no_score".
    Args: scores: question, score, and answer where repeats are to be refused; by: the columns that
        distinguish ways of scoring, beside dataset; WAYS where None. No other column is taken for
        one.
    Returns: the scores, and the names of those columns that they have.
    Raises: ValueError for what is no frame, a missing column, a score that is no number, or several
        of one answer.
    """
    if not isinstance(scores, pd.DataFrame):
        kind = type(scores).__name__
        raise ValueError(f"scores are of type {kind}; expected a data frame, as nfqa.coverage(...) and the like return")
    refuse_repeats(map(str, scores.columns), "scores: the column")
    if scores.empty:
        raise ValueError("scores have no row; there is nothing to summarise")
    by = [by] if isinstance(by, str) else by
    views = ["view"] if "view" in scores and "view" not in (by or ()) else []
    require_columns(scores, ["question", "score", *(by or ()), *(["answer"] if views else [])])
    numbers = _read_numbers(scores, "score", "scores")
    reasons = scores.get("missing", pd.Series("", scores.index)).astype(object).fillna("")
    scores = scores.assign(score=numbers, missing=reasons.mask(numbers.isna() & (reasons == ""), "no_score"))
    ways = [name for name in scores if name in (WAYS if by is None else ("dataset", *by))]
    if "signature" in ways:  # a score that is missing has none of its own
        others = scores[[name for name in ways if name != "signature"]].map(str).agg("|".join, axis=1)
        signatures = scores.signature.astype(object).fillna("")
        scores["signature"] = signatures.mask(signatures == "", signatures.groupby(others).transform("max"))
    keys = list(dict.fromkeys([*ways, *(name for name in (*_ANSWER, "seed") if name in scores)]))
    if "answer" in scores and (repeated := scores.duplicated([*keys, *views], keep=False)).any():
        rows = scores[repeated].merge(scores.loc[repeated, [*keys, *views]].head(1))
        apart = [name for name in list_conditions(rows, *keys) if len(rows[name].astype(str).unique()) > 1]
        hint = f", which differ in {', '.join(apart)}" if apart else ""
        cure = f"keep one or average them, or name the columns that distinguish ways of scoring: by={[*ways, *apart]}"
        raise ValueError(f"{len(rows)} scores of {_name(rows, keys)}{hint}; {cure}")
    if not views:
        return scores, ways
    of_answer = {"grade": "first", "missing": "min", **dict.fromkeys(("flags", "metric", "signature"), "first")}
    rules = {name: rule for name, rule in of_answer.items() if name in scores and name not in keys}
    groups = scores.groupby(keys, sort=False, dropna=False, as_index=False)
    return groups.agg({"score": "mean"} | rules), ways


def join_grades(scores: pd.DataFrame, grades: pd.DataFrame, *, graders: Graders = "one") -> pd.DataFrame:
    """The grade of each score's answer, joined by question, answer and, where both have them,
    dataset and system.

    Ids are compared as text, so that 1 is "1". A warning counts the answers that only one of the
    two frames has.

    Args: scores: question, answer; grades: question, answer, grade; graders: "mean" takes the mean
        of several grades of one answer, "one" refuses grades that differ.
    Returns: the rows of `scores` with `grade`, NaN for an answer without any.
    Raises: ValueError for a missing column, several grades of one answer, an answer that one frame
        alone identifies by its system or dataset, or where no answer is in both.
    """
    require_columns(scores, ["question", "answer"])
    require_columns(grades, ["question", "answer", "grade"])
    keys = [name for name in _ANSWER if name in scores and name in grades]
    names = [_write_ids(scores, "scores"), _write_ids(grades, "grades")]
    for rows, frame in zip(names, ("scores", "grades"), strict=True):
        distinct = rows.drop_duplicates()
        if (several := distinct.duplicated(keys, keep=False)).any():
            more = " and ".join(name for name in rows if name not in keys)
            raise ValueError(
                f"{frame} distinguish answers to {_name(distinct[several], keys)} by {more}; add {more} to both"
            )
    scored, graded = (pd.MultiIndex.from_frame(rows[keys]) for rows in names)
    people = pd.Series(_read_numbers(grades, "grade", "grades").to_numpy(), graded).groupby(level=keys, sort=False)
    differ = people.max() > people.min()
    if graders != "mean" and differ.any():
        first = _name(differ[differ].index.to_frame(), keys)
        raise ValueError(f"{differ.sum()} answers have several grades, as {first}; keep one each, or graders='mean'")
    with_grade = graded[grades["grade"].notna()]
    alone = {"scored answers have no grade": scored[~scored.isin(graded)]}
    alone["graded answers have no score"] = with_grade[~with_grade.isin(scored)]
    counts = {
        which: (len(index.unique()), _name(index.to_frame(), keys)) for which, index in alone.items() if len(index)
    }
    message = "; ".join(f"{count} {which}, such as {first}" for which, (count, first) in counts.items())
    if not scored.isin(graded).any():
        raise ValueError(f"no answer is in both frames by {', '.join(keys)}: {message}")
    if message:
        warnings.warn(message, stacklevel=4)  # of `nfqa.agreement`'s caller
    return scores.assign(grade=people.mean().reindex(scored).to_numpy())


def measure_agreement(
    scores: pd.DataFrame,
    grades: Any = None,
    *,
    coefficients: Coefficient | Sequence[Coefficient],
    least: int,
    by: str | Sequence[str] | None,
    graders: Graders,
) -> pd.DataFrame:
    """As `nfqa.agreement` has it."""
    coefficients = [coefficients] if isinstance(coefficients, str) else coefficients
    if not coefficients:
        raise ValueError(f"coefficients: none is named; expected {' or '.join(COEFFICIENTS)}")
    choices = [
        ("graders", graders, get_args(Graders)),
        *(("coefficients", name, COEFFICIENTS) for name in coefficients),
    ]
    for what, name, known in choices:
        if name not in known:
            raise ValueError(f"{what}: no {name!r}; {suggest(str(name), known)}expected {' or '.join(known)}")
    rows, ways = list_scores(scores, by)
    if grades is not None:
        if isinstance(grades, str):
            raise ValueError(f"grades is {grades!r}; expected a data frame with question, answer and grade")
        people = pd.DataFrame(grades)
        refuse_repeats(map(str, people.columns), "grades: the column")
        rows = join_grades(rows, people, graders=graders)
    require_columns(rows, ["grade"])
    ways = [name for name in rows if name in (*ways, "question", "seed")]
    graded = rows.assign(grade=_read_numbers(rows, "grade", "scores")).dropna(subset="grade")
    sizes = graded.groupby(ways, dropna=False).score.transform("count")
    if not (sizes >= least).any():
        most = sizes.max() if len(sizes) else 0
        lost = count_reasons(graded.missing)
        counts = f"{len(graded):,} of {len(rows):,} scores have a grade, at most {most} of one question"
        why, need = (f"; without a score: {lost}", ", or give what scores lack") if lost else ("", "")
        cure = f"grade more answers, from 0 to 3{need}"
        raise ValueError(f"no question has {least} graded answers or more with a score ({counts}{why}); {cure}")
    few = sizes.between(1, least - 1)
    reasons = graded.missing.mask(few, f"fewer than {least} graded answers")
    graded = graded.assign(score=graded.score.mask(few), missing=reasons)
    return average(correlate(graded, methods=coefficients, by=ways))


def summarise(scores: pd.DataFrame, *, by: str | Sequence[str] | None, flagged: Flagged) -> pd.DataFrame:
    """As `nfqa.summarise` has it."""
    rows, ways = _list_counted(scores, by, flagged)
    blank = rows.reindex(columns=[*ways, "system"]).astype(object).fillna("")
    summary = summarise_systems(*average_answers([rows.assign(**blank)], ways, every=""), ways)
    return summary[sorted(summary, key="signature".__eq__)]  # the longest comes last


def compare(scores: pd.DataFrame, other: str, *, by: str | Sequence[str] | None, flagged: Flagged) -> pd.DataFrame:
    """As `nfqa.compare` has it."""
    rows, ways = _list_counted(scores, by, flagged)
    require_columns(rows, ["system"])
    blank = rows.reindex(columns=[*ways, "system"]).astype(object).fillna("")
    systems = blank.system.unique()
    if other not in set(systems):
        names = [str(name) for name in systems[:20]]
        raise ValueError(f"no score is of system {other!r}; {suggest(str(other), names)}known: {', '.join(names)}")
    if "signature" in ways:  # systems that were read from different files may have had different changes to their texts
        blank["signature"] = blank.signature.str.replace(r"\|texts:.*", "", regex=True)
    named = rows.assign(**blank).loc[(blank.system != "") | (other == "")]
    differences = compare_systems(average_answers([named], ways)[0], other, ways)
    return differences[sorted(differences, key="signature".__eq__)]


def _list_counted(
    scores: pd.DataFrame, by: str | Sequence[str] | None, flagged: Flagged
) -> tuple[pd.DataFrame, list[str]]:
    """As `list_scores`, by "exclude" without the scores that flags harm. Raises: ValueError for
    another `flagged`.
    """
    if flagged not in get_args(Flagged):
        raise ValueError(f"flagged is {flagged!r}; expected {' or '.join(get_args(Flagged))}")
    _refuse_by(by)
    rows, ways = list_scores(scores, by)
    return (drop_harmed(rows) if flagged == "exclude" else rows), ways


def _refuse_by(by: str | Sequence[str] | None) -> None:
    """Raises: ValueError where `by` names what is averaged over or compared in any case."""
    for name in [by] if isinstance(by, str) else by or ():
        if name in ("question", "answer", "system", "score"):
            raise ValueError(f"by names {name!r}; expected columns that distinguish ways of scoring, such as metric")


def _read_numbers(frame: pd.DataFrame, column: str, frame_name: str) -> pd.Series:
    """A column as numbers, NaN for none. Raises: ValueError naming the first row with anything
    else.
    """
    numbers = pd.to_numeric(frame[column], errors="coerce").astype(float)
    if (odd := (numbers.isna() & frame[column].notna()).to_numpy()).any():
        place = odd.argmax()
        raise ValueError(f"{frame_name}, row {place + 1}: {column} is {frame[column].iloc[place]!r}; expected a number")
    return numbers


def _write_ids(frame: pd.DataFrame, frame_name: str) -> pd.DataFrame:
    """What identifies answers, as text. Raises: ValueError naming the column of a float that has
    lost digits.
    """
    ids = frame[[name for name in _ANSWER if name in frame]]
    for name in ids:
        try:
            ids[name].map(refuse_lost_digits)
        except ValueError as error:
            raise ValueError(f"{frame_name}: {name}: {error}") from None
    return ids.map(_write)


def _write(value: object) -> str:
    """An id as text: a whole number without its point, "" for a missing one."""
    if pd.isna(value):
        return ""
    is_whole = isinstance(value, float) and value.is_integer()
    return f"{value:.0f}" if is_whole else str(value)


def _name(rows: pd.DataFrame, keys: Sequence[str]) -> str:
    """The answer of the first row, in words."""
    return ", ".join(f"{name} {rows[name].iloc[0]!r}" for name in _ANSWER if name in keys)
