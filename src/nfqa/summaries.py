"""From scores: agreement with people, each system's mean, and differences. Importing this loads no
pandas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nfqa.functions import Frames

if TYPE_CHECKING:
    import pandas as pd

    from nfqa.files.tables import Table
    from nfqa.kernels.correlation import Coefficient
    from nfqa.metrics.grades import Flagged, Graders


def agreement(
    scores: pd.DataFrame,
    grades: Table | Frames | None = None,
    *,
    coefficients: Coefficient | Sequence[Coefficient] = ("kendall", "spearman", "pearson"),
    least: int = 3,
    by: str | Sequence[str] | None = None,
    graders: Graders = "one",
) -> pd.DataFrame:
    """How well scores rank answers as people's grades do, inside each question, averaged over
    questions.

    Formula: Kendall's tau-b, Spearman's rho and Pearson's r of score and grade; 95 % t interval
    over questions. P.D. is lower for better answers, so that its coefficients are negative where it
    agrees. Coverage of single points of view is averaged over an answer's views first. Answers with
    flags count: people graded them too.
    Args: scores: question, score and grade, as all functions here give them where answers had
        grades, of one metric or several; grades: `Frames`, or question, answer, grade, and dataset
        and system where scores have them too, in place of the grades in `scores`; ids are compared
        as text, and answers that one of the two lacks are counted in a warning; least: answers with
        a grade and a score that a question must have; by: the columns that distinguish ways of
        scoring, by default those that the functions here write; graders: "mean" takes the mean of
        several grades of an answer, "one" refuses grades that differ.
    Returns: a row for each way of scoring and coefficient: the columns that describe the way,
        statistic, value in [-1, 1], low, high, n (questions), dropped and dropped_because. Dropped
        are the questions with a graded answer that have too few, or no scores, or no coefficient,
        as a constant score or grade has none.
    Raises: ValueError for a missing column, a grade that is no number, several scores or grades of
        an answer, or where no question has so many graded answers with a score.
    Source: LINKAGE, section 5.2. Differs from: it, in that it gives no intervals.
    """
    from nfqa.metrics.grades import measure_agreement

    grades = grades.answers if isinstance(grades, Frames) else grades
    return measure_agreement(scores, grades, coefficients=coefficients, least=least, by=by, graders=graders)


def summarise(
    scores: pd.DataFrame, *, by: str | Sequence[str] | None = None, flagged: Flagged = "exclude"
) -> pd.DataFrame:
    """Each system's mean score, over questions of the mean of its answers to a question; coverage,
    over views first.

    Args: scores: question, system, score and missing, as all functions here give them, of one
        metric or several below each other (`pandas.concat`); by: as `agreement`; flagged: "exclude"
        drops an answer from the scores that one of its `flags` harms, as the table in
        docs/formats.md says (P.D. of an answer that copies the points of view, not its D.A.);
        "keep" drops none.
    Returns: a row for each way of scoring and system ("" for all answers): the columns that
        describe the way, system, statistic ("mean"), value, low and high (a 95 % interval over
        questions: Student's t, from five on; for D.A. Wilson's), n (questions), dropped (answers
        without a score), dropped_because and signature.
    Raises: ValueError for a missing column, several scores of an answer, or flags that are no text.
    """
    from nfqa.metrics.grades import summarise

    return summarise(scores, by=by, flagged=flagged)


def compare(
    scores: pd.DataFrame, other: str, *, by: str | Sequence[str] | None = None, flagged: Flagged = "exclude"
) -> pd.DataFrame:
    """Each system minus another one, paired over the questions for which both have a score.

    Args: scores, by, flagged: as `summarise`, whose means may be over different questions; other:
        the system to compare with.
    Returns: a row for each way of scoring and each other system with a name: the columns that
        describe the way, system, difference_from, statistic ("difference"), value, low and high (a
        95 % t interval of the paired differences, from five questions on), n (questions),
        resampled, dropped (questions of the system that are not shared) and signature.
    Raises: ValueError for a missing column, an unknown system, several scores of an answer, or
        flags that are no text.
    """
    from nfqa.metrics.grades import compare

    return compare(scores, other, by=by, flagged=flagged)
