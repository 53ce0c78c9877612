"""Figures: intervals and counts drawn one way; a stand-in is marked wherever it is shown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import reproduction.open
from nfqa.files.paths import find_root
from reproduction.figures import ORIGINS, PALETTE, draw_intervals, draw_pairs, subplots
from reproduction.open import Lab, open_lab
from reproduction.values import read_values

ROWS = pd.DataFrame(
    {
        "label": ["a", "b", "a", "b"],
        "panel": ["one", "one", "two", "two"],
        "origin": ["measured", "stand-in", "measured", None],
        "kind": ["x", "x", "x", "y"],
        "value": [0.5, 0.25, 0.75, np.nan],
        "low": [0.4, 0.2, 0.7, np.nan],
        "high": [0.6, 0.3, 0.8, np.nan],
        "published": [np.nan, np.nan, 0.7, 0.1],
        "resampled": ["97 questions", "1,054 questions, 20 draws", "54 questions", None],
    }
)


def test_a_value_stands_at_its_label_in_its_panel_with_its_interval_and_the_published_one() -> None:
    one, two = (figure := draw_intervals(ROWS, order=["b", "a"], line={"two": 0}, xlabel="share")).axes
    assert [axes.get_title(loc="left") or axes.get_title() for axes in (one, two)] == ["one", "two"]
    assert [text.get_text() for text in one.get_yticklabels()] == ["b", "a"]
    dots = {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in one.lines}
    assert dots == {"measured": ([0.5], [1]), "proxy*": ([0.25], [0])}
    assert [line.get_color() for line in one.lines] == [ORIGINS["measured"], ORIGINS["stand-in"]]
    assert one.collections[0].get_segments()[0].tolist() == [[0.4, 1], [0.6, 1]]
    published = two.collections[-1]
    assert published.get_offsets().tolist() == [[0.7, 1], [0.1, 0]]
    assert (one.get_ylim(), two.lines[-1].get_xdata()) == ((1.5, -0.5), [0, 0])
    assert figure.get_supxlabel() == "share; 95 % intervals over 54 to 1,054 questions and 20 draws"
    assert [text.get_text() for text in figure.legends[0].texts] == ["measured", "proxy*", "published"]


def test_series_lie_beside_each_other_in_a_row_and_panels_may_be_stacked_with_their_own_labels() -> None:
    rows = pd.concat([ROWS, ROWS.assign(kind="y", value=ROWS.value + 0.1)]).assign(published=np.nan)
    axes = draw_intervals(rows[rows.panel == "one"], by="kind").axes[0]
    heights = np.array([line.get_ydata() for line in axes.lines])
    assert (heights[0] < [0, 1]).all()
    assert (heights[1] > [0, 1]).all()
    assert [line.get_color() for line in axes.lines] == [*PALETTE[:2]]
    above, below = draw_intervals(ROWS[[True, False, True, True]], columns=1).axes
    assert [len(axes.get_yticks()) for axes in (above, below)] == [1, 2]


def test_a_matrix_has_one_measure_under_its_diagonal_and_another_over_it() -> None:
    pairs = pd.DataFrame([("a", "c", 0.1), ("c", "b", 0.2), ("b", "a", 0.3)], columns=["one", "other", "value"])
    pairs = pd.concat([pairs.assign(of="low"), pairs.assign(of="high", value=pairs.value + 0.5)])
    figure = draw_pairs(pairs, one="one", other="other", by="of", below="low", above="high", order=["c", "a", "b"])
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["0.60", "0.70", "0.10", "0.80", "0.20", "0.30"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1  c", "2  a", "3  b"]


ROOT = find_root()


def open_with_results(name: str, out: Path) -> tuple[Lab, pd.DataFrame]:
    return open_lab(name, out=str(out)), read_values(ROOT / "results" / f"{name}.csv")


def draw_lines() -> object:
    figure, axes = subplots()
    axes.plot([1, 2])
    return figure


@pytest.mark.parametrize(("name", "is_marked"), [("linkage/table_02", True), ("linkage/table_01", False)])
def test_a_figure_of_stand_ins_says_so_once_shown_and_saved(name, is_marked, tmp_path, monkeypatch):
    lab, table = open_with_results(name, tmp_path)
    saved = []
    monkeypatch.setattr(reproduction.open, "save_figure", lambda figure, stem: saved.append(figure))
    figure = draw_lines()
    marked_figure = lab.mark(figure, table)
    lab.write(table, figure=figure)
    for marked in (marked_figure, *saved):
        texts = [text.get_text() for text in getattr(marked, "texts", [])]
        assert sum("* proxy: the embedded judge" in text for text in texts) == is_marked
