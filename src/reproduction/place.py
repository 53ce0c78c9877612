"""Where runs keep their things: results, figures and notebooks of each kind of run, caches,
committed verdicts.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal


class Place:
    """Where a kind of run keeps its things, never in git.

    results: PAPER/NAME.csv and .json.
    figures: PAPER/NAME.png and .pdf.
    notebooks: executed ones, PAPER/NAME.ipynb.
    runs: PAPER/NAME.json, what an artefact was last made from, and how long that took.
    site: the pages.
    is_full: whether it is the kind of run whose reference is committed in results/ and figures/.
    read_from: the folder that holds the results and figures that claims and site are about, the
        reference of a full run.
    """

    def __init__(self, root: Path, work: Path, *, is_full: bool = False) -> None:
        self.root = root
        self.work = work
        self.is_full = is_full
        self.read_from = root if is_full else work
        self.results = work / "results"
        self.figures = work / "figures"
        self.notebooks = work / "notebooks"
        self.runs = work / "runs"
        self.site = work / "site"

    def find(self, folder: Literal["results", "figures"], name: str) -> Path:
        """A file that was made here, else the reference's, in results/ or figures/ of the checkout."""
        file = self.work / folder / name
        return self.root / folder / name if self.is_full and not file.is_file() else file


def find_place(
    root: Path, *, data: str = "full", profile: str = "full", variant: str = "", questions: str = ""
) -> Place:
    """The folders of a run, under build/.

    Args: variant: the name of a run with overridden roles, seeds or parameters; questions:
        "debateqa" for a run on DebateQA's own.
    """
    folders = [questions] if questions else []
    folders += [f"variants/{variant}"] if variant else [profile] * (profile != "full")
    folders += ["sample"] * (data == "sample")
    return Place(root, root.joinpath("build", *folders), is_full=not folders)


def find_cache(root: Path, what: Literal["embeddings", "losses", "readings"]) -> Path:
    """The file that keeps vectors, losses or readings; shared by all runs, being keyed by model,
    settings and text.
    """
    return root / "build" / "cache" / f"{what}.sqlite"


def find_committed(root: Path, what: Literal["verdicts", "losses", "readings"]) -> list[Path]:
    """The Parquet files in git of what a language model gave; none with FRESH=1, which requests all
    of it again.

    What a killed export left, whose name begins with a dot, is none of them.
    """
    return [] if os.environ.get("FRESH") else sorted((root / "data" / what).glob("[!.]*.parquet"))
