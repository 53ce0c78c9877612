"""Training of the embedded evaluators: what is kept out, what a task is, and a run that is stopped and goes on."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from train_evaluator import corpus as corpora
from train_evaluator import train, tune
from train_evaluator.corpus import Corpus, Topic, read_corpus

from nfqa.files.records import Answer, PartialAnswer, Question, QuestionSet
from nfqa.models.roles import MODELS

_WORDS = tuple(f"weather{letter}" for letter in "abcdefghijklmn")


def _make_text(seed: int, words: int = 40) -> str:
    rng = random.Random(seed)
    words_of = [f"{word}{seed}" for word in _WORDS]
    return " ".join(" ".join(rng.choices(words_of, k=10)).capitalize() + "." for _ in range(words // 10))


def _make_topics(source: str, count: int) -> list[Topic]:
    return [Topic(source, tuple(_make_text(100 * i + j) for j in range(5))) for i in range(count)]


@pytest.fixture
def corpus() -> Corpus:
    topics = [topic for source in ("debatewise", "antique") for topic in _make_topics(source, 4)]
    return Corpus(tuple(topics), (), 3, {"debatewise": "0" * 64}, {"overton": "1" * 64})


def _claim(text: str, *parts: str) -> Question:
    points = tuple(PartialAnswer(str(i), part) for i, part in enumerate(parts))
    return Question(text, id=text, partial_answers=points)


def test_what_is_held_out_is_not_trained_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    held, demo, rated = _make_text(1), _make_text(2), _make_text(3)
    borrowed = ["Before it. " + text[text.index(" ") + 1 :] for text in (held, demo, rated)]  # 8 words in a row shared
    claims = {
        "held_out": [_claim("held", held)],
        "train": [_claim("a", _make_text(4), _make_text(5), *borrowed), _claim("b", _make_text(6), _make_text(7))],
        "overton": [_claim("rated", rated)],
        "demo_answers": [Question("", (Answer("demo", demo, system="demo"),), id="d")],
    }

    def load(name: str, *, split: str = "", repeats: str = "keep", root: Path) -> QuestionSet:
        if (split or name) in claims:
            return QuestionSet(name, tuple(claims[split or name]), "measured", "1" * 64)
        answers = tuple(Answer(str(i), text, 0) for i, text in enumerate((_make_text(8), _make_text(9), demo, "short")))
        return QuestionSet(name, (Question("q", answers),), "measured", "2" * 64)

    monkeypatch.setattr(corpora, "load", load)
    read = read_corpus(tmp_path)
    texts = list(read.texts())
    assert read.left_out == 3 + 3  # the borrowed passages, and the demo answer in each of the three graded sets
    assert not {held, demo, rated, *borrowed} & set(texts)
    assert {_make_text(8), _make_text(9)} <= set(texts)
    assert "short" not in texts
    assert set(read.inputs) == {"debatewise", *corpora.GRADED}
    assert set(read.kept_out) == {"overton", "demo_answers"}


def _train(root: Path) -> dict[str, Any]:
    return load_file(train.train_evaluator(root, "tiny") / "model.safetensors")


@pytest.mark.monthly
def test_a_stopped_run_goes_on_to_the_same_weights(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: Corpus
) -> None:
    monkeypatch.setattr(train, "read_corpus", lambda root: corpus)
    monkeypatch.setattr(train, "_SAVE_SECONDS", -1)
    monkeypatch.setattr(train, "_ROWS", 2)
    monkeypatch.setitem(train.RECIPES, "tiny", train.Recipe(2, 192, 5, 1, 1e-3, vocabulary=300))
    straight = _train(tmp_path / "straight")
    compute, calls = train._compute_loss, []

    def stop_at_fourth(*options: Any) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return compute(*options)

    monkeypatch.setattr(train, "_compute_loss", stop_at_fourth)
    with pytest.raises(KeyboardInterrupt):
        _train(tmp_path / "stopped")
    assert not (tmp_path / "stopped" / "src").exists()
    resumed = _train(tmp_path / "stopped")
    assert len(calls) == 4 + 2  # steps 4 and 5 alone were left to do
    assert straight.keys() == resumed.keys()
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    about = json.loads((tmp_path / "stopped/src/nfqa/models/embedded/evaluator_tiny/evaluator.json").read_text())
    assert about["recipe"]["steps"] == 5
    assert about["passages"] == 40
    assert not list((tmp_path / "stopped/build/training").glob("*.pt"))


@pytest.mark.monthly
def test_the_cache_with_the_lowest_loss_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tune, "_TASKS", 3)
    folder = shutil.copytree(MODELS / "evaluator_tiny", tmp_path / "evaluator_tiny")
    topics = _make_topics("debatewise", 4)
    cache = tune.tune_evaluator(folder, topics)
    about = json.loads((folder / "evaluator.json").read_text())
    tried = {(entry["theta"], entry["weight"]): entry["nats"] for entry in about["cache_tried"]}
    assert len(tried) == 17
    assert min(tried, key=lambda pair: tried[pair]) == (cache.theta, cache.weight)
    assert tried[cache.theta, cache.weight] < tried[0.0, 0.0]  # words that training never saw, which a cache knows
    assert (about["cache"]["theta"], about["cache"]["weight"]) == (cache.theta, cache.weight)
