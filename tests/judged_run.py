"""A run that asks a server and ends in one file, for tests that kill it: `python judged_run.py URL JOURNAL OUT`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from nfqa.data.load import load
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits
from nfqa.judge.openai_server import OpenAIServer
from nfqa.judge.prompts import PromptSet
from nfqa.metrics.judging import LanguageJudge, judge_draws
from nfqa.metrics.references import draw_list
from nfqa.models.chat import Decoding
from nfqa.models.roles import parse_role

CONCURRENCY = 4
METHODS = ("listwise", "pairwise")
PROJECT = Path(__file__).parents[1]


def refuse(name: str) -> Path:
    raise LookupError(f"{name} is not to be fetched here")


def read_own() -> PromptSet:
    return PromptSet(PROJECT / "prompts" / "own", bring=refuse)


def main(url: str, journal: str, out: str) -> None:
    """Judge the bundled sample by both methods; the file is in its place only when all is done."""
    spec = parse_role("judge", f"openai:stub@{url}")
    questions = load("trec_dl_nf", data="sample", root=PROJECT).questions
    draws = [draw_list(question, (3, 2, 1, 0), seed=0) for question in questions]
    asker = Asker(
        spec,
        lambda spec: OpenAIServer(spec, limits=Limits(concurrency=CONCURRENCY), backoff=0.01),
        Journal(Path(journal)),
        Decoding(),
    )
    table = {}
    for method in METHODS:
        found = judge_draws(draws, method, LanguageJudge(asker, read_own()))
        kept = found[["draw", "answer", "value", "reason"]].astype(object)
        table[method] = kept.where(kept.notna(), None).to_dict("records")
    draft = Path(out).with_suffix(".draft")
    draft.write_text(json.dumps(table, indent=1, sort_keys=True, allow_nan=False))
    draft.replace(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
