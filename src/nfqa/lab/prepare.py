"""Embed all texts of some data sets in a process of its own: `python -m nfqa.lab.prepare REQUEST`, for the runner."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from pathlib import Path


def prepare(request: str) -> int:
    """Fill the cache of vectors for the data sets, and the file of answers, that a JSON request names."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    from nfqa.data.load import load
    from nfqa.data.own_answers import bring_file
    from nfqa.data.paths import find_root
    from nfqa.lab.notebook import find_cache
    from nfqa.models.embed import Embedder
    from nfqa.models.roles import DEFAULTS

    task = json.loads(request)
    root = find_root()
    embedder = Embedder(task["embedder"] or DEFAULTS["embedder"], find_cache(root), progress=True)
    texts = [
        text
        for name in task["datasets"]
        for text in load(name, data=task["data"], limit=task["limit"], root=root).texts()
    ]
    if task.get("answers"):
        questions = task.get("questions")
        texts += bring_file(Path(task["answers"]), Path(questions) if questions else None).texts()
    embedder.prepare(texts)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(prepare(sys.argv[1]))
    except (ValueError, OSError, sqlite3.Error) as error:
        sys.exit(f"error: {error}")
