"""Sets beyond the papers: what each one's files become, and how it is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reproduction.data.gather import gather
from reproduction.data.load import read_file

ARGUMENTS = (
    "Topic ID,Discussion ID,Argument ID,Logical Quality,Rhetorical Quality,Dialectical Quality,Premise\n"
    "1,7,1,4,4,3,Good.\n1,7,2,1,1,2,Poor.\n2,7,3,-2,-2,-2,None at all.\n2,7,4,2,3,3,\n"
)
TOPICS = "Topic ID,Query\n1,cats\n2,cats\n"
RANKED = '#id\trank\targument\na1\t0.1\tBest, "quoted\nd1\t0.9\tWorst\nb1\t0.2\tSecond\nc1\t0.3\tThird\n'
PREFERRED = (
    "annotator\tquestion_text\tans1_text\tans2_text\tans_preference\tans1_label\tans2_label\n"
    "Zoe\t Why? \tWrong\tRight\tAnswer 2\thuman_answer\tmodel_answer\n"
    "Abe\tHow?\tSo.\tNo.\tAnswer 1\tmodel_answer\thuman_answer\n"
)
FILES = {
    "arguments": {"arguments.csv": ARGUMENTS, "topics.csv": TOPICS},
    "convincing": {"ban-cats_no-never.csv": RANKED},
    "preferred": {"HaluQuestQA.csv": PREFERRED},
}
READ = {
    "arguments": ("cats", {"Good.": 3, "Poor.": 0, "None at all.": 0}),
    "convincing": ("ban cats: no never", {'Best, "quoted': 3, "Second": 2, "Third": 1, "Worst": 0}),
    "preferred": ("Why?", {"Right": 1, "Wrong": 0}),
}


@pytest.mark.parametrize("shape", FILES)
def test_a_set_is_gathered_and_read_by_grades(shape: str, tmp_path: Path) -> None:
    for name, text in (FILES[shape] | {"notes.txt": "not read"}).items():
        (tmp_path / name).write_text(text)
    made = gather(shape, tmp_path)
    (path := tmp_path / "gathered.jsonl").write_bytes(made)
    (question, *_), _ = read_file(path, shape)
    assert (question.text, {answer.text: answer.label for answer in question.answers}) == READ[shape]


def test_an_expert_is_a_number_and_an_answer_says_who_wrote_it(tmp_path: Path) -> None:
    (tmp_path / "HaluQuestQA.csv").write_text(PREFERRED)
    made = gather("preferred", tmp_path)
    rows = [json.loads(line) for line in made.splitlines()]
    assert [(row["id"], row["system"]) for row in rows[1:3]] == [("1-2", "model"), ("2-1", "model")]
    assert b"Zoe" not in made
