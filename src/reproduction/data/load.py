"""Loading a registered dataset, of either paper, by its name, and the labels of those that a model
labelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nfqa.files.debateqa import read_debateqa
from nfqa.files.paths import find_root, hash_file
from nfqa.files.records import Question, QuestionSet
from reproduction.data import readers
from reproduction.data.rated import read_rated
from reproduction.data.registry import UpstreamFile, fetch_file, read_registry

if TYPE_CHECKING:
    import pandas as pd

Repeats = Literal["keep", "first", "drop_conflicting"]
Split = Literal["all", "train", "held_out"]
GRADED = {  # by the shapes of data/registry.yml
    "graded": readers.read_graded, "generated": readers.read_generated, "arguments": read_rated,
    "convincing": read_rated, "preferred": read_rated,
}  # fmt: skip
DEBATES: dict[str, Callable[[Path, Counter[str]], Iterator[Question]]] = {
    "debate_demo": readers.read_demo, "debateqa": read_debateqa, "debatewise": readers.read_debatewise,
    "debate_ratings": readers.read_ratings,
}  # fmt: skip
DISPUTE_LABELS = "data/labels/dispute_awareness.csv"
SAMPLE_LABELS = "data/sample/dispute_labels.csv"
LABELLED = {"demo_answers": "demo", "overton": "overton"}
HELD_OUT = 4  # a claim is held out from the evaluators' training where its key is a multiple of this


def load(
    name: str, *, data: str = "full", limit: int | None = None, split: Split = "all", repeats: Repeats = "keep",
    first: Collection[str] = (), root: Path | None = None,
) -> QuestionSet:  # fmt: skip
    """Load a registered dataset.

    Args: name: as in data/registry.yml; data: "full" for the upstream file, "sample" for the
        bundled sample, whose dataset is called sample_NAME; limit: at most this many questions,
        chosen by hash so that neither order nor content decides; first: names or texts of questions
        that a limit chooses before others; split: of debatewise, the claims held out from training
        (key % 4 == 0), those that it may see, or all (no other dataset is trained on, nor split);
        repeats: of graded datasets, a passage repeated inside a question is kept ("keep", as the
        paper), kept once ("first"), or, if its labels disagree, dropped with all its copies
        ("drop_conflicting").
    Raises: ValueError for a wrong name or hash, or naming file, line and field of what the shape
        doesn't allow; UnreachableError when the file is not at hand and can't be fetched.
    """
    root = root or find_root()
    file = find_registered(root, name, GRADED | DEBATES)
    path = find_path(name, data=data, root=root)
    questions, counts = read_file(path, file.shape, file.lowest_label)
    if split != "all" and file.shape == "debatewise":
        questions = [q for q in questions if (q.key % HELD_OUT == 0) == (split == "held_out")]
    ordered = sorted(questions, key=lambda question: ({question.name, question.text}.isdisjoint(first), question.key))
    chosen = {question.name for question in ordered[:limit]}
    questions = [question for question in questions if question.name in chosen]
    treated = questions if repeats == "keep" else [_treat_repeats(question, repeats) for question in questions]
    counts["dropped_repeats"] = sum(len(q.answers) for q in questions) - sum(len(q.answers) for q in treated)
    label, origin = (f"sample_{name}", "sample") if data == "sample" else (name, "measured")
    return QuestionSet(label, tuple(treated), origin, hash_file(path), dict(+counts))


def find_path(name: str, *, data: str = "full", root: Path | None = None) -> Path:
    """The file of a dataset or table: the upstream file, fetched where it is not at hand, or the
    bundled sample.

    Raises: ValueError for an unknown dataset, or one without a bundled sample; UnreachableError as
        `load`.
    """
    root = root or find_root()
    file = find_registered(root, name)
    if data != "sample":
        return fetch_file(file, root / "build" / "data")
    if not file.sample:
        raise ValueError(f"{name} has no bundled sample; use data='full'")
    return root / "data" / "sample" / file.sample


def find_registered(root: Path, name: str, shapes: Collection[str] = ()) -> UpstreamFile:
    """A dataset's or table's entry in the registry.

    Raises: ValueError for an unknown name, a prompt's, or one that has none of the `shapes`, where
        some are named.
    """
    registry = read_registry(root)
    known = [key for key, file in registry.items() if (file.shape in shapes if shapes else file.shape != "prompt")]
    if name not in known:
        what = f"{name!r} is a {registry[name].shape}, no dataset" if name in registry else f"unknown dataset {name!r}"
        raise ValueError(f"{what}; known: {', '.join(known)}")
    return registry[name]


def read_file(path: Path, shape: str, lowest_label: int = 0) -> tuple[list[Question], Counter[str]]:
    """A file of one of the shapes GRADED or DEBATES: its questions, and counts by name of what was
    excluded.

    Raises: ValueError for a file without questions; as `read_debateqa`, the one shape that users
        may bring.
    """
    counts: Counter[str] = Counter()
    questions = list(GRADED[shape](path, lowest_label) if shape in GRADED else DEBATES[shape](path, counts))
    if not questions:
        raise ValueError(f"{path}: holds no question; fetch it again")
    return questions, counts


def _treat_repeats(question: Question, repeats: Repeats) -> Question:
    firsts = {answer.text: answer for answer in reversed(question.answers)}
    labels = Counter(text for text, _ in {(answer.text, answer.label) for answer in question.answers})
    answers = [a for a in question.answers if (firsts[a.text] is a if repeats == "first" else labels[a.text] == 1)]
    return replace(question, answers=tuple(answers))


def read_dispute_labels(root: Path, dataset: QuestionSet, *, limit: int | None = None) -> pd.DataFrame:
    """The labelled answers of `demo_answers` (ids) or `overton` (QUESTION:SYSTEM), in that order.

    Args: limit: at most this many labelled questions, chosen by hash.
    Returns: dataset, question, answer, system, text, question_text ("" where it isn't known), id
        (as in the labels), and pass_1 and pass_2, the labels of two readings apart, and label, the
        one that counts; 1 is aware. Answers of one question are drawn and excluded together.
    A sample run reads the labels of the bundled answers.
    Raises: ValueError for a dataset that has no labels.
    """
    import pandas as pd

    from nfqa.metrics.references import hash_name

    name = dataset.name.removeprefix("sample_")
    if name not in LABELLED:
        raise ValueError(f"no answers of {name} are labelled; labelled datasets: {', '.join(LABELLED)}")
    path = root / (SAMPLE_LABELS if dataset.origin == "sample" else DISPUTE_LABELS)
    answers = dataset.answers.drop(columns="grade")
    answers["question_text"] = answers["question"].map(dataset.texts_by_name)
    by_system = answers["question"] + ":" + answers["system"]
    labels = pd.read_csv(path, dtype={"id": str})
    labels = labels[labels.pop("set") == LABELLED[name]]
    with_ids = answers.assign(id=answers["question"] if name == "demo_answers" else by_system)
    rows = labels.merge(with_ids, on="id", validate="m:1")
    chosen = sorted(rows["question"].unique(), key=hash_name)[:limit]
    return rows.loc[rows["question"].isin(chosen), [*answers.columns, *labels.columns]].reset_index(drop=True)
