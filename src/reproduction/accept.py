"""Taking over what was made here: results and figures into the reference, tables and lines into
committed notebooks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

from nfqa.files.json_lines import read_json
from nfqa.files.paths import copy_file, write_text
from reproduction.check import GONE, MOVED, NEW, compare_reference, list_files
from reproduction.keys import explain_staleness, read_record
from reproduction.notebooks import hash_cells, read_parameters
from reproduction.papers import find_artefact, read_papers
from reproduction.place import Place

TEXTS = "texts"  # the tag of a cell that prints texts of an upstream dataset, which aren't committed
_INSTEAD = {  # what is printed in place of the outputs of a cell, by its tag
    TEXTS: "Not stored, as it prints texts of the datasets. Run the cell to see it.",
    "figure": "The figure is stored in figures/.",
}
_INJECTED = "injected-parameters"  # papermill's


def accept_artefacts(root: Path, place: Place, only: Sequence[str]) -> list[str]:
    """Take over the artefacts named, else those of which a value moved; returns their identifiers.

    Raises: ValueError, before anything is copied, for one that was not made here, or whose files or
        notebook were edited since.
    """
    accepted = [*only]
    papers = read_papers(root)
    if not accepted:
        compared = compare_reference(root, place, unrun=False)
        accepted = list(compared[compared.state.isin([MOVED, GONE, NEW])].artefact.unique())
    notebooks = {}
    for identifier in accepted:
        paper, name = find_artefact(papers, identifier)
        notebook = paper.artefacts[name].path
        record = read_record(place, identifier)
        if record is None:
            raise ValueError(f"{identifier} was not made here; run `make {identifier}` first")
        now = record.parts | {"notebook": hash_cells(notebook)}
        if reasons := explain_staleness(record, now, place):
            raise ValueError(f"{identifier}: {reasons[0]} since it was run; run `make {identifier}` again")
        if read_parameters(notebook)["artefact"] == identifier:  # one notebook may make several
            notebooks[notebook] = place.notebooks / f"{identifier}.ipynb"
    for identifier in accepted:
        for ending, file in list_files(place.work, identifier).items():
            reference = list_files(root, identifier)[ending]
            if file.is_file():
                copy_file(file, reference)
            else:
                reference.unlink(missing_ok=True)
    for notebook, executed in notebooks.items():
        keep_outputs(notebook, executed, root)
    return accepted


def keep_outputs(notebook: Path, executed: Path, root: Path) -> None:
    """Write the outputs of an executed notebook into the committed one: its tables and printed
    lines.

    Pictures stay in figures/, to which the first cell links. Neither is kept what differs between
    two equal runs: times, ids, warnings, paths of the machine.
    """
    committed = read_json(notebook)
    run = read_json(executed)
    cells = [cell for cell in committed["cells"] if cell["cell_type"] == "code"]
    made = [cell for cell in run["cells"] if cell["cell_type"] == "code"]
    made = [cell for cell in made if _INJECTED not in cell["metadata"].get("tags", [])]
    for number, (cell, source) in enumerate(zip(cells, made, strict=True), 1):
        instead = [text for tag, text in _INSTEAD.items() if tag in cell["metadata"].get("tags", [])]
        outputs = [output for each in source["outputs"] for output in _clean_output(each, root)]
        note = {"name": "stdout", "output_type": "stream", "text": instead}
        cell["outputs"] = [note] if instead else outputs
        cell["execution_count"] = number
    write_text(notebook, json.dumps(committed, indent=1, ensure_ascii=False) + "\n")


def _clean_output(output: dict[str, Any], root: Path) -> Iterator[dict[str, Any]]:
    data = output.get("data", {})
    if output.get("name") == "stderr" or "image/png" in data:
        return
    if "text/html" in data:  # which a forge shows; without styles and ids, drawn at random
        page = BeautifulSoup("".join(data["text/html"]), "html.parser")
        for tag in [*page(True)]:
            tag.attrs = {name: value for name, value in tag.attrs.items() if name in ("colspan", "rowspan", "href")}
            if tag.name == "style":
                tag.decompose()
            elif tag.name == "td" and tag.string:  # ours above the published value, a line each
                tag.string = " / ".join(tag.string.strip().splitlines())
        html = re.sub(r">\s+<", "><", str(page)).strip().replace("</tr>", "</tr>\n")
        output = output | {"data": {"text/html": html.splitlines(keepends=True)}}
    text = json.dumps(output, ensure_ascii=False).replace(str(root), ".")
    yield json.loads(text) | ({"execution_count": None} if "execution_count" in output else {})
