"""The searcher role: documents for queries, from a local collection or from the web, behind one small interface."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pandas as pd

from nfqa.debates.domains import TRUSTED, add_domains
from nfqa.debates.pages import explain_missing, fetch_pages
from nfqa.debates.pipeline import Search, search_collection
from nfqa.debates.web_search import FOUND, GoogleSearch
from nfqa.models.roles import parse_role

if TYPE_CHECKING:
    from nfqa.models.embed import Embedder


class Searcher(Protocol):
    """What fills the role. search gives: query, rank (from 1), address, title and text (a snippet, or all there is)."""

    def search(self, queries: Sequence[str], *, top: int) -> pd.DataFrame:
        """The first `top` results of each query."""
        ...


class LocalSearch:
    """The collection that `search_collection` searches, behind the interface of the role.

    Args: documents: document and text; address and title, "" where there are none.
    """

    def __init__(self, documents: pd.DataFrame, embedder: Embedder) -> None:
        self._documents = documents.assign(
            **{name: documents.get(name, pd.Series("", documents.index)) for name in ("address", "title")}
        )
        self._embedder = embedder

    def search(self, queries: Sequence[str], *, top: int) -> pd.DataFrame:
        """As `Searcher` has it, with the whole document as its text, and document."""
        asked = pd.DataFrame({"id": list(dict.fromkeys(queries))})
        by_query = (asked.assign(question=asked.id), asked.assign(query=asked.id))  # each query a question of its own
        found, _ = search_collection(*by_query, self._documents, self._embedder, top=top)
        return found.rename(columns={"id": "query"})[[*FOUND, "document"]]


def open_searcher(
    spec: str, *, documents: pd.DataFrame | None = None, embedder: Embedder | None = None, cache: Path | None = None
) -> Searcher:
    """The searcher of a role spec: `embedded:local` over `documents`, or `search:google`.

    Raises: ValueError for another spec, a local one without documents and embedder, or a service without its key.
    """
    if parse_role("searcher", spec).kind == "search":
        return GoogleSearch(cache)
    if documents is None or embedder is None:
        raise ValueError(f"{spec} searches a collection; name a folder of texts, or a service, as in search:google")
    return LocalSearch(documents, embedder)


def search_pages(
    searcher: Searcher,
    *,
    top: int = 10,
    trusted: Collection[str] = TRUSTED,
    every: bool = False,
    cache: Path | None = None,
    **how: Any,
) -> Search:
    """A search that brings pages' texts, as `nfqa.debates.pipeline.search_web` takes it.

    A page of a domain that is not trusted is not fetched, unless `every` is. Of each page that brings no text, missing
    says why. how: as `fetch_pages` has it.
    """

    def search(queries: Sequence[str]) -> pd.DataFrame:
        found = add_domains(searcher.search(queries, top=top)[FOUND], trusted=trusted)
        found = found.assign(document=found.address)
        kept = found.trusted | every
        pages = fetch_pages(found[kept].drop_duplicates("address"), cache=cache, **how).set_index("address")
        read = {name: found.address.map(pages[name]) for name in ("text", "missing")}
        found = found.assign(text=read["text"].fillna(""), missing=read["missing"].fillna("domain not trusted"))
        found = found.assign(detail=found.missing.map(explain_missing))
        return found[["query", "rank", "document", "address", "title", "text", "missing", "detail"]]

    return search
