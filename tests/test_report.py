"""The report site, built from a small made-up checkout: what its pages say, and how they behave in a browser.

The browser tests skip where Chromium or playwright is missing; with NFQA_REQUIRE_BROWSER set they fail instead.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
import yaml
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from nbformat import v4

from nfqa.data.json_lines import read_json
from nfqa.data.paths import Place, find_place, find_root
from nfqa.lab.pages import say_needs, write_number
from nfqa.lab.papers import read_papers
from nfqa.lab.report import build_site
from nfqa.lab.source_pages import draw_formula, find_definition
from nfqa.lab.values import tidy_values, write_values

FUNCTION = "nfqa.kernels.toy:score"
PAPER = {
    "paper": "toy",
    "title": "A paper with <b>two</b> things & more",
    "source": "arXiv 2409.14744",
    "names": {"test_split": "the test split"},
    "systems": {
        "overlap": {"title": "Overlap <i>"}, "noise": {"title": "Noise"},
        "judged": {"title": "Judged", "needs": ["judge", "test_split"]},
    },
    "stand_ins": [
        {"says": "vectors in place of <i>Mistral</i>", "rows": {"metric": "embedded"}},
        {"says": "rules in place of people", "rows": {"metric": "rules"}},  # no row has it
    ],
    "claims": {
        "few_tables": {
            "says": "Judging is costly.", "where": "section 2", "kind": "data", "needs": ["judge", "price_list"],
        },
        "judged_first": {
            "says": "Judging < noise.", "where": "Tables 1 and 2; Figure 1", "published": [{
                "table": "table_01", "order": [{"system": "judged"}, {"system": "noise"}], "within": ["dataset"],
                "where": {"dataset": "one", "metric": "tau"},
            }],
        },
        "overlap_above_noise": {
            "says": "Overlap beats noise.", "where": "Table 1", "headline": True, "published": [{
                "table": "table_01", "order": [{"system": "overlap"}, {"system": "noise"}], "within": ["dataset"],
                "where": {"dataset": "one", "metric": "tau"},
            }],
            "here": [{
                "table": "table_01", "order": [{"metric": "embedded"}, {"metric": "noise"}], "within": ["statistic"],
                "where": {"dataset": "one", "statistic": "tau"},
            }],
            "stand_in": "vectors in place of Mistral",
        },
    },
    "artefacts": {
        "table_01": {
            "label": "Table 1", "title": "Agreement", "claim": "Judging wins.", "note": "Printed in percent.",
            "caption": ["Ours", "n = "],
            "notebook": "notebooks/toy/table_01.ipynb", "decimals": 2, "scale": 100,
            "leaves": {
                "overlap": {"one": {"tau": "20.88", "rho": "9.50"}, "two": {"tau": "30.10"}},
                "noise": {"one": {"tau": "50.00"}, "two": {"tau": "70.00"}},
                "judged": {"one": {"tau": "41.20"}},
            },
            "known_differences": [
                {"system": "noise", "dataset": "one", "reason": "It is noise."},
                {"system": "noise", "reason": "Cause not established. No draws are released."},
            ],
        },
        "table_02": {"label": "Table 2", "title": "Not run", "notebook": None, "missing_roles": ["generator"]},
        "figure_01": {"label": "Figure 1", "title": "A sketch", "notebook": None},
    },
}  # fmt: skip


def _row(metric: str, dataset: str, statistic: str, value: float, **more: Any) -> dict[str, Any]:
    row = {"dataset": dataset, "metric": metric, "statistic": statistic, "value": value, "n": 90, "dropped": 0}
    return {**row, "signature": f"{metric}|impl:toy|v1", **more}


ROWS = [
    _row("overlap", "one", "tau", 0.208812345678, low=0.19, high=0.22, spread=0.0123),
    _row("overlap", "one", "rho", 0.101, dropped=7, dropped_because="constant 5; short 2"),
    _row("overlap", "two", "tau", 0.25),
    _row("noise", "one", "tau", 0.1),
    _row("noise", "two", "tau", 0.1),
    _row("overlap", "one", "tau", 0.1088, low=-0.02, high=0.2, difference_from="noise"),
    _row("printed", "one", "tau", 4026.0249, origin="paper"),
    _row("embedded", "one", "tau", 0.3333, low=0.31, high=0.35, origin="stand-in"),
]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_run(place: Place, rows: list[dict[str, Any]], functions: Sequence[str] = (FUNCTION,)) -> None:
    provenance = {"artefact": "toy/table_01", "inputs": {"one": "sha256:aa"}, "code": "sha256:bb", "roles": {}}
    provenance |= {
        "functions": list(functions),
        "findings": ["P.D. of 2 is first. In both, n = 7.", "Ours is < theirs. More."],
    }
    table = tidy_values(pd.DataFrame(rows), origin="measured", exact=True)
    write_values(place.results / "toy" / "table_01", table, provenance)
    (place.figures / "toy").mkdir(parents=True, exist_ok=True)
    Figure(figsize=(3, 2)).savefig(place.figures / "toy" / "table_01.png")
    Figure(figsize=(3, 2)).savefig(place.figures / "toy" / "table_01.pdf", metadata={"CreationDate": None})
    cells = "".join(f"<td>wide_column_{number}</td>" for number in range(30))
    notebook = v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# The table\n\n![remote](https://example.org/a.png) <script>alert(1)</script>"),
            v4.new_code_cell(f'out = "{place.root}/build/x"', metadata={"tags": ["injected-parameters"]}),
            v4.new_code_cell("lab", outputs=[
                v4.new_output("display_data", data={"text/html": f"<table><tr>{cells}</tr></table>"}),
                v4.new_output("stream", name="stderr", text="/opt/some/where/module.py:3: Warning a/b\n"),
            ]),
        ]
    )  # fmt: skip
    notebook.nbformat_minor = 4  # the version before cells had identifiers
    for cell in notebook.cells:
        del cell["id"]
    _write(place.notebooks / "toy" / "table_01.ipynb", nbformat.writes(notebook))


def _make_checkout(root: Path) -> tuple[Place, Place]:
    _write(root / "papers" / "toy.yml", yaml.safe_dump(PAPER, sort_keys=False))
    _write(
        root / "src/nfqa/kernels/toy.py", "LIMIT = 3\n\n\n@cache\n# Compares.\ndef score(x):\n    return x < LIMIT\n"
    )
    place, sample = find_place(root), find_place(root, data="sample")
    _write_run(place, ROWS)
    return place, sample


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, sample = _make_checkout(tmp_path_factory.mktemp("checkout"))
    _write_run(sample, [_row("overlap", "one", "tau", 0.77, origin="sample")])
    return build_site(place, sample=sample).parent


def _read(site: Path, path: str) -> str:
    return (site / path).read_text(encoding="utf-8")


def _list_lines(site: Path, page: str = "pages/toy/table_01.html") -> list[str]:
    """The text of every line of a page's tables."""
    lines = re.findall(r"<tr\b.*?</tr>", _read(site, page), re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", line)).split()) for line in lines]


def _see(site: Path, path: str, *, without: Sequence[str] = ("script", "style")) -> str:
    """What a page says, in one line of text."""
    page = BeautifulSoup(_read(site, path), "html.parser")
    for tag in page(without):
        tag.decompose()
    return " ".join(page.get_text(" ").split())


def test_index_counts_every_published_number(site: Path) -> None:
    text = _see(site, "index.html")
    # 6 leaves: overlap/one/tau equal (0.208812 rounds to 0.2088); rho 0.101 against 0.095 is 0.006 off: near;
    # overlap/two differs by 0.051; noise differs, for a listed reason on one dataset; judged is not run. Of 8 rows one
    # repeats the paper.
    assert "6 published numbers, 5 of them compared with ours; 7 values computed here" in text
    assert "and 1 of the paper’s repeated" in text
    marks = "= 1 equal ≈ 1 near † 1 differs, explained ‡ 1 differs, cause unknown ≠ 1 differs ○ 1 not run"
    assert marks in text
    lines = [line for line in _list_lines(site, "index.html") if line.startswith(("Table", "Figure"))]
    assert [line[:8] for line in lines] == ["Table 1 ", "Table 2 ", "Figure 1"]
    assert "measured in part the rest needs an LLM judge and the test split" in text
    assert "not run: to run this you would need an LLM generator" in text
    assert "● 6 measured ¶ 1 paper ⇄ 1 stand-in" in text
    assert "no numbers to run" in text


def test_claims_are_first_each_with_its_verdicts_in_words(site: Path) -> None:
    text = _see(site, "index.html")
    parts = ["Overlap beats noise.", "Judging &lt; noise.", "Judging is costly.", 'id="figures"', 'id="artefacts"']
    places = [_read(site, "index.html").index(part) for part in parts]
    assert places == sorted(places)  # the headline first, though it is the last in the paper's file
    # As published 0.2088 is below 0.5; ours, 0.2088 [0.19, 0.22], above 0.1; of judged, 0.412, there is none of ours.
    assert "✗ 2 fails" in text
    assert "✓ 1 holds ⊘ 1 not testable here" in text
    assert "⇄✓ 1 holds for a stand-in · 1 no stand-in" in text
    told = [
        " ".join(part.get_text().split())
        for part in BeautifulSoup(_read(site, "index.html"), "html.parser").select(".told")
    ]
    assert "Stand-in: ⇄✓ holds for a stand-in: 1 of 1 holds" in told
    assert {"Paper’s numbers: ✗ fails: 0 of 1 holds", "Ours: ⊘ not testable here"} <= set(told)
    assert "Stand-in: vectors in place of Mistral the closest: " in text
    assert "Ours: needs an LLM judge and price list" in text
    assert "Findings: 2" in text
    assert text.index("Counts, sizes and sums of the data: 1") < text.index("Judging is costly.")
    artefact = _see(site, "pages/toy/table_01.html")
    assert "Overlap beats noise." in artefact
    assert "Judging < noise." in artefact
    assert "Judging is costly." not in artefact  # it names no table


def test_claims_link_to_all_that_they_name_but_the_page_itself(site: Path) -> None:
    linked = {}
    for name in ("table_01", "table_02", "figure_01"):
        page = BeautifulSoup(_read(site, f"pages/toy/{name}.html"), "html.parser")
        (claim,) = [row for row in page.select(".claim") if "Judging < noise." in row.get_text()]
        linked[name] = [link.get_text() for link in claim.select(".reasons a")]
    assert linked == {
        "table_01": ["Table 2", "Figure 1"],
        "table_02": ["Table 1", "Figure 1"],
        "figure_01": ["Table 1", "Table 2"],
    }


def test_no_mark_means_two_things(site: Path) -> None:
    page = BeautifulSoup(_read(site, "index.html"), "html.parser")
    signs: dict[str, set[str]] = {}
    for mark in page.select(".mark"):
        for part in mark.select(".count"):
            part.decompose()
        sign, _, word = " ".join(mark.get_text().split()).partition(" ")
        signs.setdefault(sign, set()).add(word.removesuffix(" yet").removesuffix(" to run").rstrip(":"))
    assert {sign: words for sign, words in signs.items() if len(words) > 1} == {}


@pytest.mark.parametrize(
    ("value", "beside", "shown"),
    [(4026.0249, (), "4026"), (0.20881, (), "0.2088"), (12.3456, (), "12.35"), (7.0, (), "7"), (1.23e-9, (), "1.2e-09"),
     (-0.02, (12.5,), "−0.02"), (0.0, (), "0.0000"), (float("nan"), (), ""), (None, (), "")],
)  # fmt: skip
def test_number_has_as_many_digits_as_make_sense(value: float | None, beside: tuple[float], shown: str) -> None:
    assert write_number(value, *beside) == shown


def test_needs_that_hold_commas_are_told_apart() -> None:
    assert say_needs(["judge", "generator"]) == "an LLM judge and an LLM generator"
    assert say_needs(["D, test split", "D, dev split", "judge"]) == "D, test split; D, dev split; and an LLM judge"
    assert say_needs([]) == ""


def test_stand_in_is_told_apart_from_measured(site: Path) -> None:
    text = _see(site, "pages/toy/table_01.html")
    assert "⇄ stand-in: vectors in place of <i>Mistral</i>" in text
    assert "rules in place of people" not in text
    cells = BeautifulSoup(_read(site, "pages/toy/table_01.html"), "html.parser").select("table.paper-shaped tbody tr")
    shown = [[" ".join(cell.get_text().split()) for cell in row(["th", "td"])] for row in cells]
    assert shown[0] == ["Overlap <i>", "20.88 [19.00, 22.00] ¶ 20.88", "10.10 ¶ 9.50", "25.00 ¶ 30.10"]
    assert shown[2] == ["Judged", "not run ¶ 41.20", "", ""]
    assert shown[3] == ["embedded", "33.33 ⇄ [31.00, 35.00]", "", ""]
    assert [cell["class"][-2:] for cell in (cells[0].td, cells[1].td)] == [
        ["m-equal", "m-"],
        ["m-differs-explained", "m-"],
    ]
    assert cells[1]("td")[2]["class"][-2:] == ["m-differs-cause-unknown", "m-"]
    assert cells[3].td["class"][-2:] == ["m-ours", "m-stand-in"]


@pytest.mark.parametrize(
    "words",
    [
        ["overlap <i>", "one tau", "20.88", "0.2088", "0.1900 to 0.2200", "= equal"],
        ["overlap <i>", "one rho", "9.50", "0.1010", "+0.0060", "near", "within 0.01"],
        ["overlap <i>", "two tau", "≠ differs", "−0.0510", "no reason listed"],
        ["noise", "one tau", "† differs, explained", "It is noise."],
        ["noise", "two tau", "‡ differs, cause unknown", "No draws are released."],
        ["one, overlap <i> minus noise, tau", "0.1088", "−0.0200 to 0.2000"],
        ["judged", "one tau", "41.20", "○ not run", "needs an LLM judge and the test split"],
        ["embedded", "tau", "0.3333", "⇄ stand-in", "embedded|impl:toy|v1"],
        ["rho", "0.1010", "90", "7 constant 5; short 2"],
    ],
)
def test_a_line_says_all_that_belongs_to_it(site: Path, words: list[str]) -> None:
    found = [line for line in _list_lines(site) if all(word.lower() in line.lower() for word in words)]
    assert len(found) == 1, words


def test_links_lead_to_files_and_anchors_of_the_site(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 8  # index, three artefacts, a notebook, a source file, and the sample's artefact and notebook
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            if link.startswith("data:") or link == "https://arxiv.org/abs/2409.14744":
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page.name}: {link}"
            assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8"), f"{page.name}: {link}"
    assert "source/nfqa/kernels/toy.py.html#L-6" in _read(site, "pages/toy/table_01.html")


def test_text_from_data_is_escaped(site: Path) -> None:
    page = _read(site, "pages/toy/table_01.html")
    assert "Overlap &lt;i&gt;" in page
    assert "&lt;b&gt;two&lt;/b&gt; things &amp; more" in page
    assert "Ours is &lt; theirs." in page
    assert "<b>two" not in page
    assert "<i>" not in page
    assert '<span class="o">&lt;</span>' in _read(site, "source/nfqa/kernels/toy.py.html")


def test_notebook_page_fetches_nothing_and_names_no_folder(site: Path) -> None:
    page = _read(site, "notebooks/toy/table_01.html")
    assert "The table" in page
    assert "picture not included: remote" in page
    assert "…/module.py:3: Warning a/b" in page
    assert "example.org" not in page
    assert "alert(1)" not in page
    assert "/opt/" not in page
    assert "not run on this machine" not in _read(site, "pages/toy/table_01.html")


@pytest.mark.parametrize(
    ("formula", "tag", "count"),
    [
        (r"\frac1n \sum_i \big(x_i \le \tfrac{1}{2}\big)", "svg", 1),
        (r"a &lt; b, \qquad \operatorname*{mean}_q\!x", "svg", 2),
        (r"\unknown{x}", "code", 1),
    ],
)
def test_formula_is_drawn_or_else_shown_as_text(formula: str, tag: str, count: int) -> None:
    assert len(BeautifulSoup(draw_formula(formula), "html.parser").select(f"{tag}.formula")) == count


def test_drawn_formula_carries_its_latex_as_it_was_written() -> None:
    drawn = draw_formula(r"\frac1n \sum_i \big(x_i \le 1\big), \qquad a &lt; b")
    labels = [formula["aria-label"] for formula in BeautifulSoup(drawn, "html.parser").select("svg.formula")]
    assert labels == [r"\frac1n \sum_i \big(x_i \le 1\big)", "a < b"]


def test_every_formula_of_the_notebooks_is_drawn() -> None:
    notebooks = [nbformat.read(path, as_version=4) for path in sorted((find_root() / "notebooks").glob("*/*.ipynb"))]
    texts = [cell.source for notebook in notebooks for cell in notebook.cells if cell.cell_type == "markdown"]
    found = {a or b for text in texts for a, b in re.findall(r"\$\$(.+?)\$\$|\$([^$\n]+?)\$", text, re.DOTALL)}
    assert len(found) > 100
    assert [formula for formula in found if "<code" in draw_formula(formula)] == []


def test_figure_has_the_sentences_that_its_entry_names(site: Path) -> None:
    (caption,) = BeautifulSoup(_read(site, "index.html"), "html.parser").select(".finding")
    assert caption.get_text() == "Ours is < theirs. In both, n = 7."


def test_every_caption_is_found_among_the_findings() -> None:
    root = find_root()
    for paper in read_papers(root).values():
        for name, artefact in paper.artefacts.items():
            if artefact.caption:
                findings = read_json(root / "results" / paper.paper / f"{name}.json")["findings"]
                assert [words for words in artefact.caption if words not in " ".join(findings)] == [], name


def test_sample_values_stand_apart(site: Path) -> None:
    assert "0.77" not in _read(site, "pages/toy/table_01.html")
    assert [
        line for line in _list_lines(site, "sample/pages/toy/table_01.html") if "0.7700" in line and "◇ sample" in line
    ]
    assert "20.88" not in _read(site, "sample/pages/toy/table_01.html")
    assert 'id="sample-run"' in _read(site, "index.html")


def test_equal_inputs_give_equal_bytes_wherever_they_are(tmp_path: Path) -> None:
    contents = []
    for name in ("here", "there"):
        place, sample = _make_checkout(tmp_path / name)
        build_site(place, sample=sample)
        build_site(place, sample=sample)  # over an old one
        assert not list(place.work.glob(".site.*"))
        files = sorted(path for path in place.site.rglob("*") if path.is_file())
        contents.append({path.relative_to(place.site): path.read_bytes() for path in files})
        assert not any(str(tmp_path).encode() in content for content in contents[-1].values())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("function", "origin", "stray", "message"),
    [
        ("nfqa.kernels.toy:gone", "measured", "", "names nfqa.kernels.toy:gone, which is not in src"),
        ("nfqa.nowhere:x", "measured", "", "names nfqa.nowhere:x"),
        ("toy", "measured", "", "names toy"),
        (FUNCTION, "sample", "", "origin 'sample'; expected 'measured'"),
        (FUNCTION, "measured", "results/toy/table_99.csv", "papers/toy.yml has no table_99"),
        (FUNCTION, "measured", "results/toy/table_01.json", "table_01.json: found empty"),
        (FUNCTION, "measured", "build/notebooks/toy/table_01.ipynb", "table_01.ipynb: not a notebook"),
    ],
)
def test_failed_build_says_why_and_leaves_the_old_site(
    tmp_path: Path, function: str, origin: str, stray: str, message: str
) -> None:
    place, _ = _make_checkout(tmp_path)
    (place.notebooks / "toy" / "table_01.ipynb").unlink()
    build_site(place)
    before = _read(place.site, "index.html")
    assert "was not run on this machine" in _read(place.site, "pages/toy/table_01.html")
    _write_run(place, [_row("overlap", "one", "tau", 0.2, origin=origin)], [function])
    if stray:
        _write(tmp_path / stray, "[]")
    with pytest.raises(ValueError, match=re.escape(message)):
        build_site(place)
    assert _read(place.site, "index.html") == before
    assert not list(place.work.glob(".site.*"))


def test_provenance_with_half_a_character_is_refused_by_file(tmp_path: Path) -> None:
    place, _ = _make_checkout(tmp_path)
    path = place.results / "toy" / "table_01.json"
    path.write_text(path.read_text().replace("sha256:aa", "\\ud800"))
    with pytest.raises(ValueError, match=r"table_01\.json: .*surrogate"):
        build_site(place)


def test_classes_and_names_of_packages_are_found(tmp_path: Path) -> None:
    _write(tmp_path / "src/pack/__init__.py", "size: int = 1\n\n\nclass Thing:\n    pass\n")
    assert find_definition(tmp_path, "pack:Thing", wanted_by="row").line == 4
    assert find_definition(tmp_path, "pack:size", wanted_by="row").line == 1


# The committed results

OUTSIDE = re.compile(r"https://arxiv\.org/abs/\d{4}\.\d{5}")
RAW_NAME = re.compile(r"\b[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+\b")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this checkout's own papers, results and figures, without notebooks."""
    root = find_root()
    return build_site(Place(root, root / "results", root / "figures", tmp_path_factory.mktemp("report"))).parent


def _list_pages(report: Path) -> list[str]:
    return [path.relative_to(report).as_posix() for path in sorted(report.rglob("*.html"))]


def test_report_is_small_and_names_nothing_outside_but_arxiv(report: Path) -> None:
    assert len(_list_pages(report)) > 60
    for page in _list_pages(report):
        assert (report / page).stat().st_size <= 400_000, page
        links = re.findall(r'(?:href|src)="(\w+:[^"]*)"', _read(report, page))
        assert {link for link in links if not OUTSIDE.fullmatch(link)} <= {"data:,"}, page


def test_report_shows_no_raw_identifier(report: Path) -> None:
    shown = {page: _see(report, page, without=("script", "style", "code")) for page in _list_pages(report)}
    raw = {page: set(RAW_NAME.findall(text)) for page, text in shown.items() if not page.startswith("source/")}
    assert {page: names for page, names in raw.items() if names} == {}


def test_linkage_comes_before_debateqa(report: Path) -> None:
    text = _read(report, "index.html")
    for part in ('<a href="#claims-{}">', 'id="claims-{}"', "figures/{}/", "pages/{}/"):
        assert text.index(part.format("linkage")) < text.index(part.format("debateqa")), part


def test_differences_are_no_rows_of_the_papers_table(report: Path) -> None:
    page = BeautifulSoup(_read(report, "pages/linkage/table_06.html"), "html.parser")
    shown = page.select_one("table.paper-shaped").get_text()
    assert "Embedded judge" in shown
    assert "the paper's own list" in page.get_text()  # in the list of all values
    assert "the paper's own list" not in shown


def test_a_page_says_where_our_copy_of_the_paper_has_no_cells(report: Path) -> None:
    assert "our text copy of the paper has no cells of this table." in _see(report, "pages/debateqa/table_06.html")


# In the browser

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
PAGES = ("index.html", "pages/toy/table_01.html", "notebooks/toy/table_01.html", "source/nfqa/kernels/toy.py.html#L-6")
# The lowest contrast of any element that holds text, against the nearest opaque background behind it.
LOWEST_CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0.5) return c; } return [255, 255, 255]; };
  let worst = [99, ""];
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < worst[0]) worst = [contrast, e.outerHTML.slice(0, 120)];
  }
  return worst;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        executable = None
    if not executable:
        message = "needs chromium on PATH and the playwright package"
        pytest.fail(message) if os.environ.get("NFQA_REQUIRE_BROWSER") else pytest.skip(message)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield running
        running.close()


def _open(browser: Any, url: str, **options: Any) -> tuple[Any, list[str]]:
    page = browser.new_page(**options)
    faults: list[str] = []
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else faults.append(r.url))
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(url)
    return page, faults


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_are_readable_and_stay_local(site: Path, browser: Any, width: int, scheme: str) -> None:
    for path in (*PAGES, "sample/pages/toy/table_01.html"):
        size = {"width": width, "height": 800}
        page, faults = _open(browser, f"{site.as_uri()}/{path}", viewport=size, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        contrast, where = page.evaluate(LOWEST_CONTRAST)
        assert contrast >= 4.5, f"{path}: {where}"
        pictures = "[...document.images].every((image) => image.loading === 'lazy' || image.naturalWidth > 0)"
        assert page.evaluate(pictures), path
        assert faults == [], path
        page.close()


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1400])
def test_table_sorts_by_click_and_by_key(site: Path, browser: Any, width: int) -> None:
    url = f"{site.as_uri()}/pages/toy/table_01.html"
    page, _ = _open(browser, url, viewport={"width": width, "height": 800})
    page.get_by_text("Every published number beside ours").click()
    read = "[...document.querySelector('table.entries').tBodies[0].rows].map((row) => row.cells[3].textContent)"
    paper = ["20.88", "9.50", "30.10", "50.00", "70.00", "41.20"]
    assert page.evaluate(read) == paper
    button = page.get_by_role("button", name="Published")
    header = page.locator("th", has=button)
    button.click()
    assert page.evaluate(read) == ["9.50", "20.88", "30.10", "41.20", "50.00", "70.00"]  # as text 9.50 would come last
    assert header.get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(read) == ["70.00", "50.00", "41.20", "30.10", "20.88", "9.50"]
    assert header.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Space")
    assert page.evaluate(read) == paper
    assert header.get_attribute("aria-sort") is None


@pytest.mark.slow
def test_filters_narrow_the_index(site: Path, browser: Any) -> None:
    page, _ = _open(browser, f"{site.as_uri()}/index.html")
    page.get_by_label("Verdict, in any of the three columns").select_option("holds-for-a-stand-in")
    assert page.locator("[data-item]:visible").count() == 1
    page.get_by_label("Verdict, in any of the three columns").select_option("")
    page.get_by_label("Search claims").fill("judging")
    assert page.locator("[data-item]:visible").count() == 2


@pytest.mark.slow
def test_index_is_short_on_a_phone(report: Path, browser: Any) -> None:
    page, _ = _open(browser, f"{report.as_uri()}/index.html", viewport={"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollHeight") < 16_000  # all 60 claims, folded


@pytest.mark.slow
def test_pages_read_without_script(site: Path, browser: Any) -> None:
    page, _ = _open(browser, f"{site.as_uri()}/pages/toy/table_01.html", java_script_enabled=False)
    assert page.locator("table.entries tbody tr:visible").count() == 0  # the long lists are folded
    for summary in page.locator("main > details > summary").all():
        summary.click()
    assert page.locator("table.entries tbody tr:visible").count() == 14
    assert page.locator("form:visible, button:visible").count() == 0
