"""README and docs: Python blocks run as printed, commands and links exist, formats name every column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PROJECT
from stub_server import StubServer

import nfqa
from nfqa import scoring
from nfqa.judge import journal
from reproduction.papers import list_chosen
from reproduction.values import MEASURED

PAGES = [PROJECT / "README.md", PROJECT / "CONTRIBUTING.md", *sorted((PROJECT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAKEFILE = (PROJECT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
LISTED = re.findall(r"^(?:READ|LIMITS) := ((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)
EXPORTED = set(re.findall(r"[A-Z_]{2,}", " ".join(LISTED)))
OWN = set(re.findall(r"^([A-Z_]+) :=", MAKEFILE, re.MULTILINE))  # what the Makefile sets for itself
VARIABLES = (EXPORTED | set(re.findall(r"\$\(([A-Z_]+)\)", MAKEFILE))) - OWN - {"MAKEFILE_LIST"}


def list_blocks(path: Path, language: str) -> list[str]:
    return [text for name, text in BLOCK.findall(path.read_text()) if name == language]


def list_code(path: Path) -> Iterator[str]:
    """Shell blocks and code within a line."""
    text = path.read_text()
    yield from list_blocks(path, "")
    yield from re.findall(r"`([^`\n]+)`", BLOCK.sub("", text))


@pytest.fixture
def stub_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JUDGE is a server that answers by rule, its verdicts kept apart."""
    with StubServer() as server:
        monkeypatch.setenv("JUDGE", f"openai:stub@{server.url}")
        monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))
        yield


def test_the_readme_is_short_and_its_version_the_package_s() -> None:
    text = (PROJECT / "README.md").read_text()
    assert len(text.splitlines()) <= 110
    made = re.compile(r"^<!-- .*? -->\n.*?^<!-- end -->", re.MULTILINE | re.DOTALL)
    assert len(BLOCK.sub("", made.sub("", text)).split()) <= 700
    assert max(len(line) for _, block in BLOCK.findall(text) for line in block.splitlines()) <= 76
    assert f"version = {{{nfqa.__version__}}}" in text
    assert f"version: {nfqa.__version__}\n" in (PROJECT / "CITATION.cff").read_text()
    assert (PROJECT / "CHANGELOG.md").read_text().index(f"## {nfqa.__version__}\n") < 300


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [path for path in PAGES if list_blocks(path, "python")], ids=lambda path: path.stem
)  # fmt: skip
def test_python_blocks_run_as_printed(path, stub_judge, monkeypatch, capsys):
    monkeypatch.chdir(PROJECT)
    names: dict[str, object] = {}
    for block in list_blocks(path, "python"):
        exec(compile(block, path.name, "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert printed == [line.removeprefix("# -> ") for line in block.splitlines() if line.startswith("# -> ")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_commands_name_what_the_makefile_knows(path):
    artefacts = {f"{paper.paper}/{name}" for paper, name in list_chosen(PROJECT)} | {"PAPER/NAME"}
    source = "".join(module.read_text() for module in (PROJECT / "src").rglob("*.py"))
    environment = set(re.findall(r"\"((?:NFQA|OPENAI)_[A-Z_]+)\"", source)) | {"NFQA_REQUIRE_BROWSER"}
    for code in list_code(path):
        for target in re.findall(r"\bmake ([\w/-]+)", code):
            assert target in TARGETS | artefacts, code
        for name in re.findall(r"(?<![\w'=])([A-Z][A-Z_]+)=", code):
            assert name in VARIABLES | environment, code


@pytest.mark.parametrize("path", [*PAGES, PROJECT / "CHANGELOG.md"], ids=lambda path: path.stem)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text()):
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        assert other.is_file(), target
        if anchor:
            found = re.findall(r"^#+ (.*)", other.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", head).lower().replace(" ", "-") for head in found}, target


def test_formats_name_every_column():
    page = "".join((PROJECT / "docs" / name).read_text() for name in ("formats.md", "scale.md"))
    conditions = {"training", "variant", "method", "judge"}  # of a metric, as its own row says
    columns = {*MEASURED, *scoring._TEXTS, *scoring._NUMBERS, *journal._COLUMNS} - conditions - {"run", "written"}
    assert {name for name in columns if f"`{name}`" not in page} == set()
