"""A run that asks a server and ends in one file, to be killed: `python judged_run.py URL MODEL JOURNAL OUT`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from nfqa.files.paths import write_atomically
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits, Meter
from nfqa.judge.openai_server import OpenAIServer
from nfqa.judge.prompts import PromptSet
from nfqa.metrics.judging import LanguageJudge, judge_draws
from nfqa.models.chat import Decoding
from nfqa.models.roles import parse_role
from reproduction.data.load import load
from reproduction.studies.drawing import draw_list

CONCURRENCY = 4
METHODS = ("listwise", "pairwise")
PROJECT = Path(__file__).parents[1]


def refuse(name: str) -> Path:
    raise LookupError(f"{name} is not to be fetched here")


def read_own() -> PromptSet:
    return PromptSet(PROJECT / "prompts" / "own", bring=refuse)


def judge_sample(asker: Asker) -> dict[str, list[dict[str, object]]]:
    """The bundled sample judged by both methods: the verdicts of each, as JSON has them."""
    questions = load("trec_dl_nf", data="sample", root=PROJECT).questions
    draws = [draw_list(question, (3, 2, 1, 0), seed=0) for question in questions]
    table = {}
    for method in METHODS:
        verdicts = judge_draws(draws, method, LanguageJudge(asker, read_own()))
        columns = verdicts[["draw", "answer", "value", "reason"]].astype(object)
        table[method] = columns.where(columns.notna(), None).to_dict("records")
    return table


def main(url: str, model: str, journal: str, out: str) -> None:
    """Ask a server; the file is in its place only when all is done."""
    asker = Asker(
        parse_role("judge", f"openai:{model}@{url}"),
        lambda spec: OpenAIServer(spec, Meter(Limits(concurrency=CONCURRENCY)), timeout=10),
        Journal(Path(journal), run=os.environ.get("NFQA_RUN", "")),
        Decoding(),
    )
    table = judge_sample(asker)
    with write_atomically(Path(out)) as scratch:  # two runs of one name may end at once
        scratch.write_text(json.dumps(table, indent=1, sort_keys=True, allow_nan=False))


if __name__ == "__main__":
    main(*sys.argv[1:])
