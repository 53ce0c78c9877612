"""Debatable questions as upstream wrote them: each shape read, each fault refused with place and reason or counted."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from nfqa.data import debate_sets
from nfqa.data.debate_sets import parse_debates
from nfqa.data.fetch import UnreachableError, read_registry
from nfqa.data.load import has, is_held_out, load
from nfqa.data.records import PartialAnswer, Question

PROJECT = Path(__file__).parents[1]
POINTS = [{"point_of_view": "Yes.", "explanation": "It helps."}, {"point_of_view": "No.", "explanation": "It harms."}]
LINE = {"id": 7, "question": "Is it good?", "partial_answers": POINTS}
CLAIM = {
    "claim_title": "It is  good",
    "perspectives_for": [{"perspective_title": "It\thelps", "argument": {"description": ["One.", "\r\nTwo</a>."]}}],
    "perspectives_against": [{"perspective_title": "It harms", "argument": {"description": ["Three."]}}],
}


def write_lines(tmp_path: Path, *lines: Any, end: str = "\n") -> Path:
    path = tmp_path / "set.jsonl"
    texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
    path.write_text("\n".join(texts) + end, encoding="utf-8")
    return path


def change(base: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {key: value for key, value in (base | fields).items() if value is not ...}


def test_a_partial_answer_is_point_of_view_and_explanation_with_one_blank() -> None:
    assert PartialAnswer("1", "Yes.", "It helps.").text == "Yes. It helps."
    assert PartialAnswer("1", "Yes.").text == "Yes."


def test_a_question_without_text_is_known_by_its_id() -> None:
    keys = {Question("", id=i).key for i in ("1", "2")}
    assert len(keys) == 2
    assert Question("why?", id="1").key == Question("why?", id="2").key


def test_the_released_shape_is_read_with_ids_as_texts(tmp_path: Path) -> None:
    (question,), counts = parse_debates(write_lines(tmp_path, LINE), shape="debateqa")
    assert (question.id, question.text) == ("7", "Is it good?")
    assert [(p.id, p.text) for p in question.partial_answers] == [("7.1", "Yes. It helps."), ("7.2", "No. It harms.")]
    assert not +counts


def test_repeated_partial_answers_are_counted_and_kept(tmp_path: Path) -> None:
    (question,), counts = parse_debates(
        write_lines(tmp_path, change(LINE, partial_answers=[*POINTS, POINTS[0]])), shape="debateqa"
    )
    assert len(question.partial_answers) == 3
    assert counts["repeated_partial_answers"] == 1


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([LINE, '{"id": 8, "question": "Is'], "line 2: not a JSON object"),
        ([change(LINE, id=...)], "line 1: id is missing; expected a text that is not empty, or a whole number"),
        ([change(LINE, id=True)], "line 1: id is True"),
        ([change(LINE, question=" ")], "line 1: question is ' '; expected a text"),
        ([change(LINE, partial_answers=[])], "line 1: partial_answers is empty; expected a list of at least one"),
        ([change(LINE, partial_answers=...)], "line 1: partial_answers is missing"),
        ([change(LINE, partial_answers="Yes.")], "line 1: partial_answers is 'Yes.'; expected a list"),
        ([change(LINE, partial_answers=[{}])], "partial_answers[0].point_of_view is missing"),
        ([change(LINE, partial_answers=[{"pov": "x"}])], "partial_answers[0]: unknown field 'pov'"),
        ([change(LINE, partial_answers=[{"point_of_view": "x", "explanation": 3}])], "[0].explanation is 3"),
        ([change(LINE, answer="x")], "line 1: unknown field 'answer'; known: id, question, partial_answers"),
        ([LINE, change(LINE, id="7", question="other?")], "the id '7' stands twice"),
        ([""], "holds no question"),
    ],
)
def test_a_line_that_does_not_fit_is_refused(tmp_path: Path, lines: list[Any], words: str) -> None:
    path = write_lines(tmp_path, *lines)
    with pytest.raises(ValueError) as error:
        parse_debates(path, shape="debateqa")
    assert words in str(error.value)
    assert str(path) in str(error.value)


def test_a_file_cut_in_the_middle_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"line 2: .*the file ends inside this line, so it may have been cut short"):
        parse_debates(write_lines(tmp_path, LINE, '{"id": 8, "ques', end=""), shape="debateqa")


def test_mixed_encodings_are_refused_at_their_byte(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    good = (json.dumps(LINE) + "\n").encode()
    path.write_bytes(good + json.dumps(change(LINE, id=8, question="Café?"), ensure_ascii=False).encode("latin-1"))
    with pytest.raises(ValueError, match=r"line 2: byte 0xe9 at offset .* is not UTF-8; save the whole file as UTF-8"):
        parse_debates(path, shape="debateqa")


def test_claims_keep_stance_and_lose_tags_and_empty_perspectives(tmp_path: Path) -> None:
    path = tmp_path / "claims.json"
    bare = {"perspective_title": "Nothing to say", "argument": {"description": []}}
    claim = CLAIM | {"perspectives_against": [bare, *CLAIM["perspectives_against"]]}
    empty = {"claim_title": "Empty", "perspectives_for": [bare], "perspectives_against": []}
    path.write_text(json.dumps([claim, empty]), encoding="utf-8")
    (question,), counts = parse_debates(path, shape="debatewise")
    assert question.text == "It is good"
    assert [(p.text, p.stance) for p in question.partial_answers] == [
        ("It helps One. Two .", "for"),
        ("It harms Three.", "against"),
    ]
    assert +counts == {"perspectives_without_text": 2, "claims_without_perspectives": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[{"claim', "not a JSON file"),
        ("{}", "found dict; expected a list of claims"),
        ("[3]", "claim 0: found int; expected an object"),
        (json.dumps([change(CLAIM, perspectives_for=...)]), "claim 0: perspectives_for is missing"),
        (json.dumps([change(CLAIM, claim_title="")]), "claim 0: claim_title is ''"),
        (json.dumps([change(CLAIM, perspectives_for=[{"perspective_title": "x"}])]), "perspectives_for[0]: expected"),
    ],
)
def test_a_file_of_claims_that_does_not_fit_is_refused(tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "claims.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError) as error:
        parse_debates(path, shape="debatewise")
    assert words in str(error.value)


def rated(**changes: Any) -> list[dict[str, Any]]:
    person = {
        "annotator": "r001", "views": {"3": "Mine."}, "choices": {"3": "Option 2"}, "ratings": {"3": {"a": 4}},
    } | changes  # fmt: skip
    return [{"question": 3, "text": "Is it good?", "answers": {"a": "Yes.", "b": "No."}}, person]


def test_views_become_partial_answers_and_ratings_hang_on_them(tmp_path: Path) -> None:
    (question,), counts = parse_debates(write_lines(tmp_path, *rated()), shape="debate_ratings")
    assert [(p.id, p.text, p.explanation, p.stance) for p in question.partial_answers] == [
        ("3.r001", "Mine.", "", "against")
    ]
    assert question.answer_of == {"a": "Yes.", "b": "No."}
    assert [(r.annotator, r.view, r.system, r.value) for r in question.ratings] == [("r001", "3.r001", "a", 4)]
    assert +counts == {"ratings_missing": 1}


def test_ratings_of_someone_without_a_view_are_left_out_and_counted(tmp_path: Path) -> None:
    (question,), counts = parse_debates(write_lines(tmp_path, *rated(views={"3": " "})), shape="debate_ratings")
    assert (question.partial_answers, question.ratings) == ((), ())
    assert +counts == {"views_missing": 1, "ratings_without_a_view": 1}


def test_ratings_of_unknown_questions_or_systems_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="question 4 is not among the questions"):
        parse_debates(write_lines(tmp_path, *rated(views={"4": "Mine."})), shape="debate_ratings")
    with pytest.raises(ValueError, match="question 3 has ratings of z, which has no answer"):
        parse_debates(write_lines(tmp_path, *rated(ratings={"3": {"z": 4}})), shape="debate_ratings")


def test_answers_of_systems_and_points_of_view_alone_are_read(tmp_path: Path) -> None:
    systems = write_lines(tmp_path, {"question": "why?", "answers": {"one": "A.", "two": "B."}, "judge_scores": {}})
    (question,), _ = parse_debates(systems, shape="debate_systems")
    assert (question.id, question.answer_of) == ("0", {"one": "A.", "two": "B."})
    views = [{"dev_index": i, "question": "why?", "points_of_view": ["Yes.", "No."]} for i in (3, 55)]
    (question,), counts = parse_debates(write_lines(tmp_path, *views), shape="debate_povs")
    assert (question.id, [p.text for p in question.partial_answers]) == ("3", ["Yes.", "No."])
    assert +counts == {"questions_off_topic": 1}


def test_the_bundled_stand_ins_are_whole_and_split_by_claim() -> None:
    claims = load("debatewise", data="sample", root=PROJECT)
    assert (claims.name, claims.origin, claims.irregularities) == ("sample_debatewise", "sample", {})
    assert all(len(question.partial_answers) >= 4 for question in claims.questions)
    parts = [load("debatewise", data="sample", split=s, root=PROJECT).questions for s in ("train", "held_out")]  # type: ignore[arg-type]
    assert sorted([*parts[0], *parts[1]], key=lambda q: q.id) == list(claims.questions)
    assert len(parts[1]) >= 2
    assert all(question.key % 4 == 0 for question in parts[1])
    assert not any(map(is_held_out, parts[0]))
    ratings = load("overton", data="sample", root=PROJECT)
    assert len(ratings.systems) == 4
    assert ratings.irregularities == {"views_missing": 1, "ratings_without_a_view": 4}
    demo = load("demo_answers", data="sample", root=PROJECT)
    assert len(demo.questions) == 12
    assert demo.systems == ["demo"]


def test_a_limit_chooses_by_the_question_and_keeps_the_order() -> None:
    whole = load("debatewise", data="sample", root=PROJECT).questions
    part = load("debatewise", data="sample", limit=3, root=PROJECT).questions
    assert list(part) == [q for q in whole if q.key in sorted(o.key for o in whole)[:3]]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown dataset 'antiqe'; known: antique, "):
        load("antiqe", root=PROJECT)
    with pytest.raises(ValueError, match="data is 'some'"):
        load("overton", data="some", root=PROJECT)
    with pytest.raises(ValueError, match="split is 'test'; expected one of all, train, held_out"):
        load("debatewise", data="sample", split="test", root=PROJECT)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="overton has no split 'train': it is never trained on"):
        load("overton", data="sample", split="train", root=PROJECT)
    with pytest.raises(ValueError, match="limit is 0"):
        load("overton", data="sample", limit=0, root=PROJECT)
    with pytest.raises(ValueError, match="debateqa_test has no bundled sample"):
        load("debateqa_test", data="sample", root=PROJECT)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with an empty mirror; `pin` corrects the registry to a made file's hash."""
    root = tmp_path / "checkout"
    (root / "data").mkdir(parents=True)
    shutil.copyfile(PROJECT / "data" / "registry.yml", root / "data" / "registry.yml")
    (tmp_path / "mirror").mkdir()
    (tmp_path / "local").mkdir()
    monkeypatch.setenv("NFQA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("NFQA_LOCAL", str(tmp_path / "local"))
    return root


def pin(root: Path, name: str, content: bytes) -> None:
    path = root / "data" / "registry.yml"
    old = read_registry(root)[name].sha256
    path.write_text(path.read_text().replace(old, hashlib.sha256(content).hexdigest()))


def test_the_users_own_copy_of_the_data_is_read_when_it_is_there(root: Path, tmp_path: Path) -> None:
    assert not has("debateqa_test", root=root)
    with pytest.raises(UnreachableError, match="debateqa_test: NFQA_MIRROR has no"):
        load("debateqa_test", root=root)
    content = (json.dumps(LINE) + "\n").encode()
    pin(root, "debateqa_test", content)
    target = tmp_path / "mirror" / read_registry(root)["debateqa_test"].relative
    target.parent.mkdir(parents=True)
    target.write_bytes(content)
    assert has("debateqa_test", root=root)
    assert [q.id for q in load("debateqa_test", root=root).questions] == ["7"]
    assert not has("debateqa_test", data="sample", root=root)


def test_a_file_that_can_not_be_downloaded_is_looked_for_in_its_folder(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (json.dumps({"question": "why?", "answers": {"one": "A."}}) + "\n").encode()
    file = read_registry(root)["system_answers"]
    assert not has("system_answers", root=root)
    with pytest.raises(UnreachableError, match=f"system_answers: needs {file.path}, which can't be downloaded"):
        load("system_answers", root=root)
    (tmp_path / "local" / file.path).write_bytes(content)
    with pytest.raises(ValueError, match=f"has sha256 .*, expected {file.sha256}"):
        has("system_answers", root=root)
    pin(root, "system_answers", content)
    assert load("system_answers", root=root).systems == ["one"]
    monkeypatch.delenv("NFQA_LOCAL")
    with pytest.raises(UnreachableError, match="NFQA_LOCAL is not set"):
        load("system_answers", root=root)


def test_every_shape_in_the_registry_has_its_reader(tmp_path: Path) -> None:
    shapes = {file.shape for file in read_registry(PROJECT).values()}
    assert set(debate_sets.SHAPES) <= shapes
    with pytest.raises(ValueError, match="unknown shape 'odd'"):
        parse_debates(write_lines(tmp_path, LINE), shape="odd")
