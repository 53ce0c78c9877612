"""The second cell of each notebook: its committed figures, its first finding, and the verdicts on its claims."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nfqa.files.json_lines import read_json
from nfqa.files.paths import write_text
from reproduction.claims import FAILS, NO_CELLS, UNDECIDED, UNTESTABLE, judge_claims
from reproduction.notebooks import HEAD, read_cells
from reproduction.papers import Paper, read_papers, show_name

_ROLES = {"judge": "a language model as judge", "generator": "a language model that writes"}


def fill_heads(root: Path) -> list[Path]:
    """Bring that cell up to date with the committed results, in every notebook; returns those in which it changed."""
    changed = []
    for path, text in make_heads(root).items():
        if text != next((cell["source"] for cell in read_cells(path) if HEAD in cell["tags"]), ""):
            notebook = read_json(path)
            others = [cell for cell in notebook["cells"] if HEAD not in cell["metadata"].get("tags", [])]
            cell = {"cell_type": "markdown", "id": HEAD, "metadata": {"tags": [HEAD]}}
            notebook["cells"] = [others[0], cell | {"source": text.splitlines(keepends=True)}, *others[1:]]
            write_text(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
            changed.append(path)
    return changed


def make_heads(root: Path) -> dict[Path, str]:
    """What the cell says in each notebook whose artefacts have results."""
    made = {}
    for paper in read_papers(root).values():
        claims = judge_claims(paper, root / "results").to_dict("records")
        claims = sorted(claims, key=lambda claim: (not claim["headline"], claim["kind"] != "finding"))
        made_by: dict[str, list[str]] = {}
        for name, entry in paper.artefacts.items():
            if entry.notebook and (root / "results" / paper.paper / f"{name}.json").is_file():
                made_by.setdefault(str(entry.notebook), []).append(name)
        for notebook, own in made_by.items():
            labels = {paper.artefacts[name].label for name in own}
            told = [
                claim
                for claim in claims
                if {*paper.claims[str(claim["claim"])].tables} & {*own} or labels & {*re.split("[,;] ", claim["where"])}
            ]
            made[root / "notebooks" / notebook] = _write_head(root, paper, own, told)
    return made


def _write_head(root: Path, paper: Paper, names: list[str], claims: list[dict]) -> str:
    """Figures, first findings, then a table of the claims: those that are decided here first."""
    shown = [f"![{paper.artefacts[name].label}](../../figures/{paper.paper}/{name}.png)" for name in names]
    found = [read_json(root / "results" / paper.paper / f"{name}.json").get("findings", [])[:1] for name in names]
    first = list(dict.fromkeys(finding for each in found for finding in each))
    lines = []
    for claim in sorted(claims, key=lambda claim: not {*paper.claims[claim["claim"]].tables} & {*names}):
        tables = dict.fromkeys(paper.claims[claim["claim"]].tables)
        elsewhere = [] if {*tables} & {*names} else [show_name(paper, name) for name in tables]
        told = f" Decided in: {', '.join(elsewhere)}." if elsewhere else ""
        bar = f" Our bar: {claim['bar'].rstrip('.')}." if claim["bar"] else ""
        ours = _say_verdict(claim, "stand_in" if claim["stand_in"] else "here")
        row = (f"*{claim['says']}*{bar}{told}", _say_verdict(claim, "published"), ours)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |")
    if lines:
        lines = ["| The paper says | as published | here |", "|---|---|---|", *lines]
    return "\n\n".join(filter(None, [" ".join(shown), *first, "\n".join(lines)]))


def _say_verdict(claim: dict, side: str) -> str:
    """A verdict with its counts, and the comparison that decides where it isn't "holds", or what it needs."""
    verdict, _, counts = claim[f"{side}_said"].partition(": ")
    if verdict == UNTESTABLE:
        needs = claim[f"{side}_because"].split("; ")
        return f"not run: needs {'; '.join(_ROLES.get(need, need) for need in needs)}"
    if verdict == NO_CELLS:
        return verdict
    because = f"; {claim[f'{side}_because']}" if verdict.startswith((FAILS, UNDECIDED)) else ""
    verdict += " for a stand-in" * (side == "stand_in" and verdict == UNDECIDED)
    return f"**{verdict}**{f' ({counts})' if counts else ''}{because}"
