"""Irregularities that a loader must smooth over, counted in the file itself before it does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nfqa.data.fetch import fetch_file, read_registry
from nfqa.data.records import QuestionSet
from nfqa.lab.results import Row


def audit_file(root: Path, dataset: QuestionSet) -> list[Row]:
    """Rows for the keys and label range that the upstream file uses, before the loader brings them to one form."""
    name = dataset.name.removeprefix("sample_")
    file = read_registry(root)[name]
    sample = dataset.origin == "sample"
    path = root / "data" / "sample" / file.sample if sample else fetch_file(file, root / "build" / "data")
    content = json.loads(path.read_text(encoding="utf-8"))
    items = list(_list_items(content))
    keys = Counter(key for item in items for key in item)
    labels = [item["label"] for item in items]
    extra = sum("ground4" in body for body in content.values() if isinstance(body, dict))
    counts = {
        "key_doc_id": (keys["doc_id"], len(items), "read:both keys are the answer's id"),
        "key_docid": (keys["docid"], len(items), "read:both keys are the answer's id"),
        "lowest_label": (min(labels), len(items), f"labels:shifted by -{file.lowest_label} to start at 0"),
        "highest_label": (max(labels), len(items), f"labels:shifted by -{file.lowest_label} to start at 0"),
        "extra_reference": (extra, len(content), "ground4:dropped, only ground0 to ground3 carry a grade"),
    }
    return [
        Row(
            system="audit_file",
            dataset=dataset.name,
            metric=metric,
            value=float(value),
            n=among,
            signature=f"audit_file|{treatment}|v1",
            kernels=("nfqa.lab.experiments.rawness:audit_file", "nfqa.data.graded_sets:parse_file"),
            origin=dataset.origin,
        )
        for metric, (value, among, treatment) in counts.items()
    ]


def _list_items(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for body in content.values():
        yield from body["doc_list"] if isinstance(body, dict) else body
