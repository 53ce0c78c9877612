"""A stand-in is marked wherever it is shown: in tables, in figures, and in what stands below them."""

from pathlib import Path

import pandas as pd
import pytest

import reproduction.open
from nfqa.files.paths import find_root
from reproduction.compare import note_stand_ins
from reproduction.figures import subplots
from reproduction.open import Lab, open_lab
from reproduction.options import RunOptions
from reproduction.papers import read_papers
from reproduction.place import find_place
from reproduction.replay import redraw_figure
from reproduction.values import read_values

ROOT = find_root()
JUDGE = "the embedded judge, which compares sentence vectors, in place of Mistral or ChatGPT"
SMOLLM2 = (
    "SmolLM2 135M in place of Mistral or ChatGPT, on a random sample of questions and candidates, read from the"
    " probabilities of the next token"
)
WRITTEN = (
    "60 questions with answers and 100 statements that a language model wrote for this test, in place of answers to"
    " DebateQA's questions"
)


def open_with_results(name: str, out: Path) -> tuple[Lab, pd.DataFrame]:
    return open_lab(name, out=str(out)), read_values(ROOT / "results" / f"{name}.csv")


@pytest.mark.parametrize(("profile", "first"), [("full", "* proxy"), ("quick", "quick: 8 questions, 2 draws")])
def test_a_figure_drawn_again_has_its_notes(profile, first, monkeypatch):
    drawn = []
    monkeypatch.setattr("reproduction.open.save_figure", lambda figure, stem: drawn.append(figure))
    paper, place = read_papers(ROOT)["linkage"], find_place(ROOT)
    assert redraw_figure(paper, "table_02", place, RunOptions(profile=profile))
    (note,) = (text.get_text() for text in drawn[0].texts if text.get_gid() == "note")
    assert note.startswith(first)
    assert JUDGE[:40] in note


def draw_lines() -> object:
    figure, axes = subplots()
    axes.plot([1, 2])
    return figure


@pytest.mark.parametrize(
    ("name", "origins", "expected"),
    [
        ("linkage/table_09", {"stand-in", "measured"}, [f"* proxy: {JUDGE}", f"* proxy: {SMOLLM2}"]),
        (
            "linkage/table_07",
            {"stand-in"},
            [f"* proxy: {JUDGE}", f"* proxy: {SMOLLM2}"],
        ),
        ("debateqa/user_answers", {"stand-in"}, [f"* proxy (every row): {WRITTEN}"]),
        ("linkage/consistency", {"paper"}, []),
    ],
)
def test_a_note_says_what_stands_in_and_whether_all_of_ours_does(name, origins, expected, tmp_path):
    lab, table = open_with_results(name, tmp_path)
    assert set(table.origin) == origins
    note = note_stand_ins(lab.paper, lab.name, table).splitlines()
    assert [line for line in note if "BERTScore" not in line] == expected


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
