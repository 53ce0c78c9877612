"""Rows of the tables that ask a language model, on the bundled sample, with a judge that answers by rule."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from nfqa.lab import judging
from nfqa.lab.experiments.language import (
    describe_language_model,
    measure_language_model,
)
from nfqa.lab.judged import JudgedLab, open_lab
from nfqa.lab.results import Row
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

Answer = Callable[[Request], str]


def answer_by_rule(request: Request) -> str:
    """A verdict in range that hangs on prompt and seed alone; a text where one is to be written."""
    number = int.from_bytes(hashlib.sha256(f"{request.seed}{request.prompt}".encode()).digest()[:4], "big")
    if request.labels:
        return f"[[{request.labels[number % len(request.labels)]}]]"
    return "Answer1: It is so, more or less.\nAnswer2: It may be so.\nAnswer3: Blue is a colour."


class RuleModel:
    """A language model that answers by rule, in process."""

    template = "rule"

    def __init__(self, spec: RoleSpec, answer: Answer) -> None:
        self.identity = spec.identity
        self.answer_one = answer

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        for number, request in enumerate(requests):
            if decoding.reading == "logits":
                logprobs = tuple(float(-1 - i) for i in range(len(request.labels)))
                yield number, Reply("", 10, 0, "logits", 0.0, logprobs)
            else:
                yield number, Reply(self.answer_one(request), 10, 2)

    def close(self) -> None:
        pass


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Answer], None]:
    """Fill every language model's place by a rule."""
    monkeypatch.setenv("NFQA_JOURNAL", str(tmp_path / "journal.sqlite"))

    def put(answer: Answer) -> None:
        monkeypatch.setattr(judging, "open_model", lambda spec, journal: RuleModel(spec, answer))

    put(answer_by_rule)
    return put


def open_sample(name: str, tmp_path: Path, *, judge: str = "openai:any", **given: object) -> JudgedLab:
    asking = {"prompts": "own", **given.pop("asking", {})}  # type: ignore[dict-item]
    return open_lab(f"linkage/{name}", data="sample", judge=judge, asking=asking, out=str(tmp_path), **given)  # type: ignore[arg-type]


def measure(lab: JudgedLab, dataset: str) -> list[Row]:
    return measure_language_model(lab, lab.load(dataset), resamples=50)


TABLES = ["table_07", "table_08"]


@pytest.mark.parametrize("name", TABLES)
def test_every_published_row_that_needs_a_judge_has_its_like_for_the_judge_at_hand(name, model, tmp_path):
    lab = open_sample(name, tmp_path)
    rows = []
    for dataset in dict.fromkeys(d for sets in lab.artefact.leaves.values() for d in sets):
        rows += measure(lab, dataset)
    found = {row.key: row for row in rows}
    wanted = {
        (re.sub("_(mistral|chatgpt)", "_judge", leaf.system), f"sample_{leaf.dataset}", leaf.metric)
        for leaf in lab.leaves()
        if lab.paper.systems[leaf.system].judged
    }
    assert wanted
    assert wanted <= set(found)
    assert all(row.value is not None for key, row in found.items() if key in wanted)
    assert {row.origin for row in rows} == {"sample"}
    shares = [row for row in rows if row.metric == "missing_verdicts"]
    assert len(shares) == len({row.key[:2] for row in rows})
    assert all(row.value == 0 and row.n and row.n > 0 for row in shares)


def test_a_verdict_that_cannot_be_read_is_missing_and_counted_and_never_a_default(model, tmp_path):
    def mumble(request: Request) -> str:
        unclear = (
            hashlib.sha256(request.prompt.encode()).digest()[0] < 64
        )  # a quarter of the prompts, whatever the seed
        return "I can't say." if unclear else answer_by_rule(request)

    model(mumble)
    rows = {row.key: row for row in measure(open_sample("table_07", tmp_path), "trec_dl_nf")}
    share = rows["linkage_judge_n0", "sample_trec_dl_nf", "missing_verdicts"]
    assert share.value is not None
    assert 0.05 < share.value < 0.5
    assert share.dropped_because == {"unreadable": share.n_dropped}
    assert rows["linkage_judge_n0", "sample_trec_dl_nf", "spearman"].value is not None


def test_examples_come_from_another_data_set_than_the_judged_one(model, tmp_path):
    seen: list[str] = []

    def listen(request: Request) -> str:
        seen.append(request.prompt)
        return answer_by_rule(request)

    model(listen)
    lab = open_sample("table_07", tmp_path)
    measure(lab, "trec_dl_nf")
    own = {question.text for question in lab.load("trec_dl_nf").questions}
    other = {question.text for question in lab.load("antique").questions}
    with_examples = [prompt for prompt in seen if prompt.count("<question>") > 1]
    assert with_examples
    for prompt in with_examples:
        asked = re.findall(r"<question>\n(.*?)\n</question>", prompt, re.DOTALL)
        assert asked[-1] in own
        assert set(asked[:-1]) <= other


def test_without_a_judge_nothing_is_asked(tmp_path):
    lab = open_sample("table_07", tmp_path, judge="")
    assert measure(lab, "trec_dl_nf") == []
    assert describe_language_model(lab, []) == []
    assert lab.describe_usage() == {}
