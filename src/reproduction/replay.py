"""Running some of a notebook's cells in this process: its figure from results alone, or what it
would ask a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import redirect_stdout, suppress
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

from nfqa.judge.asking import Tally
from reproduction.keys import choose_parameters
from reproduction.notebooks import read_cells
from reproduction.options import RunOptions
from reproduction.papers import Paper
from reproduction.place import Place
from reproduction.values import read_values

_SCORES = "scores"  # what stands for a tag of the cells between those that ask and those that show
_NOT_SCORES = {"parameters", "setup", "ask", "figure"}


def redraw_figure(paper: Paper, name: str, place: Place, options: RunOptions) -> bool:
    """Draw an artefact's figure from its results into drawn/, by the notebook's cells tagged
    `figure`.

    Returns: whether there was a figure to draw: one that shows more than the results hold is drawn
        by its run alone.
    Raises: ValueError where the artefact has no results.
    """
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    notebook = paper.artefacts[name].path
    path = place.find("results", f"{paper.paper}/{name}.csv")
    if not path.is_file():
        raise ValueError(f"{paper.paper}/{name} has no results to draw; run `make {paper.paper}/{name}` first")
    mpl.use("Agg")
    parameters = choose_parameters(paper, name, options, Path())
    names = _run_cells(notebook, {"parameters", "setup"}, {}, parameters)
    lab = names["lab"]
    table = read_values(path)
    lab.size = options.say_size(parameters)  # which is noted below the figure
    figure = _run_cells(notebook, {"figure"}, names | {"table": table}).get("figure")
    if isinstance(figure, Figure):  # drawn once before it is kept, as a notebook shows it: this settles its layout
        figure.savefig(BytesIO(), dpi="figure", bbox_inches="tight")
    if figure is not None:
        lab.draw(figure, table, place.work / "drawn" / paper.paper / name)
    plt.close("all")
    return figure is not None


def count_asked(paper: Paper, name: str, place: Place, options: RunOptions, recorder: Any = None) -> Tally:
    """What an artefact would ask language models, by its cells tagged `ask`, run dry: counted,
    nothing asked.

    Args: recorder: as `reproduction.notebook_roles.Roles` has it. For its losses the cells between
        are run too, as far as they need neither vectors nor values.
    """
    artefact = paper.artefacts[name]
    parameters = choose_parameters(paper, name, options, place.work / "scratch" / "dry")
    with redirect_stdout(StringIO()):
        names = _run_cells(artefact.path, {"parameters", "setup"}, {}, parameters)
        names["lab"].dry = True
        names["lab"].recorder = recorder
        _run_cells(artefact.path, {"ask"}, names)
        if recorder and "evaluator" in artefact.roles:
            names["lab"].embedder = None  # a cell that needs vectors may take minutes, and ends it
            with suppress(Exception):  # as does one that can't go on without values, or a recorder that has enough
                _run_cells(artefact.path, {_SCORES}, names)
    return names["lab"].tally


def _run_cells(
    notebook: Path, tags: set[str], names: dict[str, Any], parameters: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The names that a notebook's code cells with one of the tags leave behind; `parameters` follow
    their own cell.
    """
    for cell in read_cells(notebook):
        scores = cell["cell_type"] == "code" and not cell["tags"] & _NOT_SCORES and "lab.write(" not in cell["source"]
        if (cell["tags"] | ({_SCORES} if scores else set())) & tags:
            exec(compile(cell["source"], str(notebook), "exec"), names)  # noqa: S102 (the project's own notebook)
        if "parameters" in cell["tags"]:
            names |= parameters or {}
    return names
