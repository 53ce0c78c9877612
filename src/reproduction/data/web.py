"""Frames of the web: a question's documents, what a passage states, and claims with their views.

Each file is pinned by its hash in data/registry.yml or bundled with us, and is read as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from nfqa.files.json_lines import read_json, read_lines
from nfqa.files.paths import find_root, hash_file
from reproduction.data.load import find_path, find_registered


def read_documents(path: Path) -> pd.DataFrame:
    """`{question, kind, documents: [{address, text}]}` a line.

    Returns: question (its text), kind (how its documents relate), document (d1, d2 ... inside the
        question), address, text. A question without documents has no row.
    """
    table = pd.json_normalize(read_lines(path.read_bytes()), "documents", ["question", "kind"])
    table["document"] = [f"d{place}" for place in table.groupby("question").cumcount() + 1]
    return table[["question", "kind", "document", "address", "text"]]


def read_stated_views(path: Path) -> pd.DataFrame:
    """Tab-separated rows: question, id, document, perspective, label.

    Returns: question, document (its id), text (a passage), point_of_view, stated (whether the
        passage states it).
    """
    stated = pd.read_csv(path, sep="\t", dtype=str, keep_default_na=False)
    stated = stated[["question", "id", "document", "perspective", "label"]].assign(label=stated.label == "1")
    return stated.set_axis(["question", "document", "text", "point_of_view", "stated"], axis=1)


def read_claims(path: Path) -> pd.DataFrame:
    """A list of `{cId, text, source, topics, perspectives: [{pids, stance_label_3}]}`, as
    perspectrum is released.

    Returns: question (the claim), source (the website that it is from), topics (as people labelled
        it, in alphabetical order with a blank between; "" without any), views (of each point of
        view its stance and its wordings' ids).
    """
    claims = pd.DataFrame(read_json(path)).rename(columns={"text": "question"})
    views = [[(view["stance_label_3"], view["pids"]) for view in claim] for claim in claims.perspectives]
    topics = [" ".join(sorted(names)) for names in claims.topics]
    return claims[["question", "source"]].assign(topics=topics, views=views)


def read_wordings(path: Path) -> pd.DataFrame:
    """A list of `{pId, text}`, as perspectrum is released: the texts of its points of view.

    Returns: wording (the id that a claim's views have), text.
    """
    return pd.DataFrame(read_json(path)).rename(columns={"pId": "wording"})[["wording", "text"]]


FRAMES: dict[str, Callable[[Path], pd.DataFrame]] = {  # by the shapes of data/registry.yml
    "web_documents": read_documents, "stated_views": read_stated_views,
    "claims": read_claims, "wordings": read_wordings,
}  # fmt: skip


def load_frame(name: str, *, data: str = "full", root: Path | None = None) -> tuple[pd.DataFrame, str]:
    """A registered table that is no set of questions with answers, and the hash of its file.

    Returns: the frame as its reader gives it, with the column `dataset` first; the file's sha256.
    Raises: ValueError for an unknown name, or naming the fault in the file; UnreachableError when
        the file is not at hand and can't be fetched.
    """
    root = root or find_root()
    file = find_registered(root, name, FRAMES)
    path = find_path(name, data=data, root=root)
    frame = FRAMES[file.shape](path)
    frame.insert(0, "dataset", f"sample_{name}" if data == "sample" else name)
    return frame, hash_file(path)
