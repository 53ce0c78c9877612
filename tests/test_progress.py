"""The time that a run is said to need is the time that it needs, on slower and faster machines."""

from __future__ import annotations

from math import inf

import pytest
from conftest import PROJECT

from reproduction.keys import Target
from reproduction.options import RunOptions
from reproduction.papers import list_chosen
from reproduction.runner import Progress, estimate_left, order_targets


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    """Every artefact as on a machine on which none was run, in the order in which they start."""
    options = RunOptions(data="full", profile="full")
    return order_targets([Target(paper, name, options) for paper, name in list_chosen(PROJECT)])


def test_time_left_by_hand() -> None:
    reads: dict[str, set[str]] = {name: set() for name in "abcd"}
    assert estimate_left([], {}, {}, {}, jobs=2) == 0
    assert estimate_left([], {}, {"a": 60, "b": 40, "c": 30}, reads, jobs=2) == 70  # c after b
    assert estimate_left([], {}, {"a": 60, "b": 40, "c": 30}, reads, jobs=1) == 130
    assert estimate_left([], {}, {"a": 60, "b": 40, "c": 30}, reads | {"b": {"a"}, "c": {"b"}}, jobs=2) == 130
    assert estimate_left([], {"a": (60, 20)}, {"b": 10}, reads, jobs=2) == 40
    assert estimate_left([], {"a": (60, 20)}, {"b": 10}, reads, jobs=1) == 50
    assert estimate_left([], {}, {"a": 60}, reads, jobs=2, first=100) == 160
    # 30 seconds at the expected speed stand beside 300 that took 630: twice as slow
    assert estimate_left([(300, 630)], {}, {"a": 60}, reads, jobs=2) == 120
    # what is overdue says so before it ends, (30 + 300) / (30 + 80) = 3, and needs a twentieth of its time still
    assert estimate_left([], {"a": (80, 300)}, {"b": 60}, reads, jobs=1) == pytest.approx(15 + 180)


def test_a_part_of_unknown_time_is_told(targets: list[Target]) -> None:
    asked = [target for target in targets if "judge" in target.artefact.roles][:1]
    options = RunOptions(data="full", profile="full", roles={"judge": "hf:gpt2"})
    unknown = [Target(target.paper, target.name, options) for target in asked]
    assert unknown[0].seconds == inf
    assert Progress(unknown, jobs=2).describe() == "at least 01:00"
    assert Progress(asked, jobs=2).describe().startswith("about ")
