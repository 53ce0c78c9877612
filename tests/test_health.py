"""What changes when length, order, seed or text changes, and which attacks win: by hand, and for known faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from notebook_cells import run_notebook, use_rule
from scipy.stats import spearmanr
from tiny_models import VectorEmbedder

from nfqa.files.records import Answer, Question
from nfqa.metrics.references import Draw
from nfqa.models.chat import Request
from reproduction.open import Lab
from reproduction.studies.attacks import ATTACK, add_attacks, count_beaten
from reproduction.studies.health import (
    average_by_question,
    correlate_seeds,
    measure_effect,
    measure_length,
    pair_scores,
)


def make_draws(*words: str) -> pd.DataFrame:
    draws = [
        Draw(
            Question(f"why is {word} so", ()),
            (Answer("r3", f"{word} is good because cats sleep", 3), Answer("r0", f"no {word}", 0)),
            (Answer("a", f"{word} can help people", 2), Answer("b", "nothing", 1)),
        )
        for word in words
    ]
    return pd.DataFrame({"dataset": "d", "seed": 0, "question": [one.question.text for one in draws], "draw": draws})


def test_each_attack_is_made_of_the_question_its_references_and_candidates() -> None:
    first, _ = add_attacks(make_draws("tea", "milk")).draw
    texts = {answer.id.removeprefix(ATTACK): answer.text for answer in first.candidates}
    assert list(texts) == ["a", "b", "echo", "half_reference", "keywords", "padded", "negated", "off_topic"]
    assert texts["echo"] == "why is tea so"
    assert texts["half_reference"] == "tea is good"
    assert sorted(texts["keywords"].split()) == ["cats", "good", "sleep", "tea"]
    assert texts["padded"] == "nothing milk is good because cats sleep"  # all that there is on other questions
    assert texts["negated"] == "tea can not help people"
    assert texts["off_topic"] == "milk is good because cats sleep"
    with pytest.raises(ValueError, match="1 question to attack"):
        add_attacks(make_draws("tea"))


def test_an_attack_beats_what_scores_lower_and_half_of_what_scores_alike() -> None:
    rows = [("a", 1.0, 2, 0.2), ("b", 1.0, 2, 0.4), ("c", 1.0, 1, 0.1), ("d", 1.0, 1, np.nan)]
    rows += [(f"{ATTACK}echo", 1.0, 0, 0.4), (f"{ATTACK}half_reference", 1.0, 0, 0.05)]
    scores = pd.DataFrame(rows, columns=["answer", "k", "grade", "score"])
    scores = scores.assign(question="q", missing="", signature="s")
    result = count_beaten(scores).set_index(["attack", "grade"]).measured
    assert result.to_dict() == {("echo", 2): 0.75, ("echo", 1): 1, ("half_reference", 2): 0, ("half_reference", 1): 0}


WORDS = np.array([3, 9, 4, 12, 7, 5, 20, 6])
GRADES = np.array([0.0, 1, 1, 2, 3, 0, 2, 3])
SCORES = np.array([1.0, 2.5, 2.0, 3.0, 4.5, 0.5, 3.5, 1.5])


def make_scores(missing: list[int], **columns: Any) -> pd.DataFrame:
    """One question's scores, without those of some answers."""
    scores = SCORES.copy()
    scores[missing] = np.nan
    scored = {
        "question": "why?",
        "answer": [f"a{i}" for i in range(8)],
        "grade": GRADES,
        "metric": "m",
        "score": scores,
    }
    return pd.DataFrame(scored | {"missing": np.where(np.isnan(scores), "unreadable", "")} | columns)


def rank_correlate(x: np.ndarray, y: np.ndarray) -> float:
    return float(spearmanr(x, y).statistic)


@pytest.mark.parametrize("missing", [[], [1, 3], [0, 1, 4, 6]])
def test_the_partial_correlation_is_that_of_the_judged_answers(missing: list[int]) -> None:
    result = measure_length(make_scores(missing, words=WORDS))
    measured = result[result.difference_from.isna()].set_index("statistic").measured
    has = np.setdiff1d(range(8), missing)
    s, w, g = SCORES[has], WORDS[has], GRADES[has]
    sg, sw, gw = rank_correlate(s, g), rank_correlate(s, w), rank_correlate(g, w)
    partial = (sg - sw * gw) / np.sqrt((1 - sw**2) * (1 - gw**2))
    expected = {
        "length_with_score": sw, "length_with_people": gw, "spearman": sg, "spearman_length_constant": partial,
    }  # fmt: skip
    assert measured.to_dict() == pytest.approx(expected)
    assert result.measured[result.difference_from.notna()].item() == pytest.approx(sg - partial)


def test_scores_that_agree_have_no_effect_though_one_side_lacks_verdicts() -> None:
    whole, lacking = make_scores([], signature="x"), make_scores([1, 6], signature="y")
    for pairs in (pair_scores(lacking, whole), pair_scores(whole, lacking)):
        assert len(pairs) == 8  # a question keeps its rows
        assert (pairs.score.isna() == pairs.other.isna()).all()
        effect = measure_effect(pairs, named="whole")
        assert effect.value.item() == pytest.approx(0)
        assert effect.difference_from.item() == "whole"
        assert average_by_question(pairs, pairs.score - pairs.other, "gap").measured.item() == 0
    seeds = pd.concat([whole.assign(seed=0, signature="x"), lacking.assign(seed=1, signature="x")])
    assert correlate_seeds(seeds).measured.item() == pytest.approx(1)
    with pytest.raises(ValueError, match="not unique in right"):
        pair_scores(whole, pd.concat([lacking, lacking]))


def test_a_default_in_place_of_missing_verdicts_moves_the_agreement() -> None:
    lacking = make_scores([4, 6])
    effect = measure_effect(lacking.assign(score=lacking.score.fillna(-2), other=lacking.score), named="left out")
    filled, has = np.where(np.isin(range(8), [4, 6]), -2, SCORES), np.setdiff1d(range(8), [4, 6])
    gap = rank_correlate(filled, GRADES) - rank_correlate(SCORES[has], GRADES[has])
    assert effect.value.item() == pytest.approx(gap)
    assert average_by_question(lacking, lacking.score.isna(), "share").measured.item() == 0.25


@pytest.fixture
def health(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The notebook's names and values by statistic, on the sample with a stand-in for the judge."""
    monkeypatch.setattr(Lab, "embedder", VectorEmbedder())
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))

    def run(answer: Any, judge: str = "openai:any", **parameters: Any) -> Any:
        use_rule(monkeypatch, answer)
        result = run_notebook("linkage/judge_health", out=tmp_path / "out", judge=judge, prompts="own", **parameters)
        table = result["table"]
        plain = table[(table.metric != "embedded_judge") & (table.difference_from == "")]
        return result, plain.assign(statistic=plain.statistic + plain.attack).set_index("statistic").value

    return run


def test_a_judge_that_always_picks_the_first_and_heeds_a_note(health: Any) -> None:
    def biased(request: Request) -> str:
        if request.labels == ("A", "B", "C"):
            return "[[A]]"
        return "[[1]]" if "Note to the judge" in request.prompt else "[[2]]"

    _, value = health(biased, candidates=3)
    assert value["flip_rate"] == 1  # whichever order, the first: every choice changes with the order
    assert value["first_chosen"] == 1
    assert value["places_gainedinstruction"] == 1  # from place 2 to place 1
    assert value["places_gaineddoubled"] == 0
    assert value["missing_share"] == 0
    assert "readings_apart" not in value  # a server: its logits are asked for by reading=logits alone
