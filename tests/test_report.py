"""The report site, built from a small made-up checkout: what its pages say, and how they behave in a browser.

The browser tests skip where Chromium or playwright is missing; with NFQA_REQUIRE_BROWSER set they fail instead.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import matplotlib
import nbformat
import pytest
import yaml
from nbformat import v4

from nfqa.data.paths import Place, find_place
from nfqa.lab.report import build_site
from nfqa.lab.source_pages import KernelFinder

matplotlib.use("Agg")
import matplotlib.pyplot as plt

KERNEL = "nfqa.kernels.toy:score"
PAPER = {
    "paper": "toy",
    "title": "A paper with <b>two</b> things & more",
    "source": "somewhere",
    "systems": {
        "overlap": {"title": "Overlap <i>"}, "noise": {"title": "Noise"},
        "judged": {"title": "Judged", "needs": ["judge"]},
    },
    "artefacts": {
        "table_01": {
            "label": "Table 1", "title": "Agreement", "claim": "Judging wins.", "note": "Printed in percent.",
            "notebook": "notebooks/toy/table_01.ipynb", "decimals": 2, "scale": 100,
            "leaves": {
                "overlap": {"one": {"tau": "20.88", "rho": "9.50"}, "two": {"tau": "30.10"}},
                "noise": {"one": {"tau": "50.00"}},
                "judged": {"one": {"tau": "41.20"}},
            },
            "known_differences": [{"system": "noise", "reason": "It is noise."}],
        },
        "figure_01": {"label": "Figure 1", "title": "A sketch", "notebook": None},
    },
}  # fmt: skip


def _row(system: str, dataset: str, metric: str, value: float | None, **more: Any) -> dict[str, Any]:
    row = {"system": system, "dataset": dataset, "metric": metric, "value": value, "n": 90, "kernels": [KERNEL]}
    return {**row, "signature": f"{system}|impl:toy|v1", "origin": "measured", **more}


ROWS = [
    _row("overlap", "one", "tau", 0.20881234567, ci_low=0.19, ci_high=0.22, seeds=[0, 1], spread=0.0123),
    _row("overlap", "one", "rho", 0.101, n_dropped=7, dropped_because={"constant": 5, "short": 2}),
    _row("overlap", "two", "tau", 0.25),
    _row("noise", "one", "tau", 0.1),
    _row("embedded", "one", "tau", 0.3333),
]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _write_run(place: Place, rows: list[dict[str, Any]]) -> None:
    provenance = {"inputs": {"one": "sha256:aa"}, "code": "sha256:bb", "roles": {}, "packages": {"numpy": "2"}}
    result = {"artefact": "toy/table_01", "rows": rows, "findings": ["Ours is < theirs."], "provenance": provenance}
    _write(place.results / "toy" / "table_01.json", json.dumps(result))
    figure, axes = plt.subplots(figsize=(3, 2))
    axes.plot([1, 2])
    path = place.figures / "toy" / "table_01.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
    plt.close(figure)
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


def _entry(site: Path, anchor: str, page: str = "pages/toy/table_01.html") -> str:
    match = re.search(rf'<tbody[^>]* id="{anchor}".*?</tbody>', _read(site, page), re.DOTALL)
    assert match, f"no row {anchor}"
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", match[0])).split())


def test_index_counts_every_published_number(site: Path) -> None:
    text = " ".join(re.sub(r"<[^>]+>", " ", _read(site, "index.html")).split())
    # 5 leaves: overlap/one/tau equal (0.208812 rounds to 0.2088); rho 0.101 against 0.095 is 0.006 off: near;
    # overlap/two differs by 0.051; noise differs for a listed reason; judged is not run. 5 rows of ours.
    assert "5 published numbers, 4 of them compared with ours; 5 numbers measured here" in text
    assert "= equal 1 ≈ near 1 ≠ differs 1 † differs, known 1 ○ not run 1 + ours only 1" in text
    assert text.index("Table 1") < text.index("Figure 1")
    assert "rest needs: judge" in text
    assert "no numbers to run" in text


@pytest.mark.parametrize(
    ("anchor", "words"),
    [
        ("overlap-one-tau", ["20.88", "0.2088 ", "0.1900 to 0.2200", "0.20881234567", "equal", "Seeds 0, 1"]),
        ("overlap-one-rho", ["9.50", "0.1010", "near", "7 dropped", "7: constant 5, short 2", "+0.0060, within 0.01"]),
        ("overlap-two-tau", ["≠ differs", "-0.0510, no reason listed"]),
        ("noise-one-tau", ["† differs, known", "It is noise."]),
        ("judged-one-tau", ["41.20", "○ not run", "needs: judge"]),
        ("embedded-one-tau", ["not printed", "0.3333", "+ ours only", "embedded|impl:toy|v1", "toy.score"]),
    ],
)
def test_row_says_all_that_belongs_to_it(site: Path, anchor: str, words: list[str]) -> None:
    text = _entry(site, anchor)
    assert [word for word in words if word not in text] == []


def test_links_lead_to_files_and_anchors_of_the_site(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == 7  # index, two artefacts, a notebook, a source file, and the sample's artefact and notebook
    for page in pages:
        for link in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            if link.startswith("data:"):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.is_file(), f"{page.name}: {link}"
            assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8"), f"{page.name}: {link}"
    assert "source/nfqa/kernels/toy.py.html#L6" in _read(site, "pages/toy/table_01.html")


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


def test_missing_notebook_is_said(tmp_path: Path) -> None:
    place, _ = _make_checkout(tmp_path)
    (place.notebooks / "toy" / "table_01.ipynb").unlink()
    build_site(place)
    assert "was not run on this machine" in _read(place.site, "pages/toy/table_01.html")


def test_sample_values_stand_apart(site: Path) -> None:
    assert "0.77" not in _read(site, "pages/toy/table_01.html")
    assert "◇ sample" in _entry(site, "overlap-one-tau", "sample/pages/toy/table_01.html")
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
    ("wrong", "message"),
    [
        ({"kernels": ["nfqa.kernels.toy:gone"]}, "row overlap one tau: kernel 'nfqa.kernels.toy:gone'"),
        ({"kernels": ["nfqa.nowhere:x"]}, "no module nfqa.nowhere"),
        ({"kernels": ["toy"]}, "expected MODULE:FUNCTION"),
        ({"origin": "sample"}, "origin 'sample'; expected 'measured'"),
    ],
)
def test_failed_build_says_why_and_leaves_the_old_site(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    place, _ = _make_checkout(tmp_path)
    build_site(place)
    before = _read(place.site, "index.html")
    _write_run(place, [_row("overlap", "one", "tau", 0.2, **wrong)])
    with pytest.raises(ValueError, match=re.escape(message)):
        build_site(place)
    assert _read(place.site, "index.html") == before
    assert not list(place.work.glob(".site.*"))


def test_stray_results_file_is_refused(tmp_path: Path) -> None:
    place, _ = _make_checkout(tmp_path)
    _write(place.results / "toy" / "table_99.json", "{}")
    with pytest.raises(ValueError, match=r"papers/toy\.yml has no table_99"):
        build_site(place)


def test_file_that_is_no_notebook_is_refused_halfway(tmp_path: Path) -> None:
    place, _ = _make_checkout(tmp_path)
    _write(place.notebooks / "toy" / "table_01.ipynb", "not json")
    with pytest.raises(ValueError, match=r"table_01\.ipynb: not a notebook"):
        build_site(place)
    assert not place.site.exists()
    assert not list(place.work.glob(".site.*"))


def test_kernels_are_found_in_classes_and_packages(tmp_path: Path) -> None:
    _write(tmp_path / "src/pack/__init__.py", "class Thing:\n    @property\n    def size(self):\n        return 1\n")
    assert KernelFinder(tmp_path).find("pack:Thing.size", wanted_by="row").line == 3


# In the browser

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
PAGES = ("index.html", "pages/toy/table_01.html", "notebooks/toy/table_01.html", "source/nfqa/kernels/toy.py.html#L6")
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


@pytest.mark.parametrize("width", [375, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_are_readable_and_stay_local(site: Path, browser: Any, width: int, scheme: str) -> None:
    for path in (*PAGES, "sample/pages/toy/table_01.html"):
        size = {"width": width, "height": 800}
        page, faults = _open(browser, f"{site.as_uri()}/{path}", viewport=size, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        page.evaluate("document.querySelectorAll('[data-open-all]').forEach((e) => e.click())")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        contrast, where = page.evaluate(LOWEST_CONTRAST)
        assert contrast >= 4.5, f"{path}: {where}"
        pictures = "[...document.images].every((image) => image.loading === 'lazy' || image.naturalWidth > 0)"
        assert page.evaluate(pictures), path
        assert faults == [], path
        page.close()


@pytest.mark.parametrize("width", [375, 1400])
def test_table_sorts_by_click_and_by_key(site: Path, browser: Any, width: int) -> None:
    url = f"{site.as_uri()}/pages/toy/table_01.html"
    page, _ = _open(browser, url, viewport={"width": width, "height": 800})
    read = "[...document.querySelectorAll('.entry .published')].map((cell) => cell.textContent)"
    paper = ["20.88", "9.50", "30.10", "50.00", "41.20", "not printed"]
    assert page.evaluate(read) == paper
    button = page.get_by_role("button", name="Published")
    header = page.locator("th", has=button)
    button.click()
    # As text 9.50 would come last; what isn't printed stays at the end.
    assert page.evaluate(read) == ["9.50", "20.88", "30.10", "41.20", "50.00", "not printed"]
    assert header.get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(read) == ["50.00", "41.20", "30.10", "20.88", "9.50", "not printed"]
    assert header.get_attribute("aria-sort") == "descending"
    page.keyboard.press("Space")
    assert page.evaluate(read) == paper
    assert header.get_attribute("aria-sort") is None


def test_rows_open_and_filters_narrow(site: Path, browser: Any) -> None:
    page, _ = _open(browser, f"{site.as_uri()}/pages/toy/table_01.html")
    row = page.locator("#overlap-one-tau")
    details, toggle = row.locator("tr.more"), row.locator("button.toggle")
    assert not details.is_visible()
    toggle.press("Enter")
    assert details.is_visible()
    assert toggle.get_attribute("aria-expanded") == "true"
    page.get_by_label("Verdict").select_option("not-run")
    assert page.locator("tbody.entry:visible").count() == 1
    page.goto(f"{site.as_uri()}/index.html")
    page.get_by_label("Text").fill("sketch")
    assert page.locator("[data-item]:visible").count() == 1
    page.get_by_text("A sketch").click()
    assert page.get_by_role("link", name="All of Figure 1").is_visible()


def test_pages_read_without_script(site: Path, browser: Any) -> None:
    page, _ = _open(browser, f"{site.as_uri()}/pages/toy/table_01.html", java_script_enabled=False)
    assert page.locator("tr.more:visible").count() == 6
    assert page.locator("form:visible, button:visible").count() == 0
