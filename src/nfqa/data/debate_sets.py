"""Loaders of debatable questions: from the files as upstream wrote them to `DebateSet`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from nfqa.data.debate_lines import check_fields, clean_text, read_identifier, read_lines, read_points, read_text
from nfqa.data.debates import DebateQuestion, DebateSet, PartialAnswer, Rating, SystemAnswer
from nfqa.data.fetch import UpstreamFile, fetch_file, has_file, hash_file, read_registry
from nfqa.data.paths import find_root

Split = Literal["all", "train", "held_out"]
HELD_OUT = 4  # a claim is held out from training where its key is a multiple of this
SHAPES = ("debate_demo", "debateqa", "debatewise", "debate_ratings", "debate_systems", "debate_povs")
OFF_TOPIC = ("55", "567", "615", "1210", "1818")  # of dev_povs: points of view of another question, at their source
_STANCES = {"Option 1": "for", "Option 2": "against", "Neutral": ""}


def load_debates(
    name: str, *, data: str = "full", limit: int | None = None, split: Split = "all", root: Path | None = None
) -> DebateSet:
    """Load a registered set of debatable questions.

    Args: name: as in data/registry.yml; data: "full" for the upstream file, "sample" for the bundled stand-in, whose
        set is called sample_NAME; limit: at most this many questions, chosen by hash; split: of debatewise, the claims
        held out from the training of the embedded evaluators (key % 4 == 0), those it may see, or all. No other
        set is trained on: there, "held_out" is all.
    Raises: ValueError naming file, line or item, and field for anything the shape doesn't allow, or for a wrong
        argument; UnreachableError when the file is not at hand and can't be fetched.
    """
    root = root or find_root()
    file = _find_debates(root, name)
    if data not in ("full", "sample"):
        raise ValueError(f"data is {data!r}; expected 'full' or 'sample'")
    if split not in get_args(Split):
        raise ValueError(f"split is {split!r}; expected one of {', '.join(get_args(Split))}")
    if split == "train" and file.shape != "debatewise":
        raise ValueError(f"{name} has no split 'train': it is never trained on")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ValueError(f"limit is {limit!r}; expected None or a whole number of questions, 1 or more")
    sample = data == "sample"
    if sample and not file.sample:
        raise ValueError(f"{name} has no bundled sample; ask `has` first, or use data='full'")
    path = root / "data" / "sample" / file.sample if sample else fetch_file(file, root / "build" / "data")
    questions, counts = parse_debates(path, shape=file.shape)
    if split != "all" and file.shape == "debatewise":
        questions = [question for question in questions if is_held_out(question) == (split == "held_out")]
    if limit is not None:
        chosen = {q.id for q in sorted(questions, key=lambda question: question.key)[:limit]}
        questions = [question for question in questions if question.id in chosen]
    origin = "sample" if sample else "measured"
    return DebateSet(f"sample_{name}" if sample else name, tuple(questions), origin, hash_file(path), dict(+counts))


def has_debates(name: str, *, data: str = "full", root: Path | None = None) -> bool:
    """Whether a set can be loaded without the network; a set without a bundled stand-in is no part of a sample run.

    Raises: ValueError for an unknown set, or a file with the wrong hash.
    """
    root = root or find_root()
    file = _find_debates(root, name)
    return bool(file.sample) if data == "sample" else has_file(file, root / "build" / "data")


def is_held_out(question: DebateQuestion) -> bool:
    """Whether a claim of debatewise is held out from the training of the embedded evaluators."""
    return question.key % HELD_OUT == 0


def _find_debates(root: Path, name: str) -> UpstreamFile:
    registry = read_registry(root)
    known = [key for key, file in registry.items() if file.shape in SHAPES]
    if name not in known:
        raise ValueError(f"unknown set of debatable questions {name!r}; known: {', '.join(known)}")
    return registry[name]


def parse_debates(path: Path, *, shape: str) -> tuple[list[DebateQuestion], Counter[str]]:
    """Read a file of one of the SHAPES; returns its questions, and counts by name of what was left out.

    Raises: ValueError naming file, line or item, and field.
    """
    readers: dict[str, Callable[[Path, Counter[str]], Iterator[DebateQuestion]]] = {
        "debate_demo": _read_demo, "debateqa": _read_debateqa, "debatewise": _read_debatewise,
        "debate_ratings": _read_ratings, "debate_systems": _read_systems, "debate_povs": _read_povs,
    }  # fmt: skip
    if shape not in readers:
        raise ValueError(f"{path}: unknown shape {shape!r} in data/registry.yml; known: {', '.join(readers)}")
    counts: Counter[str] = Counter()
    questions = list(readers[shape](path, counts))
    if not questions:
        raise ValueError(f"{path}: holds no question; fetch it again")
    twin = next((i for i, n in Counter(question.id for question in questions).items() if n > 1), None)
    if twin is not None:
        raise ValueError(f"{path}: the id {twin!r} stands twice; give each question an id of its own")
    return questions, counts


def _read_demo(path: Path, counts: Counter[str]) -> Iterator[DebateQuestion]:
    for where, item in read_lines(path, counts):
        check_fields(where, item, ("generation", "id"))
        answer = read_text(where, "generation", item.get("generation"))
        yield DebateQuestion(read_identifier(where, item.get("id")), "", (), (SystemAnswer("demo", answer),))


def _read_debateqa(path: Path, counts: Counter[str]) -> Iterator[DebateQuestion]:
    for where, item in read_lines(path, counts):
        check_fields(where, item, ("id", "question", "partial_answers"))
        identifier = read_identifier(where, item.get("id"))
        text = read_text(where, "question", item.get("question"))
        yield DebateQuestion(identifier, text, read_points(where, identifier, item.get("partial_answers"), counts))


def _read_debatewise(path: Path, counts: Counter[str]) -> Iterator[DebateQuestion]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a JSON file ({error}); fetch it again") from None
    if not isinstance(content, list):
        raise ValueError(f"{path}: found {type(content).__name__}; expected a list of claims")
    for place, claim in enumerate(content):
        where = f"{path}: claim {place}"
        if not isinstance(claim, dict):
            raise ValueError(f"{where}: found {type(claim).__name__}; expected an object")
        text = clean_text(read_text(where, "claim_title", claim.get("claim_title")))
        points: list[PartialAnswer] = []
        for stance in ("for", "against"):
            items = claim.get(f"perspectives_{stance}")
            if not isinstance(items, list):
                raise ValueError(f"{where}: perspectives_{stance} is missing; expected a list")
            for number, item in enumerate(items):
                point = _read_perspective(f"{where}, perspectives_{stance}[{number}]", item)
                if not point.point_of_view or not point.explanation:
                    counts["perspectives_without_text"] += 1
                else:
                    counts["repeated_perspectives"] += point.text in {other.text for other in points}
                    identifier = f"{place}.{len(points) + 1}"
                    points.append(PartialAnswer(identifier, point.point_of_view, point.explanation, stance))
        if points:
            yield DebateQuestion(str(place), text, tuple(points))
        else:
            counts["claims_without_perspectives"] += 1


def _read_perspective(where: str, item: Any) -> PartialAnswer:
    argument = item.get("argument") if isinstance(item, dict) else None
    title = item.get("perspective_title") if isinstance(item, dict) else None
    parts = argument.get("description") if isinstance(argument, dict) else None
    if not isinstance(title, str) or not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"{where}: expected perspective_title, a text, and argument.description, a list of texts")
    return PartialAnswer("", clean_text(title), clean_text(" ".join(parts)))


def _read_ratings(path: Path, counts: Counter[str]) -> Iterator[DebateQuestion]:
    """A file made by `nfqa.data.gather`: lines of questions, then lines of annotators."""
    questions: dict[str, tuple[str, dict[str, str]]] = {}
    views: dict[str, list[PartialAnswer]] = {}
    ratings: dict[str, list[Rating]] = {}
    for where, item in read_lines(path, counts):
        if "question" in item:
            check_fields(where, item, ("question", "text", "answers"))
            identifier = read_identifier(where, item["question"])
            questions[identifier] = (read_text(where, "text", item.get("text")), dict(item.get("answers") or {}))
            views[identifier], ratings[identifier] = [], []
            continue
        check_fields(where, item, ("annotator", "views", "choices", "ratings"))
        person = read_identifier(where, item.get("annotator"), "annotator")
        for identifier in sorted({*item["views"], *item["ratings"]}, key=lambda text: (len(text), text)):
            if identifier not in questions:
                raise ValueError(f"{where}: question {identifier} is not among the questions of the file")
            given = item["ratings"].get(identifier, {})
            text = item["views"].get(identifier, "")
            if not text.strip():
                counts["views_missing"] += 1
                counts["ratings_without_a_view"] += len(given)
                continue
            stance = _STANCES.get(item["choices"].get(identifier, "Neutral"), "")
            view = PartialAnswer(f"{identifier}.{person}", text, stance=stance)
            views[identifier].append(view)
            ratings[identifier] += [Rating(person, view.id, system, value) for system, value in sorted(given.items())]
            counts["ratings_missing"] += len(set(questions[identifier][1]) - set(given))
    for identifier, (text, answers) in questions.items():
        given_answers = tuple(SystemAnswer(system, answer) for system, answer in sorted(answers.items()))
        unknown = {rating.system for rating in ratings[identifier]} - set(answers)
        if unknown:
            raise ValueError(f"{path}: question {identifier} has ratings of {sorted(unknown)[0]}, which has no answer")
        yield DebateQuestion(identifier, text, tuple(views[identifier]), given_answers, tuple(ratings[identifier]))


def _read_systems(path: Path, counts: Counter[str]) -> Iterator[DebateQuestion]:
    for place, (where, item) in enumerate(read_lines(path, counts)):
        answers = item.get("answers")
        if not isinstance(answers, dict) or not answers:
            raise ValueError(f"{where}: answers is {answers!r:.40}; expected an object of texts by system")
        given = (SystemAnswer(name, read_text(where, f"answers.{name}", text)) for name, text in answers.items())
        yield DebateQuestion(str(place), read_text(where, "question", item.get("question")), (), tuple(given))


def _read_povs(path: Path, counts: Counter[str]) -> Iterator[DebateQuestion]:
    for where, item in read_lines(path, counts):
        identifier = read_identifier(where, item.get("dev_index"), "dev_index")
        points = read_points(where, identifier, item.get("points_of_view"), counts)
        if identifier in OFF_TOPIC:
            counts["questions_off_topic"] += 1
            continue
        yield DebateQuestion(identifier, read_text(where, "question", item.get("question")), points)
