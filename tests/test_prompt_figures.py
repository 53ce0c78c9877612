"""Figures of prompts: counts by hand, remarks borne out by the text, and no released text in what is kept."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nfqa.judge.prompts import read_prompts
from nfqa.lab.experiments.prompt_figures import (
    FACTS,
    Pair,
    count_facts,
    describe_pair,
    draw_pair,
    list_remarks,
    measure_pair,
    read_pair,
    show_pair,
)

PROJECT = Path(__file__).parents[1]
# In our words, with what is odd in the released file.
ODD = (
    'Mark <b>it</b>, 0-10, \\"[[8]]\\".\n*Objectivity* is what references have.\n'
    "Q:{#question}\nL:{#ground}\nA:{#candidate}\n"
)
CALM = "Mark it.\n*Accuracy* counts.\nQ:{#question}\nA:{#candidate}"


def make_lab(tmp_path: Path, text: str = ODD, data: str = "full") -> Any:
    path = tmp_path / "text.txt"
    path.write_text(text)

    def read(name: str) -> Any:
        return read_prompts(PROJECT / "prompts" / name, bring=lambda _: path)

    return SimpleNamespace(data=data, read_prompts=read)


def test_what_is_counted_can_be_counted_by_hand(tmp_path: Path) -> None:
    pair = read_pair(make_lab(tmp_path), "pointwise")
    assert pair.released is not None
    facts = count_facts(pair.released)
    assert set(facts) == set(FACTS)
    assert facts["words"] == 12  # Mark it, 0-10, "[[8]]". / *Objectivity* is what references have. / three places
    assert facts["lines"] == 5
    assert facts["places"] == 2  # question and candidate
    assert facts["left_standing"] == 1  # #ground
    assert facts["escaped_quotes"] == 2
    assert facts["verdict_examples"] == 1
    assert (facts["lowest"], facts["highest"]) == (0, 10)
    assert "lowest" not in count_facts(read_pair(make_lab(tmp_path, data="sample"), "pairwise").own)


def test_a_remark_is_made_only_where_the_text_bears_it_out(tmp_path: Path) -> None:
    odd, calm = (read_pair(make_lab(tmp_path, text), "pointwise").released for text in (ODD, CALM))
    assert odd is not None
    assert calm is not None
    assert [remark.split()[1] for remark in list_remarks(odd)] == ["released", "marks", "names", "asks"]
    assert list_remarks(calm) == []


def test_what_is_not_released_or_not_fetched_is_said(tmp_path: Path) -> None:
    pair = read_pair(make_lab(tmp_path), "write_best")
    assert pair.released is None
    assert describe_pair(pair)[0].endswith("The authors' text: not released.")
    pair = read_pair(make_lab(tmp_path, data="sample"), "pointwise")
    assert pair.released is None
    assert describe_pair(pair)[0].endswith("not fetched on a sample run.")


def test_a_released_prompt_out_of_reach_stops_a_full_run(tmp_path: Path) -> None:
    def refuse(_: str) -> Path:
        raise LookupError("out of reach")

    def read(name: str) -> Any:
        return read_prompts(PROJECT / "prompts" / name, bring=refuse)

    with pytest.raises(LookupError, match="out of reach"):
        read_pair(SimpleNamespace(data="full", read_prompts=read), "listwise")  # type: ignore[arg-type]


@pytest.mark.parametrize("data", ["full", "sample"])
def test_what_is_kept_holds_nothing_of_the_released_text(data: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    lab = make_lab(tmp_path, data=data)
    pair = read_pair(lab, "pointwise")
    rows = measure_pair(lab, pair)
    figure = draw_pair(pair, rows)
    kept = " ".join([text.get_text() for axes in figure.axes for text in axes.texts])
    kept += " ".join(row.model_dump_json() for row in rows) + " ".join(describe_pair(pair))
    plt.close(figure)
    assert "what references have" not in kept
    assert "Give a candidate answer a mark" in kept  # ours is there
    assert {row.system for row in rows} == {"prompt_own", *(["prompt_upstream"] if data == "full" else [])}
    assert {row.origin for row in rows} == {"measured" if data == "full" else "sample"}
    assert len({row.key for row in rows}) == len(rows)


def test_the_notebooks_page_shows_both_texts_as_they_stand(tmp_path: Path) -> None:
    page = show_pair(read_pair(make_lab(tmp_path), "pointwise")).to_html()
    assert "what references have" in page
    assert "&lt;b&gt;it&lt;/b&gt;" in page  # shown, not obeyed
    assert "pre-wrap" in page
    alone = show_pair(Pair(read_pair(make_lab(tmp_path), "pointwise").own, None, "not released")).to_html()
    assert "(not released)" in alone


@pytest.mark.parametrize("name", ["pairwise", "label_guideline", "write_lower"])
def test_our_text_stands_whole_in_the_figure(name: str, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    pair = read_pair(make_lab(tmp_path, data="sample"), name)
    figure = draw_pair(pair, measure_pair(make_lab(tmp_path, data="sample"), pair))
    drawn = figure.axes[0].texts[0].get_text()
    figure.canvas.draw()
    box = figure.axes[0].texts[0].get_window_extent()
    frame = figure.axes[0].get_window_extent()
    plt.close(figure)
    assert drawn.split() == pair.own.text.split()
    assert box.y0 >= frame.y0  # nothing below the frame
    assert box.x1 <= frame.x1 + 40  # nor far into the other panel
