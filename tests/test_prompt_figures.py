"""Figures and tables of prompts: counts by hand, what the sources say of them, and no released text in what is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from conftest import PROJECT
from notebook_cells import run_notebook

from nfqa.judge.prompts import PromptSet, Template
from reproduction.open import Lab
from reproduction.prompt_facts import COUNTS, count_facts

# In our words, with what is odd in the released file.
ODD = (
    'Mark <b>it</b>, 0-10, \\"[[8]]\\".\n*Objectivity* is what references have.\n'
    "Q:{#question}\nL:{#ground}\nA:{#candidate}\n"
)


def read_released(text: str, tmp_path: Path) -> PromptSet:
    """The released set with one text in place of every released file."""
    (tmp_path / "text.txt").write_text(text)
    return PromptSet(PROJECT / "prompts" / "upstream", bring=lambda _: tmp_path / "text.txt")


def read_own(name: str) -> Template:
    return PromptSet(PROJECT / "prompts" / "own", bring=lambda _: Path()).get(name)


def test_counts_by_hand(tmp_path: Path) -> None:
    facts = count_facts(read_released(ODD, tmp_path).get("pointwise"))
    assert facts == {
        "words": 12,  # Mark it, 0-10, "[[8]]". / *Objectivity* is what references have. / three placeholders
        "characters": len(ODD.strip()),
        "lines": 5,
        "placeholders": 2,  # question and candidate
        "unfilled": 1,  # #ground
        "escaped_quotes": 2,
        "verdict_examples": 1,
        "lowest": 0,
        "highest": 10,
    }
    assert list(facts) == [name for name in COUNTS if name != "solved"]
    assert count_facts(read_own("write_lower"))["solved"] == 3
    assert "lowest" not in count_facts(read_own("pairwise"))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run the notebook with a text in place of the released files."""

    def execute(prompt: str, data: str = "full", bring: Any = None) -> Any:
        (tmp_path / "text.txt").write_text(ODD)
        bring = bring or (lambda _: tmp_path / "text.txt")
        monkeypatch.setattr(Lab, "read_prompts", lambda _, name: PromptSet(PROJECT / "prompts" / name, bring=bring))
        return run_notebook("linkage/figure_04_to_11_prompts", out=tmp_path / "out", prompt=prompt, data=data)

    return execute


@pytest.mark.parametrize("data", ["full", "sample"])
def test_what_is_kept_holds_nothing_of_the_released_text(data: str, run: Any, tmp_path: Path) -> None:
    result = run("pointwise", data)
    written = " ".join(path.read_text() for path in (tmp_path / "out").glob("*.[cj]*"))
    assert "what references have" not in written
    assert set(result["table"].text) == {"ours", *(["released"] if data == "full" else [])}
    assert set(result["table"].origin) == {"measured" if data == "full" else "sample"}
    # the page shows both as they are written, markup escaped
    page = result["texts"].style.format(escape="html").to_html()
    assert ("what references have" in page) == (data == "full")
    assert ("&lt;b&gt;it&lt;/b&gt;" in page) == (data == "full")


@pytest.mark.skipif(not os.environ.get("NFQA_MIRROR"), reason="NFQA_MIRROR is not set")
def test_the_released_prompt_is_not_kept(tmp_path):
    result = run_notebook("debateqa/table_14_dispute_prompts", out=tmp_path, data="full", limit=30)
    published = " ".join(path.read_text() for path in tmp_path.glob("*.[cj]*"))
    released = result["released"].get("dispute_awareness").text
    assert not [line for line in released.splitlines() if len(line) > 30 and line in published]
