"""Table 1: what an entry holds, and how large the data are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nfqa.data.records import Question, QuestionSet
from nfqa.lab.experiments.diversity import make_mean_row, make_plain_row
from nfqa.lab.plots import pick_colour, start_figure
from nfqa.lab.results import Row

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from nfqa.lab.debate_lab import DebateLab
    from nfqa.lab.notebook import Lab

SYSTEM = "dataset"
SPLITS = 2  # test and dev make up the whole
_KERNELS = ("nfqa.lab.experiments.debate_statistics:count_debates", "nfqa.kernels.resample:bootstrap_mean")
_SHOWN = 24  # words of an explanation in the example


def count_debates(dataset: QuestionSet, *, resamples: int, seed: int = 0, name: str = "") -> list[Row]:
    """Questions and partial answers, how many partial answers a question has, and their lengths in words.

    A question's length is the mean over its partial answers. Explanations are counted where there are any. Intervals
    over questions say how far a mean would move with other questions.
    """
    parts = [question.partial_answers for question in dataset.questions]
    per_question = {
        "mean_partial_answers": [float(len(found)) for found in parts],
        "mean_words_point_of_view": [_average([p.point_of_view for p in found]) for found in parts],
        "mean_words_explanation": [_average([p.explanation for p in found if p.explanation]) for found in parts],
        "share_for": [_share([p.stance == "for" for p in found if p.stance]) for found in parts],
    }
    counts = {
        "n_questions": len(parts),
        "n_partial_answers": sum(map(len, parts)),
        "least_partial_answers": min(map(len, parts)),
        "most_partial_answers": max(map(len, parts)),
    }
    rows = [
        make_plain_row(dataset, SYSTEM, metric, float(count), "dataset|count", _KERNELS, n=len(parts), name=name)
        for metric, count in counts.items()
    ]
    for metric, values in per_question.items():
        if not np.isnan(values).all():
            rows.append(
                make_mean_row(
                    dataset, SYSTEM, metric, np.array(values), "dataset|mean|per:question", _KERNELS,
                    resamples=resamples, seed=seed, name=name, dropped={"none_given": int(np.isnan(values).sum())},
                )
            )  # fmt: skip
    return rows


def load_sets(lab: DebateLab, names: Sequence[str], *, limit: int | None = None) -> list[QuestionSet]:
    """The sets that are always at hand."""
    return [lab.load_debates(name, limit=limit) for name in names]


def load_splits(lab: DebateLab, names: Sequence[str], *, limit: int | None = None) -> list[QuestionSet]:
    """DebateQA's own files, those of them that are at hand."""
    return [lab.load_debates(name, limit=limit) for name in names if lab.has(name)]


def count_sets(sets: Sequence[QuestionSet], *, resamples: int, seed: int = 0) -> list[Row]:
    """Rows of every set."""
    return [row for dataset in sets for row in count_debates(dataset, resamples=resamples, seed=seed)]


def count_joined(
    name: str, splits: Sequence[QuestionSet], *, of: int = SPLITS, resamples: int, seed: int = 0
) -> list[Row]:
    """Rows of all splits as one set; none unless all `of` them are at hand."""
    return count_debates(join_splits(name, splits), resamples=resamples, seed=seed) if len(splits) == of else []


def join_splits(name: str, splits: Sequence[QuestionSet]) -> QuestionSet:
    """Several splits as one set, for counts over all of them.

    Raises: ValueError for a question that stands in two splits, or splits of different origin.
    """
    questions = tuple(question for split in splits for question in split.questions)
    texts = [question.text for question in questions]
    twin = next((text for text in texts if texts.count(text) > 1), None) if len(set(texts)) < len(texts) else None
    names = " and ".join(split.name for split in splits)
    if twin is not None:
        raise ValueError(f"{names}: the question {twin!r} stands twice; fetch the files again")
    if len({split.origin for split in splits}) != 1:
        raise ValueError(f"{names} are of different origin; load all of them from the same kind of data")
    return QuestionSet(name, questions, splits[0].origin, "+".join(split.sha256 for split in splits))


def choose_example(dataset: QuestionSet, *, partial_answers: int = 4) -> Question:
    """The question that is shown: that with a number of partial answers nearest to this, for and against as evenly as
    can be, then the first by key."""

    def rate(question: Question) -> tuple[int, int, int]:
        sides = [part.stance for part in question.partial_answers]
        uneven = abs(sides.count("for") - sides.count("against"))
        return abs(len(sides) - partial_answers), uneven, question.key

    return min(dataset.questions, key=rate)


def show_example(question: Question) -> pd.DataFrame:
    """An entry's anatomy: one line a partial answer, explanations shortened as the paper's table does."""
    import pandas as pd

    pd.set_option("display.max_colwidth", None)
    lines: list[dict[str, Any]] = [
        {
            "part": f"partial answer {number}" + (f" ({part.stance})" if part.stance else ""),
            "point of view": part.point_of_view,
            "explanation": _shorten(part.explanation),
            "words": len(part.text.split()),
        }
        for number, part in enumerate(question.partial_answers, start=1)
    ]
    return pd.DataFrame(lines, columns=["part", "point of view", "explanation", "words"])


def draw_counts(sets: Sequence[QuestionSet], rows: Sequence[Row]) -> Figure:
    """One panel a data set: how many questions have so many partial answers, the mean as a line."""
    figure, grid = start_figure(len(sets), 1, width=4.6, height=0.4 + 1.9 * len(sets), squeeze=False)
    means = {row.dataset: row.value for row in rows if row.metric == "mean_partial_answers"}
    for axes, dataset in zip(grid[:, 0], sets, strict=True):
        counts = np.array([len(question.partial_answers) for question in dataset.questions])
        heights = np.bincount(counts)
        axes.bar(np.arange(len(heights)), heights, color=pick_colour(rows), width=0.85)
        mean = means.get(dataset.name)
        if mean is not None:
            axes.axvline(mean, color="#2b2f36", lw=1)
            right = mean > 0.6 * len(heights)  # the words go where there is room
            axes.annotate(
                f"mean {mean:.1f}", (mean, 0.98), xycoords=("data", "axes fraction"), va="top", fontsize=8,
                xytext=(-5 if right else 4, 0), textcoords="offset points", ha="right" if right else "left",
            )  # fmt: skip
        axes.set(title=f"{dataset.name}: {len(counts):,} questions", ylabel="questions")
        axes.grid(axis="x", visible=False)
    grid[-1, 0].set(xlabel="partial answers of a question")
    return figure


def describe_counts(lab: Lab, rows: Sequence[Row]) -> list[str]:
    """What stands in for the paper's data, and whether the printed numbers agree with one another."""
    sentences = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = {row.metric: row for row in rows if row.dataset == dataset}
        mean = own["mean_partial_answers"]
        words = own.get("mean_words_explanation")
        long = f", explanations of {words.value:.0f} words on average" if words else ", no explanations"
        sentences.append(
            f"{dataset}: {own['n_questions'].value:,.0f} questions, {own['n_partial_answers'].value:,.0f} partial"
            f" answers, {mean.value:.1f} a question [{mean.ci_low:.1f}, {mean.ci_high:.1f}]{long}."
        )
    printed = {leaf.metric: leaf.value for leaf in lab.leaves() if leaf.dataset == "debateqa"}
    removed = {leaf.metric: leaf.value for leaf in lab.leaves("figure_01") if leaf.system == "annotators"}
    total, kept = printed["n_partial_answers"], printed["n_partial_answers"] + removed["n_removed"]
    sentences.append(
        f"The printed numbers agree with one another: {total:,.0f} partial answers over"
        f" {printed['n_questions']:,.0f} questions are {total / printed['n_questions']:.2f} a question (printed: about"
        f" {printed['mean_partial_answers']}), and {removed['n_removed']:.0f} removed of {kept:,.0f} leave"
        f" {100 * total / kept:.1f} % (printed: {100 * removed['share_kept']:.1f} %)."
    )
    return sentences


def _average(texts: Sequence[str]) -> float:
    return float(np.mean([len(text.split()) for text in texts])) if texts else np.nan


def _share(flags: Sequence[bool]) -> float:
    return float(np.mean(flags)) if flags else np.nan


def _shorten(text: str) -> str:
    words = text.split()
    return " ".join(words[:_SHOWN]) + (" …" if len(words) > _SHOWN else "")
