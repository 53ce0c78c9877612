"""The house rules that a machine can hold us to."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement

from nfqa.models.roles import DEFAULTS
from reproduction.data.registry import read_registry
from reproduction.notebooks import ANSWER, read_cells, read_parameters
from reproduction.papers import read_papers
from reproduction.place import find_place

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}
HASHED = {f"nfqa/{name}.py" for name in ["models/restated", "models/engine", "models/pretrained", "kernels/perplexity"]}
HASHED |= {f"nfqa/models/{name}.py" for name in ("reader", "adapters", "vectors")}
NOTEBOOKS = sorted((PROJECT / "notebooks").glob("*/*.ipynb"))  # those of artefacts; index.ipynb is none
FLOORS = (  # a module imports from its own folder and those before it; "" is a package's top
    *(("nfqa", folder) for folder in ("kernels", "files", "models", "judge", "metrics", "", "frameworks")),
    *(("reproduction", folder) for folder in ("data", "studies", "debates", "")),
)


def list_imports(path: Path) -> set[str]:
    """Every name that an import statement means or may mean, those inside functions too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            meant = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= meant if meant <= MODULES.keys() else {node.module, *meant}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def find_floor(path: Path) -> int:
    package, *folders, _ = path.relative_to(SOURCE).parts
    return FLOORS.index((package, folders[0] if folders else ""))


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES)
def test_a_module_keeps_to_the_house(path: Path) -> None:
    code = path.read_text()
    tree = ast.parse(code)
    imported = list_imports(path) & MODULES.keys()
    assert {name for name in imported if find_floor(MODULES[name]) > find_floor(path)} == set()
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Assert)], "no input is checked by assert"
    public = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef) and not n.name.startswith("_")]
    assert [getattr(node, "name", "module") for node in (tree, *public) if not ast.get_docstring(node)] == []


@pytest.mark.parametrize("path", MODULES.values(), ids=MODULES)
def test_a_statement_does_one_thing(path: Path) -> None:
    """No assignment of several unrelated values, and no update that does nothing in one case.

    The modules by whose hash committed losses and readings are known keep theirs until these are computed anew.
    """
    if str(path.relative_to(SOURCE)) in HASHED:
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            names = {ast.unparse(part) for part in node.targets[0].elts}
            assert names & {ast.unparse(part) for part in node.value.elts}, f"line {node.lineno}: a line each"
        if isinstance(node, ast.AugAssign) and isinstance(node.value, ast.IfExp):
            assert ast.unparse(node.value.orelse) not in ("[]", "{}", "()"), f"line {node.lineno}: write an if"
        if isinstance(node, ast.IfExp):
            inner = [part for part in (node.test, node.body, node.orelse) if isinstance(part, ast.IfExp)]
            assert not inner, f"line {node.lineno}: a condition inside a condition"


def test_imports_form_no_circle() -> None:
    TopologicalSorter({name: list_imports(path) & MODULES.keys() for name, path in MODULES.items()}).prepare()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_its_parameters_its_answer_and_marks_on_its_figure(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert notebook.cells[1].metadata.tags == [ANSWER]
    assert [code[0].metadata.get("tags"), code[1].metadata.get("tags")] == [["parameters"], ["setup"]]
    assert read_parameters(path)["out"] == ""
    assert code[-1].source.splitlines()[-1].startswith("lab.write(")
    drawn = [cell.source for cell in code if "figure" in cell.metadata.get("tags", [])]
    assert not drawn or drawn[-1].splitlines()[-1] == "lab.mark(figure, table)"  # no proxy without its mark


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_of_this_projects_own_is_stored_for_a_reader(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if "lab.load_example(" in cell.source or "sample=True" in cell.source:
            assert "texts" not in cell.metadata.get("tags", [])
            assert cell.outputs
            assert "Not stored" not in str(cell.outputs)


def test_every_notebook_belongs_to_an_artefact_and_every_artefact_has_its_notebook() -> None:
    named = {a.notebook for paper in read_papers(PROJECT).values() for a in paper.artefacts.values() if a.notebook}
    assert named == {str(path.relative_to(PROJECT / "notebooks")) for path in NOTEBOOKS}


def test_the_register_holds_the_published_numbers() -> None:
    paper = read_papers(PROJECT)["linkage"]
    assert {name for artefact in paper.artefacts.values() for name in artefact.datasets} <= set(read_registry(PROJECT))
    # rows x data sets x columns, counted in the paper: e.g. Table 2 has 15 rows of two times three numbers
    assert paper.published.artefact.value_counts().to_dict() == {
        "table_01": 12, "table_02": 90, "table_03": 36, "table_04": 20, "table_05": 12,
        "table_06": 32, "table_07": 12, "table_08": 12, "table_09": 30, "table_10": 30,
    }  # fmt: skip


def read_pins(name: str) -> dict[str, str]:
    lines = (PROJECT / name).read_text().splitlines()
    pins = (line.partition("==") for line in lines if "==" in line and not line.startswith("#"))
    return {normalise(package): version.strip() for package, _, version in pins}


def normalise(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package.strip()).lower()


def test_requirements_environment_and_package_name_one_set() -> None:
    core, extras = read_dependencies()
    direct, pins = core | extras["lab"] | extras["debates"], read_pins("requirements.txt")
    assert direct <= set(pins)
    assert extras["dev"] <= set(read_pins("requirements-dev.txt"))
    environment = yaml.safe_load((PROJECT / "environment.yml").read_text())["dependencies"]
    (listed,) = (entry["pip"] for entry in environment if isinstance(entry, dict))
    conda = {normalise(line.partition("==")[0]): line.partition("==")[2] for line in listed if line != "-e ."}
    assert conda == {name: pins[name] for name in direct}


def read_dependencies() -> tuple[set[str], dict[str, set[str]]]:
    """What the package itself needs, and by name what its extras do."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = {extra: list_names(lines) for extra, lines in project["optional-dependencies"].items()}
    return list_names(project["dependencies"]), extras


def list_names(lines: Iterable[str]) -> set[str]:
    return {normalise(Requirement(line).name) for line in lines}


def test_every_dependency_has_a_lower_bound_that_the_pinned_version_satisfies() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    requirements = [*map(Requirement, chain(project["dependencies"], *extras))]
    unbound = {str(each) for each in requirements if ">=" not in {part.operator for part in each.specifier}}
    assert unbound == set()
    files = ("requirements-frameworks.txt", "requirements-dev.txt", "requirements.txt")
    pins = {name: version for file in files for name, version in read_pins(file).items()}
    pins |= {"datasets": "4"}  # what lm-eval takes
    pinned = {each: pins[normalise(each.name)].partition(" ")[0] for each in requirements}
    assert {str(each) for each, version in pinned.items() if not each.specifier.contains(version)} == set()


def list_packages(modules: Iterable[Path]) -> set[str]:
    """The packages that modules import, as they are called when installed."""
    other_names = {"sklearn": "scikit-learn", "yaml": "pyyaml", "bs4": "beautifulsoup4"}
    top = {name.split(".")[0] for path in modules for name in list_imports(path)}
    foreign = top - set(sys.stdlib_module_names) - {"nfqa", "reproduction", "__future__"}
    return {normalise(other_names.get(name, name)) for name in foreign}


def test_every_import_is_a_declared_dependency_and_each_has_its_reason() -> None:
    core, extras = read_dependencies()
    reasons = (PROJECT / "docs" / "dependencies.md").read_text()
    declared = core.union(*extras.values()) - extras["dev"] | extras["ray"]
    assert [name for name in declared if f"`{name}`" not in reasons] == []
    assert list_packages(MODULES.values()) <= declared


def test_the_library_imports_no_more_than_the_package_itself_needs() -> None:
    paths = [path for name, path in MODULES.items() if re.match(r"nfqa(?!\.frameworks)\b", name)]
    packaged = {normalise(DEFAULTS["embedder"].removeprefix("package:"))}  # found by name, not imported
    packaged |= {"accelerate", "gguf"}  # transformers asks for them, for GGUF files
    core, extras = read_dependencies()
    assert list_packages(paths) - extras["ray"] - extras["lab"] | packaged == core


@pytest.mark.parametrize(
    "code",
    [
        "import nfqa, nfqa.cli, reproduction.cli, reproduction.papers",
        "from nfqa.kernels.perplexity import PAPER; from nfqa.models.evaluator import Evaluator;"
        "from nfqa.models.roles import DEFAULTS, parse_role; from nfqa.models.restated import Restated; import pandas;"
        "item = Restated('an answer', ('a view',));"
        "from reproduction.place import find_committed; from pathlib import Path;"
        f"committed = find_committed(Path({str(PROJECT)!r}), 'losses');"
        "Evaluator(parse_role('evaluator', DEFAULTS['evaluator']), committed=committed)._hash(item, 'a view', PAPER)",
    ],
    ids=["the command line", "a loss in the cache"],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    printed = "import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", f"{code};{printed}"], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "sentence_transformers", "matplotlib", "papermill"}
    assert not (heavy if "pandas" in code else heavy | {"pandas", "sklearn"}) & set(done.stdout.split())


def test_committed_results_are_whole_and_match_their_entries() -> None:
    from reproduction.check import check_published
    from reproduction.values import MEASURED, read_values, tidy_values

    for name, paper in read_papers(PROJECT).items():
        for artefact, entry in paper.artefacts.items():
            path = PROJECT / "results" / name / f"{artefact}.csv"
            assert path.is_file() == bool(entry.notebook), f"{name}/{artefact}"
            if not entry.notebook:
                continue
            table = read_values(path)
            assert tuple(table.columns[-len(MEASURED) :]) == MEASURED
            assert set(table.origin) <= ({"sample"} if entry.bundled else {"measured", "stand-in", "paper"})
            assert tidy_values(table, origin="", exact=True).to_csv(index=False) == table.to_csv(index=False)
            assert json.loads(path.with_suffix(".json").read_text())["artefact"] == f"{name}/{artefact}"
            draws = any("figure" in cell["tags"] for cell in read_cells(entry.path))
            assert (PROJECT / "figures" / name / f"{artefact}.png").is_file() == draws, f"{name}/{artefact}"
    verdicts = check_published(PROJECT, find_place(PROJECT)).verdict.value_counts()
    assert not {"differs", "missing"} & set(verdicts.index)
    assert verdicts["equal"] >= 10


def test_the_readme_tables_are_the_committed_results() -> None:
    from readme_tables import fill_tables

    readme = (PROJECT / "README.md").read_text()
    assert fill_tables(PROJECT, readme) == readme, "run `python -m tools.readme_tables`"
