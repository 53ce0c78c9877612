"""Which addresses a rule on top-level domains trusts."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    from tldextract import TLDExtract

TRUSTED = ("edu", "gov", "info", "org", "pro")  # those that the text of DebateQA names; its Table 10 may list more
# Suffixes under which only institutions can register as a rule, and which TRUSTED leaves out: .gov.uk, .ac.jp, .int.
INSTITUTIONS = r"(?:^|\.)(?:ac|edu|gc|go|gob|gouv|gov|mil|nhs)\.|^(?:int|mil)$"


def add_domains(documents: pd.DataFrame, *, trusted: Collection[str] = TRUSTED) -> pd.DataFrame:
    """The documents with domain, suffix and trusted.

    domain is the registered domain in lower case ("parliament.uk"), or the host where it has none (an IP address); ""
    without an address. suffix is its public suffix, such as "org" or "co.uk", "" without one. trusted tells whether the
    suffix is one of `trusted`, so that "gov.uk" is not trusted where "gov" is.

    Differs from: a test of an address's ending, which takes https://shop.com/terms.org for one under .org, and
        https://example.org.uk or https://gov.evil.com for none or one, depending on how it is written.
    Source: DebateQA, section 3.2 and Table 10; suffixes by the public suffix list that tldextract carries.
    """
    parts = [_open_extractor()(address.strip()) for address in documents.address]
    suffixes = [part.suffix.lower() for part in parts]
    domains = [(part.top_domain_under_public_suffix or part.domain).lower() for part in parts]
    known = [suffix in trusted for suffix in suffixes]
    return documents.assign(domain=domains, suffix=suffixes, trusted=known)


@cache
def _open_extractor() -> TLDExtract:
    from tldextract import TLDExtract

    return TLDExtract(suffix_list_urls=(), cache_dir=None)  # the bundled list: nothing is fetched, nothing is written
