"""What a run would ask a language model, counted before anything is asked, and what the journal holds already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nfqa.judge.asking import Tally
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits
from nfqa.lab.judging import find_journal
from nfqa.lab.options import RunOptions
from nfqa.lab.replay import count_asked
from nfqa.lab.targets import Target

_COMPLETION_TOKENS = 12  # about what a bare verdict takes; a judge that explains itself writes up to 512


def plan_targets(root: Path, targets: Sequence[Target], options: RunOptions) -> Iterator[str]:
    """A line for each target that asks a language model; what two targets share is asked once, and counted in each.

    References that a language model would write aren't known before they are written: where they are missing from the
    journal, the verdicts over them are not counted.
    """
    for target in targets:
        if options.asks(target.artefact.roles):
            tally = count_asked(target.paper, target.name, options.find_place(root), options)
            yield f"{target.identifier:24} {_describe(tally)}"


def describe_journal(root: Path) -> list[str]:
    """A line a model: what the journal holds, and what it cost at the prices that the environment gives."""
    path = find_journal(root)
    if not path.is_file():
        return ["journal: no verdicts yet"]
    journal = Journal(path)
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
