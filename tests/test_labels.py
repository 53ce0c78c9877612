"""Labels for Dispute Awareness meet their answers, and a table that doesn't fit is refused by line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from nfqa.data.load import DISPUTE_LABELS, load, read_dispute_labels
from nfqa.data.records import Answer, Question, QuestionSet

PROJECT = Path(__file__).parents[1]
ANSWERS = (Answer("a", "It is disputed.", system="a"), Answer("b", "Yes.", system="b"))
SYSTEMS = QuestionSet(
    "system_answers", tuple(Question(f"why {n}?", ANSWERS, id=str(n)) for n in range(2)), "measured", ""
)


def write_labels(tmp_path: Path, *lines: str) -> Path:
    (tmp_path / DISPUTE_LABELS).parent.mkdir(parents=True)
    (tmp_path / DISPUTE_LABELS).write_text("\n".join(["set,id,pass_1,pass_2,label", *lines]) + "\n")
    return tmp_path


def test_committed_labels_are_whole_and_without_texts() -> None:
    lines = (PROJECT / DISPUTE_LABELS).read_text().splitlines()
    assert lines[0] == "set,id,pass_1,pass_2,label"
    assert sum(line.startswith("demo,") for line in lines) == sum(line.startswith("systems,") for line in lines) == 100
    assert max(map(len, lines)) < 80


def test_sample_labels_cover_the_bundled_answers() -> None:
    dataset = load("demo_answers", data="sample", root=PROJECT)
    labels = read_dispute_labels(PROJECT, dataset)
    assert sorted(labels["text"]) == sorted(dataset.answers["text"])
    assert (labels["id"] == labels["question"]).all()
    assert 0 < labels["label"].mean() < 1


def test_labels_meet_answers_in_the_labels_order_and_a_limit_counts_questions(tmp_path: Path) -> None:
    root = write_labels(tmp_path, "systems,1:b,0,1,0", "systems,0:a,1,1,1", "demo,7,1,1,1", "systems,1:a,1,1,1")
    assert read_dispute_labels(root, SYSTEMS, limit=1)["id"].tolist() == ["1:b", "1:a"]
    labels = read_dispute_labels(root, SYSTEMS)
    assert list(labels) == ["dataset", "question", "answer", "system", "text", "id", "pass_1", "pass_2", "label"]
    assert labels.to_numpy().tolist() == [
        ["system_answers", "1", "b", "b", "Yes.", "1:b", 0, 1, 0],
        ["system_answers", "0", "a", "a", "It is disputed.", "0:a", 1, 1, 1],
        ["system_answers", "1", "a", "a", "It is disputed.", "1:a", 1, 1, 1],
    ]


def test_a_set_without_labels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no answers of overton are labelled"):
        read_dispute_labels(tmp_path, QuestionSet("overton", SYSTEMS.questions, "measured", ""))
