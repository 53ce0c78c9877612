"""Build the report only when something that it shows has changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from nfqa.data.fetch import hash_file
from nfqa.data.paths import Place, find_place, write_atomically
from nfqa.lab.options import RunOptions


def bring_site_up_to_date(root: Path, options: RunOptions) -> Path:
    """The report's index.html, rebuilt if results, notebooks, papers or code differ from what it was built from."""
    place = find_place(root, profile=options.profile, variant=options.variant)
    sample = find_place(root, data="sample", profile=options.profile, variant=options.variant)
    shown = sample if options.data == "sample" else None
    index, record = place.site / "index.html", place.work / "site.json"
    state = _hash_shown(root, [place, *([shown] if shown else [])])
    if index.is_file() and record.is_file() and record.read_text(encoding="utf-8") == json.dumps(state):
        return index
    from nfqa.lab.report import build_site

    built = build_site(place, sample=shown)
    with write_atomically(record) as scratch:
        scratch.write_text(json.dumps(state), encoding="utf-8")
    return built


def _hash_shown(root: Path, places: list[Place]) -> str:
    digest = hashlib.sha256()
    folders = [root / "papers", root / "src" / "nfqa"]
    folders += [folder for place in places for folder in (place.results, place.figures, place.notebooks)]
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(root)} {hash_file(file)}\n".encode())
    return digest.hexdigest()
