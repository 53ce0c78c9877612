"""Frames of the web: a question's documents, ratings of sources, what a passage states, and claims with their views."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from nfqa.data.json_lines import AnyText, Item, LooseItem, Name, Text, check, read_items, read_json, refuse_repeats
from nfqa.data.load import find_path, find_registered
from nfqa.data.paths import find_root
from nfqa.data.registry import hash_file

if TYPE_CHECKING:
    import pandas as pd


class _Document(Item):
    address: AnyText = ""
    text: AnyText


class _Found(Item):
    question: Text
    kind: AnyText = ""
    documents: list[_Document]


def read_documents(path: Path) -> pd.DataFrame:
    """`{question, kind, documents: [{address, text}]}` a line.

    Returns: question (its text), kind (how its documents relate, "" where that isn't known), document (d1, d2 ...
        inside the question), address, text. A question without documents has no row.
    """
    rows = [
        (line.question, line.kind, f"d{place}", document.address, document.text)
        for _, line in read_items(path, _Found, Counter(), once="question")
        for place, document in enumerate(line.documents, start=1)
    ]
    return _frame(rows, "question", "kind", "document", "address", "text")


class _Rated(Item):
    question: Text
    system: Text
    claim: int
    reliability: Annotated[int, Field(ge=1, le=3)]
    addresses: Annotated[list[Text], Field(min_length=1)]


def read_reliability(path: Path) -> pd.DataFrame:
    """`{question, system, claim, reliability, addresses}` a line, as `nfqa.data.gather` makes it.

    Returns: question, system, claim (its number in the answer), n_sources (addresses that the claim cites), address
        (one of them, a row each), reliability (of the claim's sources together: 1 not at all, 2 somewhat, 3 reliable).
    """
    rows = [
        (line.question, line.system, line.claim, len(line.addresses), address, line.reliability)
        for _, line in read_items(path, _Rated, Counter())
        for address in line.addresses
    ]
    return _frame(rows, "question", "system", "claim", "n_sources", "address", "reliability")


class _Stated(Item):
    question: Text
    id: Name
    document: Text
    perspective: Text
    label: Literal["0", "1"]


def read_stated_views(path: Path) -> pd.DataFrame:
    """Tab-separated rows: question, id, document, perspective, label.

    Returns: question, document (its id), text (a passage), point_of_view, stated (whether the passage states it).
    Raises: ValueError naming the line and the field.
    """
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file, delimiter="\t", strict=True)
        rows = [check(_Stated, line, f"{path}, line {lines.line_num}") for line in lines]
    columns = ("question", "document", "text", "point_of_view", "stated")
    return _frame([(r.question, r.id, r.document, r.perspective, r.label == "1") for r in rows], *columns)


class _View(LooseItem):
    pids: list[int]
    stance_label_3: Literal["SUPPORT", "UNDERMINE"]


class _Labelled(LooseItem):
    cId: int  # noqa: N815 (upstream's name)
    text: Text
    source: Text
    topics: list[Text]
    perspectives: list[_View]


class _Wording(LooseItem):
    pId: int  # noqa: N815
    text: Text


def read_claims(path: Path) -> pd.DataFrame:
    """A list of `{cId, text, source, topics, perspectives: [{pids, stance_label_3}]}`, as perspectrum is released.

    Returns: question (the claim), source (the website that it is from), topics (as people labelled it, in alphabetical
        order with a blank between; "" without any), views (of each point of view its stance and its wordings' ids).
    """
    items = check(list[_Labelled], read_json(path), f"{path}")
    refuse_repeats((str(item.cId) for item in items), f"{path}: cId")
    rows = [
        (item.text, item.source, " ".join(sorted(item.topics)), [(v.stance_label_3, v.pids) for v in item.perspectives])
        for item in items
    ]
    return _frame(rows, "question", "source", "topics", "views")


def read_wordings(path: Path) -> pd.DataFrame:
    """A list of `{pId, text}`, as perspectrum is released: the texts of its points of view.

    Returns: wording (the id that a claim's views have), text.
    """
    items = check(list[_Wording], read_json(path), f"{path}")
    refuse_repeats((str(item.pId) for item in items), f"{path}: pId")
    return _frame([(item.pId, item.text) for item in items], "wording", "text")


def _frame(rows: list[tuple[Any, ...]], *columns: str) -> pd.DataFrame:
    import pandas as pd  # where it is used: the command line reads the registry too, and starts fast

    return pd.DataFrame(rows, columns=list(columns))


FRAMES: dict[str, Callable[[Path], pd.DataFrame]] = {  # by the shapes of data/registry.yml
    "web_documents": read_documents,
    "source_reliability": read_reliability,
    "stated_views": read_stated_views,
    "claims": read_claims,
    "wordings": read_wordings,
}


def load_frame(name: str, *, data: str = "full", root: Path | None = None) -> tuple[pd.DataFrame, str]:
    """A registered table that is no set of questions with answers, and the hash of its file.

    Returns: the frame as its reader gives it, with the column `dataset` first; the file's sha256.
    Raises: ValueError for an unknown name, or naming the fault in the file; UnreachableError when the file is not at
        hand and can't be fetched.
    """
    root = root or find_root()
    shape = find_registered(root, name, FRAMES).shape
    path = find_path(name, data=data, root=root)
    frame = FRAMES[shape](path)
    if frame.empty:
        raise ValueError(f"{path}: holds no row; fetch it again")
    frame.insert(0, "dataset", f"sample_{name}" if data == "sample" else name)
    return frame, hash_file(path)
