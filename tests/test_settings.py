"""The papers' settings beside ours: read from where they stand, and the page up to date."""

from __future__ import annotations

import pytest
from conftest import PROJECT

from tools.settings_page import make_page, read_ours

REGISTER = (PROJECT / "papers" / "settings.csv").read_text()


def test_the_page_is_as_the_code_is() -> None:
    page = (PROJECT / "docs" / "settings.md").read_text()
    assert page == make_page(PROJECT, REGISTER), "run `python -m tools.settings_page`"


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("", ""),
        ("nfqa.models.chat:Decoding.temperature", "0.8"),
        ("reproduction.studies.drawing:find_own_list(trec_dl_nf)", "3, 2, 1, 0"),
        ("linkage/table_08:dataset", "antique"),  # of its entry, before the notebook's own
        ("prompts/own:direct_score.lowest+highest", "1, 5"),
        ("results/linkage/table_01:n of dataset == 'antique' and statistic == 'questions'", "500"),
    ],
)
def test_ours_is_read_from_where_it_stands(place: str, value: str) -> None:
    assert read_ours(PROJECT, place) == value
