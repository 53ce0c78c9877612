"""Where documents are from: the domain of an address, and whether it is one that DebateQA trusts."""

from __future__ import annotations

import pandas as pd

TRUSTED = ("edu", "gov", "info", "org", "pro")  # those that the text of DebateQA names; its Table 10 may list more
# Suffixes under which only institutions can register as a rule, and which TRUSTED leaves out: .gov.uk, .ac.jp, .int.
INSTITUTIONS = r"(?:^|\.)(?:ac|edu|gc|go|gob|gouv|gov|mil|nhs)\.|^(?:int|mil)$"


def add_domains(documents: pd.DataFrame) -> pd.DataFrame:
    """The documents with domain, suffix and trusted.

    domain is the registered domain in lower case ("parliament.uk"), or the host where it has none
    (an IP address); "" without an address. suffix is its public suffix, such as "org" or "co.uk",
    "" without one. trusted says whether the suffix is one of TRUSTED, so that "gov.uk" is not
    trusted where "gov" is.

    Differs from: a test of an address's ending, which takes https://shop.com/terms.org for one
        under .org, and https://example.org.uk or https://gov.evil.com for none or one, depending on
        how it is written.
    Source: DebateQA, section 3.2 and Table 10; suffixes by the public suffix list that tldextract
        carries.
    """
    from tldextract import TLDExtract

    extract = TLDExtract(suffix_list_urls=(), cache_dir=None)  # the bundled list: nothing is fetched or written
    parts = [extract(address.strip()) for address in documents.address]
    domains = [(part.top_domain_under_public_suffix or part.domain).lower() for part in parts]
    suffixes = [part.suffix.lower() for part in parts]
    return documents.assign(domain=domains, suffix=suffixes, trusted=[suffix in TRUSTED for suffix in suffixes])
