"""How the report's pages are written: their templates, and what numbers, needs, cells and links look like in them."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import jinja2
from markupsafe import Markup, escape

from nfqa.lab.compare import NO_NUMBER

_ARXIV = re.compile(r"arXiv[: ]?(\d{4}\.\d{4,5})")
_ROLES = {"judge": "an LLM judge", "generator": "an LLM generator", "evaluator": "a causal language model",
          "embedder": "a sentence encoder"}  # fmt: skip
_HERE = Path(__file__).parent / "site"


def write_number(value: float | None, *beside: float, sign: Literal["", "+"] = "") -> str:
    """A number to read: four significant digits from 1 on, four decimals below, so few that those `beside` fit."""
    if value is None or math.isnan(value):
        return ""
    size = max(map(abs, (value, *beside)))
    places = max(0, 4 - len(f"{size:.0f}")) if size >= 1 else 4
    whole = size >= 1 and all(number == round(number) for number in (value, *beside))
    form = f"{sign}.1e" if 0 < size < 0.00005 else f"{sign}.{0 if whole else places}f"
    return re.sub("^-", "−", f"{value:{form}}")


def say_needs(words: Iterable[str]) -> str:
    """What is needed, in words: parts that hold a comma themselves are joined by semicolons."""
    named = [_ROLES.get(word, word) for word in words]
    mark = ";" if any("," in word for word in named) else ","
    *first, last = named or [""]
    return f"{f'{mark} '.join(first)}{';' if mark == ';' else ''} and {last}" if first else last


def mark_cell(cell: str) -> str:
    """A cell of the paper's table as HTML: our value, its interval and the published value, a line each.

    The site's sign of a stand-in is in the place of the asterisk.
    """
    ours, _, published = str(escape(cell)).partition("\n")
    value, bracket, interval = ours.partition("[")
    own = value and f"<b>{value.strip().replace('*', ' ⇄')}</b>"
    lines = [own, bracket + interval, f"¶ {published}" if published not in ("", NO_NUMBER) else ""]
    return "\n".join(filter(None, lines))


def slug(word: str) -> str:
    """A word as the name of a class in HTML."""
    return re.sub(r"\W+", "-", word)


def _link_arxiv(text: str) -> Markup:
    """Text with its arXiv ids as links, the one outside address that pages name."""
    return Markup(_ARXIV.sub(r'<a href="https://arxiv.org/abs/\1">arXiv \1</a>', str(escape(text))))  # noqa: S704


def open_templates(**names: object) -> jinja2.Environment:
    """Templates with style and script in every page, so that a page needs no other file to be read."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    script = (_HERE / "site.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment.filters.update(
        slug=slug,
        arxiv=_link_arxiv,
        number=write_number,
        needs=say_needs,
        short=lambda paper: paper.title.partition(":")[0],
    )
    environment.globals.update(
        style=Markup((_HERE / "site.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own file
        # Only our own script runs, and nothing is fetched, whatever a notebook's output holds.
        policy="default-src 'none'; form-action 'none'; img-src 'self' data: file:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'",
        **names,
    )
    return environment
