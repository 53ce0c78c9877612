"""The second cell of each notebook: its committed figures, the verdicts on its claims, and its first finding."""

from __future__ import annotations

import json
import re
from pathlib import Path

from nfqa.data.json_lines import read_json
from nfqa.data.paths import write_text
from nfqa.lab.claims import FAILS, UNDECIDED, judge_claims
from nfqa.lab.notebooks import HEAD, read_cells
from nfqa.lab.papers import Paper, read_papers

_SHOWN = 3  # claims of one notebook; `make claims` says all


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
    shown = [f"![{paper.artefacts[name].label}](../../figures/{paper.paper}/{name}.png)" for name in names]
    lines = []
    for claim in claims[:_SHOWN]:
        needs = f": needs {claim['here_because']}" if claim["here"].startswith("not") else ""
        sides = {"As published": claim["published_said"], "here": claim["here_said"] + needs}
        sides |= {"with a stand-in": claim["stand_in_said"]} if claim["stand_in"] else {}
        for side, name in (("As published", "published"), ("here", "here"), ("with a stand-in", "stand_in")):
            if claim[name].startswith((FAILS, UNDECIDED)):
                sides[side] += f"; {claim[f'{name}_because']}"
        words = [(side, *verdict.partition(": ")) for side, verdict in sides.items()]
        said = (f"{side} **{verdict}**{f' ({counts})' if counts else ''}" for side, verdict, _, counts in words)
        bar = f" Our bar: {claim['bar'].rstrip('.')}." if claim["bar"] else ""
        lines.append(f"- *{claim['says']}* {'; '.join(said)}.{bar}")
    if len(claims) > _SHOWN:
        verdicts = [
            ("with a stand-in", claim["stand_in_said"]) if claim["stand_in"] else ("here", claim["here_said"])
            for claim in claims[_SHOWN:]
        ]
        rest = [
            f"*{claim['says']}* as published **{claim['published_said'].partition(': ')[0]}**,"
            f" {side} **{said.partition(': ')[0]}**"
            for claim, (side, said) in zip(claims[_SHOWN:], verdicts, strict=True)
        ]
        lines.append("- More: " + "; ".join(rest))
    found = [read_json(root / "results" / paper.paper / f"{name}.json").get("findings", [])[:1] for name in names]
    first = list(dict.fromkeys(finding for each in found for finding in each))
    return "\n\n".join(filter(None, [" ".join(shown), "\n".join(lines), *first]))
