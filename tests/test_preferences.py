"""Pairwise preferences of a user's own annotators: what is read, what is refused, and that two notebooks take them."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest
from conftest import PROJECT
from notebook_cells import run_notebook
from tiny_models import LetterEmbedder

from reproduction.data.preferences import read_preferences
from reproduction.open import Lab

QUESTIONS = PROJECT / "data" / "sample" / "debateqa_test.jsonl"
TEXTS = {
    "long": "Some say yes: it helps. Others say no: it costs.",
    "short": "Yes, it does.",
    "none": "No idea.",
}
HEAD = "question,annotator,better,worse,tie\n"


@pytest.fixture
def systems(tmp_path: Path) -> Path:
    (tmp_path / "systems").mkdir()
    for name, text in TEXTS.items():
        lines = [json.dumps({"id": str(n), "generation": text * n}) + "\n" for n in range(1, 5)]
        (tmp_path / "systems" / f"{name}.jsonl").write_text("".join(lines[: 3 if name == "none" else 4]))
    return tmp_path / "systems"


def write(folder: Path, text: str, name: str = "p.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_preferences_are_read_with_their_answers_and_no_annotator_s_name(tmp_path: Path, systems: Path) -> None:
    rows = HEAD + "2,zoe,short,long,\n1,ann,long,short,0\n1,zoe,long,none,1\n"
    people, table = read_preferences(write(tmp_path, rows), systems, QUESTIONS)
    assert table[["question", "rater", "left", "right", "outcome"]].to_numpy().tolist() == [
        ["2", 2, "long", "short", 0.0], ["1", 1, "long", "short", 1.0], ["1", 2, "long", "none", 0.5],
    ]  # fmt: skip
    assert "zoe" not in table.to_csv()
    assert sorted(people.systems) == sorted(TEXTS)
    assert set(people.answers.question) == set(people.views.question) == {"1", "2"}
    assert people.answers.query("system == 'short' and question == '2'").text.item() == TEXTS["short"] * 2
    lines = [{"question": 1, "annotator": "ann", "better": "long", "worse": "short"}]
    read = read_preferences(write(tmp_path, json.dumps(lines[0]), "p.jsonl"), systems, QUESTIONS)[1]
    assert read.outcome.tolist() == [1.0]


@pytest.mark.parametrize(
    ("rows", "facts"),
    [
        (HEAD + "1,a,long,shrt,0", "line 2: worse is 'shrt'; .*: long, none, short"),
        (HEAD + "4,a,none,short,0", "line 2: better is 'none'; .*: long, short"),
        (HEAD + "1,a,long,long,0", "line 2: better is 'long'; expected two"),
        (HEAD + "1,a,long,short,0\n1,a,short,long,0", "line 3: the pair that a compares is that of line 2"),
        ("question,annotator,better,worse,ties\n1,a,long,short,1", "line 2: unknown field 'ties'; did you mean tie?"),
        (HEAD, "holds no preference"),
    ],
)
def test_what_is_no_preference_is_refused_by_line_and_field(
    tmp_path: Path, systems: Path, rows: str, facts: str
) -> None:
    with pytest.raises(ValueError, match=rf"p\.csv.*{facts}"):
        read_preferences(write(tmp_path, rows), systems, QUESTIONS)


def test_both_notebooks_rank_by_them(tmp_path: Path, systems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lab, "embedder", LetterEmbedder())
    pairs = list(combinations(["long", "none", "short"], 2))
    rows = [f"{n},{who},{a},{b},0\n" for n in range(1, 4) for who in ("ann", "bob", "eve") for a, b in pairs]
    options = {"preferences": str(write(tmp_path, HEAD + "".join(rows))), "systems": str(systems), "resamples": 20}
    table = run_notebook("debateqa/figure_02_agreement_among_annotators", out=tmp_path, **options)["table"]
    result = table[(table.raters == "same_questions") & (table.statistic == "spearman")]
    assert result.value.tolist() == [1.0] * 4  # all three agree: their mean, and each pair
    assert result.n.tolist() == [3] * 4  # pairs, and the systems of each
    assert table[table.statistic == "fleiss_kappa"].metric.tolist() == ["preferences"]
    table = run_notebook("debateqa/table_02_agreement_with_people", out=tmp_path, **options)["table"]
    one = table[(table.metric == "length") & (table.annotators == "each") & (table.ranking == "elo")]
    assert one[one.statistic == "spearman"].value.tolist() == [0.5]  # by words none is above short
    assert set(table.dataset) == {"own_preferences"}
