"""The time that a run is said to need is the time that it needs, on slower and faster machines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from math import inf

import numpy as np
import pytest
from conftest import PROJECT

from reproduction.keys import Target
from reproduction.options import RunOptions
from reproduction.papers import list_chosen
from reproduction.runner import Progress, estimate_left, order_targets

EMBEDDING = 360.0  # the seconds that a first run is expected to embed for


@pytest.fixture(scope="module")
def targets() -> list[Target]:
    """Every artefact as on a machine on which none was run, in the order in which they start."""
    options = RunOptions(data="full", profile="full")
    return order_targets([Target(paper, name, options) for paper, name in list_chosen(PROJECT)])


@dataclass
class Run:
    """A run by a clock of its own: each part needs as many seconds as `needs` says."""

    expected: Mapping[str, float]
    needs: Mapping[str, float]
    reads: Mapping[str, set[str]]
    jobs: int
    step: float  # seconds between two looks
    embedding: float  # the seconds that it needs; EMBEDDING are expected
    ended: list[str] = field(default_factory=list)
    began: dict[str, float] = field(default_factory=dict)

    def pass_time(self) -> Iterator[tuple[float, float]]:
        """The seconds that have passed and those that are left by the estimate, until all has ended."""
        now = 0.0
        while len(self.ended) < len(self.needs):
            share = min(now / self.embedding, 1.0) if self.embedding else 1.0
            if share == 1.0:
                self._begin(now)
            yield now, self._estimate(now, share)
            now += self.step
            self.ended += [name for name in self._running if self.began[name] + self.needs[name] <= now]

    @property
    def _running(self) -> list[str]:
        return [name for name in self.began if name not in self.ended]

    def _begin(self, now: float) -> None:
        for name in self.expected:
            is_ready = self.reads[name] <= {*self.ended} and name not in self.began
            if is_ready and len(self._running) < self.jobs:
                self.began[name] = now

    def _estimate(self, now: float, share: float) -> float:
        done = [(self.expected[name], self.needs[name]) for name in self.ended]
        done += [(share * EMBEDDING, share * self.embedding)] if self.embedding else []
        running = {name: (self.expected[name], now - self.began[name]) for name in self._running}
        waiting = {name: seconds for name, seconds in self.expected.items() if name not in self.began}
        first = (1 - share) * EMBEDDING if self.embedding else 0.0
        return estimate_left(done, running, waiting, self.reads, jobs=self.jobs, first=first)


def make_run(targets: list[Target], speed: float, *, noise: float = 0.0, jobs: int = 2, embeds: bool = True) -> Run:
    """A run on a machine that takes `speed` times as long as expected, each part with its own deviation."""
    names = {target.identifier for target in targets}
    expected = {target.identifier: target.seconds for target in targets}
    factors = speed * np.exp(noise * np.random.default_rng(3).standard_normal(len(targets)))
    needs = {name: seconds * factor for (name, seconds), factor in zip(expected.items(), factors, strict=True)}
    reads = {target.identifier: target.reads & names for target in targets}
    return Run(expected, needs, reads, jobs, step=6 * speed, embedding=speed * EMBEDDING * embeds)


def measure_errors(run: Run) -> tuple[list[float], list[float]]:
    """At every moment the part of the time that has passed, and by what part the predicted total is wrong."""
    passed, left = np.array([*run.pass_time()]).T
    total = passed[-1] + run.step
    return list(passed / total), list(np.abs((passed + left) / total - 1))


@pytest.mark.parametrize("speed", [0.5, 1.0, 3.0])
@pytest.mark.parametrize(("noise", "jobs"), [(0.0, 2), (0.0, 1), (0.0, 4), (0.1, 2)])
def test_the_predicted_total_is_right_within_a_quarter_from_a_tenth_on(targets, speed, noise, jobs) -> None:
    parts, errors = measure_errors(make_run(targets, speed, noise=noise, jobs=jobs))
    assert max(error for part, error in zip(parts, errors, strict=True) if part > 0.1) < 0.25


def test_without_an_embedding_last_times_hold_from_the_start(targets: list[Target]) -> None:
    _, errors = measure_errors(make_run(targets, 1.0, embeds=False))
    assert max(errors) < 0.1


@pytest.mark.parametrize("speed", [0.5, 3.0])
def test_without_an_embedding_another_speed_is_known_once_something_ended(targets, speed) -> None:
    run = make_run(targets, speed, embeds=False)
    moments = [(passed, left, len(run.ended)) for passed, left in run.pass_time()]
    total = moments[-1][0]
    passed, left, _ = next(moment for moment in moments if moment[2] == 2)
    assert abs((passed + left) / total - 1) < 0.25


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


def test_the_longest_chain_starts_first(targets: list[Target]) -> None:
    names = [target.identifier for target in targets]
    assert all(names.index(read) < names.index(target.identifier) for target in targets for read in target.reads)
    chains = {name: target.seconds for name, target in zip(names, targets, strict=True)}
    for target in reversed(targets):
        for read in target.reads:
            before = targets[names.index(read)].seconds
            chains[read] = max(chains[read], before + chains[target.identifier])
    assert list(chains.values()) == sorted(chains.values(), reverse=True)
    assert any(chains[target.identifier] > target.seconds for target in targets)
    seconds = [target.seconds for target in targets]
    assert seconds.index(min(seconds)) > len(seconds) / 3


def test_where_no_one_watches_a_line_each_30_seconds_tells_percent_elapsed_left_and_what_runs(
    targets: list[Target], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    one = [target for target in targets if target.name == "sensitivity"]
    characters = round(EMBEDDING * 2 / 1e-4)
    with closing(Progress(one, jobs=1)) as progress:
        for share in np.linspace(0, 1, 25):
            now = 1000 + EMBEDDING * share
            progress.show_embedding(round(characters * share), characters)
        progress.start("debateqa/sensitivity")
        for _ in range(round(one[0].seconds)):
            now += 1
            progress.show("sensitivity")
    lines = capsys.readouterr().err.splitlines()
    total = EMBEDDING + one[0].seconds
    assert len(lines) == total // 30
    for number, line in enumerate(lines, 1):
        percent, passed, left, what = re.fullmatch(r"(\d+) % after ([\d:]+), about ([\d:]+) left: (.*)", line).groups()
        assert read_clock(passed) == number * 30
        assert abs(read_clock(passed) + read_clock(left) - total) <= 0.05 * total
        assert abs(int(percent) - 100 * number * 30 / total) <= 5
        assert what == ("embedding texts" if number * 30 <= EMBEDDING else "sensitivity")


def read_clock(text: str) -> int:
    """The seconds that a text such as "1:02:03" says."""
    parts = [int(part) for part in text.split(":")]
    return sum(part * 60**place for place, part in enumerate(reversed(parts)))


def test_a_part_of_unknown_time_is_told(targets: list[Target]) -> None:
    asked = [target for target in targets if "judge" in target.artefact.roles][:1]
    options = RunOptions(data="full", profile="full", roles={"judge": "hf:gpt2"})
    unknown = [Target(target.paper, target.name, options) for target in asked]
    assert unknown[0].seconds == inf
    assert Progress(unknown, jobs=2).describe() == "at least 01:00"
    assert Progress(asked, jobs=2).describe().startswith("about ")
