"""Where documents are from: domains, and trusted addresses."""

from __future__ import annotations

import pandas as pd
import pytest

from reproduction.debates.domains import add_domains


@pytest.mark.parametrize(
    ("address", "domain", "suffix", "trusted"),
    [
        ("https://www.example.org/a?b=c.com", "example.org", "org", True),
        ("http://data.census.gov:8080/", "census.gov", "gov", True),
        ("https://gov.evil.com/", "evil.com", "com", False),
        ("https://www.parliament.gov.uk/", "parliament.gov.uk", "gov.uk", False),
        ("https://müller.org/", "müller.org", "org", True),
        ("http://10.0.0.1/x.org", "10.0.0.1", "", False),
        ("http://[2001:db8::1]/", "[2001:db8::1]", "", False),
        ("http://localhost/a.org", "localhost", "", False),
        ("https://user:pass@host.edu/", "host.edu", "edu", True),
        ("", "", "", False),
    ],
)
def test_an_address_is_trusted_by_its_public_suffix(address: str, domain: str, suffix: str, trusted: bool) -> None:
    row = add_domains(pd.DataFrame({"address": [address]})).iloc[0]
    assert (row.domain, row.suffix, bool(row.trusted)) == (domain, suffix, trusted)
