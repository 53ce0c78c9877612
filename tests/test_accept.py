"""Committed notebooks: as executed, small, with what their run printed, and without any text of an upstream dataset."""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from conftest import PROJECT

from reproduction.accept import TEXTS, keep_outputs
from reproduction.data.load import load
from reproduction.data.registry import UpstreamFile, fetch_file, read_registry
from reproduction.data.web import FRAMES, load_frame
from reproduction.notebooks import read_cells

NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*/*.ipynb"))
MOST = 60 * 1024  # bytes of a notebook
LONG = 28  # characters at the beginning of a sentence that hardly begin another one


def list_outputs(notebook: Path) -> Iterator[tuple[int, str]]:
    """The text of each output, with its cell's number."""
    for number, cell in enumerate(read_cells(notebook)):
        for output in cell.get("outputs", []):
            page = "".join(output.get("data", {}).get("text/html", []))
            plain = output.get("text", []) or output.get("data", {}).get("text/plain", [])
            yield number, " ".join(html.unescape(re.sub("<[^>]*>", " ", page) or "".join(plain)).split())


def list_sentences(texts: Iterator[str]) -> set[str]:
    """How the sentences of texts begin."""
    parts = (part for text in texts for part in re.split(r"(?<=[.?!])\s+|\n", text))
    return {" ".join(part.split())[:LONG].lower() for part in parts if len(" ".join(part.split())) >= LONG}


def is_at_hand(file: UpstreamFile, store: Path) -> bool:
    """Whether a file can be read without the network."""
    mirror = os.environ.get("NFQA_MIRROR", "")
    return (store / file.stored).is_file() or (bool(mirror) and (Path(mirror) / file.relative).exists())


def list_upstream(root: Path) -> Iterator[str]:
    """Every text of the datasets and the released prompts that are at hand."""
    for name, file in read_registry(root).items():
        if not is_at_hand(file, root / "build" / "data"):
            continue
        if file.shape == "prompt":
            yield fetch_file(file, root / "build" / "data").read_text()
        elif file.shape in FRAMES:
            frame = load_frame(name, root=root)[0]
            yield from (
                frame[frame.columns.intersection(["question", "text", "point_of_view"])].astype(str).to_numpy().flat
            )
        else:
            loaded = load(name, root=root)
            yield from loaded.texts()
            yield from loaded.texts_by_name.values()


@pytest.mark.slow
def test_no_committed_notebook_holds_a_text_of_an_upstream_dataset() -> None:
    begins = list_sentences(list_upstream(PROJECT))
    begins -= list_sentences(load("trec_dl_nf", data="sample", root=PROJECT).texts())  # this project's own
    if not begins:
        pytest.skip("no upstream data at hand")
    problems = []
    for path in NOTEBOOKS:
        for number, text in list_outputs(path):
            windows = (text[match.start() : match.start() + LONG].lower() for match in re.finditer(r"\S+", text))
            problems += [f"{path.name}, cell {number}: {window}" for window in windows if window in begins]
    assert problems == []


def test_each_notebook_is_small_and_shows_its_figures_and_what_its_run_printed() -> None:
    for path in NOTEBOOKS:
        assert path.stat().st_size <= MOST, path.name
        cells = read_cells(path)
        links = re.findall(r"!\[[^]]+\]\((\.\./\.\./figures/[^)]+)\)", cells[2]["source"])
        assert bool(links) == any("figure" in cell["tags"] for cell in cells), path.name
        assert all((path.parent / link).is_file() for link in links), path.name
        for cell in cells:
            printed = json.dumps(cell.get("outputs", ""))
            assert "lab.list_findings(" not in cell["source"] or "verdict" in printed, f"{path.name}: findings not run"
        assert any(True for _ in list_outputs(path)), f"{path.name}: run it, then `make accept ONLY=PAPER/NAME`"


STYLED = '<style>td {}</style>\n<table id="T_1">\n <tr>\n <td class="a" colspan="2">0.5\n0.4</td>\n</tr></table>'
OUTPUTS = [
    nbformat.v4.new_output("stream", name="stdout", text="in {root}/build\n"),
    nbformat.v4.new_output("stream", name="stderr", text="a warning"),
    nbformat.v4.new_output("execute_result", {"text/html": STYLED, "text/plain": "0.5"}, execution_count=7),
    nbformat.v4.new_output("display_data", {"image/png": "AAAA", "text/plain": "<Figure>"}),
]


def write(path: Path, cells: list) -> None:
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=cells)))


def test_a_committed_notebook_keeps_tables_and_lines_alone(tmp_path: Path) -> None:
    path, executed = tmp_path / "a.ipynb", tmp_path / "executed.ipynb"
    new = nbformat.v4.new_code_cell
    tags = [{"tags": ["parameters"]}, {"tags": [TEXTS]}]
    write(
        path,
        [
            nbformat.v4.new_markdown_cell("# A"),
            new("x = 1", metadata=tags[0]),
            new("y"),
            new("texts", metadata=tags[1]),
        ],
    )
    outputs = json.loads(json.dumps(OUTPUTS).replace("{root}", str(tmp_path)))
    write(executed, [
        new("x = 1", metadata=tags[0]), new("x = 2", metadata={"tags": ["injected-parameters"]}),
        new("y", outputs=outputs, execution_count=3), new("texts", metadata=tags[1], outputs=outputs),
    ])  # fmt: skip
    keep_outputs(path, executed, tmp_path)
    nbformat.validate(nbformat.read(path, as_version=4))
    cells = [cell for cell in read_cells(path) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == [1, 2, 3]
    assert [len(cell["outputs"]) for cell in cells] == [0, 2, 1]
    assert "Not stored" in cells[2]["outputs"][0]["text"][0]  # in place of a dataset's texts
    line, table = cells[1]["outputs"]
    assert "".join(line["text"]) == "in ./build\n"
    assert "".join(table["data"]["text/html"]) == '<table><tr><td colspan="2">0.5 / 0.4</td></tr>\n</table>'
    before = path.read_bytes()
    keep_outputs(path, executed, tmp_path)
    assert path.read_bytes() == before
