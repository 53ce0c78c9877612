"""What a run would ask a language model, counted before anything is asked, and what the journal holds already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from nfqa.data.paths import write_atomically
from nfqa.judge.asking import Tally
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits
from nfqa.lab.fingerprint import Target, make_fingerprint
from nfqa.lab.judging import find_journal
from nfqa.lab.notebooks import hash_json
from nfqa.lab.options import RunOptions
from nfqa.lab.replay import count_asked

_COMPLETION_TOKENS = 12  # about what a bare verdict takes; a judge that explains itself writes up to 512


class _Plan(BaseModel):
    """What one target would ask, and a hash of all that this depends on."""

    depends: str
    tally: Tally


def plan_targets(root: Path, targets: Sequence[Target], options: RunOptions) -> Iterator[str]:
    """A line for each target that asks a language model; what two targets share is asked once, and counted in each.

    References that a language model would write aren't known before they are written: where they are missing from the
    journal, the verdicts over them are not counted. A count is kept, and counted again only when what it depends on or
    the journal has changed: every prompt is written for it, which takes a minute.
    """
    place, journal = options.find_place(root), describe_journal(root)
    for target in targets:
        if not options.asks(target.artefact.roles):
            continue
        parts = make_fingerprint(target.paper, target.name, place, options)
        depends = hash_json([parts, str(find_journal(root)), journal])
        path = place.work / "plans" / f"{target.identifier}.json"
        try:
            plan = _Plan.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValueError):
            plan = None
        if plan is None or plan.depends != depends or options.parameters:  # one may name a file, which may change
            tally = replace(count_asked(target.paper, target.name, place, options), missing=Counter())
            plan = _Plan(depends=depends, tally=tally)
            with write_atomically(path) as scratch:
                scratch.write_text(plan.model_dump_json(), encoding="utf-8")
        yield f"{target.identifier:24} {_describe(plan.tally)}"


def describe_journal(root: Path) -> list[str]:
    """A line a model: what the journal holds, and what it cost at the prices that the environment gives."""
    found = []
    if find_journal(root).is_file():
        journal = Journal(find_journal(root))
        found = journal.count()
        journal.close()
    return [
        f"journal: {each['model']}: {each['completions']:,} completions, {each['unreadable']:,} unreadable,"
        f" {each['prompt_tokens']:,} tokens in, {each['completion_tokens']:,} out"
        f"{_price(each['prompt_tokens'], each['completion_tokens'])}"
        for each in found
    ] or ["journal: no verdicts yet"]


def _describe(tally: Tally) -> str:
    if not tally.asked:
        return f"{tally.wanted:,} verdicts wanted, all in the journal"
    tokens = tally.tokens_to_ask
    return (
        f"{tally.wanted:,} verdicts wanted, {tally.kept:,} in the journal, {tally.asked:,} to ask:"
        f" about {tokens / 1e6:.1f} M tokens in{_price(tokens, tally.asked * _COMPLETION_TOKENS)}"
    )


def _price(tokens_in: int, tokens_out: int) -> str:
    price = Limits.from_environment().price(tokens_in, tokens_out)
    return "" if price is None else f", {price:,.2f} at the given prices"
