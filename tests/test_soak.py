"""The soak test in short."""

from __future__ import annotations

from pathlib import Path

import pytest
from soak import storm_askers


@pytest.mark.slow
@pytest.mark.monthly  # as `make soak`, with fewer calls
def test_processes_killed_at_random_moments_lose_nothing_and_pay_no_more_than_what_was_in_flight(
    tmp_path: Path,
) -> None:
    found = storm_askers(tmp_path / "askers", calls=600, kills=10, seed=1)
    assert not found.broken, found
    assert found.kills == 10
    assert found.kept > 400
