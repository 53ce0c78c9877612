"""The report site, built from a small made-up checkout and opened in a browser.

The browser test is skipped where Chromium is missing; with NFQA_REQUIRE_BROWSER set it fails instead.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from nbformat import v4

from reproduction.place import Place, find_place
from reproduction.site import build_site
from reproduction.values import tidy_values, write_values

COMPARED = {"tables": ["table_01"], "within": ["dataset"], "where": "dataset == 'one' and statistic == 'tau'"}
PAPER = {
    "paper": "toy", "title": "A paper with <b>two</b> things & more", "source": "arXiv 2409.14744",
    "names": {"overlap": "Overlap <i>"},
    "claims": {
        "judged_first": {
            "says": "Judging < noise.", "where": "Tables 1 and 2", "stated": "text",
            "published": [COMPARED | {"upper": "metric == 'judged'", "lower": "metric == 'noise'"}],
        },
        "noise_loud": {
            "says": "Noise is loud.", "where": "Figure 1", "stated": "figure", "bar": "loud: above 0.9",
            "published": [COMPARED | {"upper": "metric == 'noise'", "lower": 0.9}],
        },
        "overlap_above_noise": {
            "says": "Overlap beats noise.", "where": "Table 1", "stated": "text", "headline": True,
            "published": [COMPARED | {"upper": "metric == 'overlap'", "lower": "metric == 'noise'"}],
        },
    },
    "artefacts": {
        "table_01": {"label": "Table 1", "title": "Agreement", "notebook": "toy/table_01.ipynb", "takes": []},
        "table_02": {"label": "Table 2", "title": "Not run", "takes": ["generator"]},
        "figure_01": {"label": "Figure 1", "title": "A sketch"},
    },
}  # fmt: skip
NUMBERS = """artefact,row,heading,dataset,metric,statistic,printed,unit,tolerance,needs,setting,read,cause,reason
table_01,Overlap <i>,,one,overlap,tau,20.88,%,0.01,,,table,,
table_01,Noise,,one,noise,tau,50.00,%,0.01,,,table,known,Measured here: 0.1. It is noise.
table_01,Judged,,one,judged,tau,41.20,%,0.01,judge,,table,,
"""


ROW = {"dataset": "one", "statistic": "tau", "n": 90, "dropped": 0, "signature": "impl:toy"}
ROWS = [
    ROW | {"metric": "overlap", "value": 0.208812345678, "low": 0.19, "high": 0.22},
    ROW | {"metric": "noise", "value": 0.1},
]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_run(place: Place) -> None:
    provenance = {"inputs": {"one": "sha256:aa"}}
    table = tidy_values(pd.DataFrame(ROWS), origin="measured", exact=True)
    write_values(place.read_from / "results" / "toy" / "table_01", table, provenance)
    (place.read_from / "figures" / "toy").mkdir(parents=True, exist_ok=True)
    Figure(figsize=(3, 2)).savefig(place.read_from / "figures" / "toy" / "table_01.png")
    wide = f"<table><tr>{'<td>wide_column</td>' * 30}</tr></table><img src='https://example.org/b.png'><script>alert(2)</script>"
    outputs = [
        v4.new_output("display_data", data={"text/html": wide}),
        v4.new_output("stream", name="stderr", text="/opt/some/where/module.py:3: Warning a/b\n"),
    ]
    cells = [
        v4.new_markdown_cell("# T\n\n$\\arg\\max_a$ $$y$$ <script>alert(1)</script> ![own](../figures/table_01.png)"),
        v4.new_code_cell(f'out = "{place.root}/build/x"', outputs=outputs),
    ]
    _write(place.notebooks / "toy" / "table_01.ipynb", nbformat.writes(v4.new_notebook(cells=cells)))


def _make_checkout(root: Path) -> Place:
    _write(root / "papers" / "toy.yml", json.dumps(PAPER))
    _write(root / "papers" / "toy.csv", NUMBERS)
    answer = v4.new_markdown_cell("**Answer.** Ours is < theirs.", metadata={"tags": ["answer"]})
    parameters = v4.new_code_cell('artefact = "toy/table_01"', metadata={"tags": ["parameters"]})
    _write(root / "notebooks" / "toy" / "table_01.ipynb", nbformat.writes(v4.new_notebook(cells=[answer, parameters])))
    place = find_place(root)
    _write_run(place)
    return place


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(_make_checkout(tmp_path_factory.mktemp("checkout"))).parent


def _open(site: Path, path: str) -> BeautifulSoup:
    return BeautifulSoup((site / path).read_text(encoding="utf-8"), "html.parser")


def _see(page: Any) -> str:
    return " ".join(page.get_text(" ").split())


def test_the_index_has_each_claim_with_its_verdicts_and_each_artefact_with_its_files(site: Path) -> None:
    page = _open(site, "index.html")
    # As published 0.2088 is below 0.5; ours, 0.2088 [0.19, 0.22], above 0.1; of judged there is none of ours.
    claims = {claim.strong.text: _see(claim) for claim in page.select(".claims li")}
    assert claims.keys() == {"Overlap beats noise.", "Judging < noise.", "Noise is loud."}
    assert "published numbers: not supported: 0 of 1" in claims["Overlap beats noise."]
    assert "Overlap <i>, one, tau: 0.2088; should lie above Noise, one, tau: 0.5" in claims["Overlap beats noise."]
    assert "measured here: supported: 1 of 1" in claims["Overlap beats noise."]
    assert "measured here: not tested; needs a language model as judge" in claims["Judging < noise."]
    assert "criterion: loud: above 0.9" in claims["Noise is loud."]
    counts = [_see(row) for row in page.select("table tbody tr")]
    assert counts == ["published numbers 0 2 0 0", "measured here 1 0 0 1", "proxy 0 0 0 2"]
    rows = [_see(row) for row in page.select(".artefacts li")]
    assert "Table 1 Agreement Ours is < theirs." in rows[0]
    assert "Not run: it needs generator." in rows[1]
    assert rows[2].strip() == "Figure 1 A sketch"


def test_links_lead_somewhere_and_a_page_runs_nothing(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert [page.name for page in pages] == ["index.html", "table_01.html"]
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert str(site.parents[1]) not in text, path
        for tag in BeautifulSoup(text, "html.parser")(["a", "img"]):
            target = tag.get("href") or tag["src"]
            assert (path.parent / target).is_file() or target.startswith(("#", "data:", "https:")), target
    notebook = _open(site, "toy/table_01.html")
    assert "default-src 'none'" in notebook.find("meta", {"http-equiv": "Content-Security-Policy"})["content"]
    assert not notebook("script", src=True)
    assert len(notebook("math")) == 2
    index = (site / "index.html").read_text(encoding="utf-8")
    assert [part for part in ("<b>two", "<i>") if part in index] == []


def test_failed_build_names_the_file_and_leaves_the_old_site(tmp_path: Path) -> None:
    place = _make_checkout(tmp_path)
    before = build_site(place).read_bytes()
    (tmp_path / "results/toy/table_01.csv").write_text("[]")
    with pytest.raises(ValueError, match=r"table_01\.csv"):
        build_site(place)
    assert (place.site / "index.html").read_bytes() == before
    assert not list(place.work.glob(".site.*"))


def test_other_runs_are_marked_partial(tmp_path: Path) -> None:
    _make_checkout(tmp_path)
    place = find_place(tmp_path, profile="quick")
    _write_run(place)
    build_site(place)
    for path in place.site.rglob("*.html"):
        assert "Partial" in _see(_open(place.site, str(path)))


@pytest.mark.slow
def test_pages_fit_and_stay_local(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    executable = shutil.which("chromium")
    if not executable:
        pytest.fail("no chromium") if os.environ.get("NFQA_REQUIRE_BROWSER") else pytest.skip("no chromium on PATH")
    requests: list[Any] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--headless", "--no-sandbox"])
        for width in (375, 1400):
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.on("request", lambda request: requests.append(request))
            for path in ("index.html", "toy/table_01.html"):
                page.goto(f"{site.as_uri()}/{path}")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
            page.close()
        browser.close()
    sent = [request for request in requests if not request.url.startswith(("file:", "data:"))]
    assert {request.failure for request in sent} == {"csp"}, "the page's policy blocks the picture from elsewhere"
