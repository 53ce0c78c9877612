"""What `make status` says: what is stale and why, what a run would ask a language model, what the
journal holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nfqa.judge.asking import Tally
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits
from reproduction.judging import find_journal
from reproduction.keys import Target
from reproduction.options import RunOptions
from reproduction.papers import list_needs, show_name
from reproduction.place import find_committed
from reproduction.replay import count_asked

_COMPLETION_TOKENS = 12  # about what a bare verdict takes; a judge that explains itself writes up to 512
_MOST = 3  # reasons that are listed


def describe_target(target: Target) -> str:
    """Whether an artefact was run here and is fresh, or why it is stale, and how long it takes."""
    if target.lacks:
        return f"not run: needs {', '.join(target.lacks)}; previous result kept"
    if target.record is None:
        state = f"not run here  (about {target.minutes:.1f} min)"
    elif not target.stale:
        return f"fresh  ({target.minutes:.1f} min last time)"
    else:
        reasons = "; ".join(target.stale[:_MOST])
        more = f"; and {len(target.stale) - _MOST} more" if len(target.stale) > _MOST else ""
        state = f"STALE  ({target.minutes:.1f} min last time): {reasons}{more}"
    filled = [show_name(target.paper, role) for role in target.options.roles]
    missing = [need for need in list_needs(target.paper, target.name) if need not in filled]
    return state + (f"; some rows need {', '.join(missing)}" if missing else "")


def plan_targets(root: Path, targets: Sequence[Target], options: RunOptions) -> Iterator[str]:
    """A line for each target that asks a language model; what two targets share is asked once, and
    counted in each.

    Every prompt is written for it, which takes a minute. References that a language model would
    write aren't known before they are written: where they are missing from the journal, the
    verdicts over them are not counted.
    """
    place = options.find_place(root)
    for target in targets:
        if target.key.asks:
            tally = count_asked(target.paper, target.name, place, target.options)
            yield f"{target.identifier:24} {_describe(tally)}"


def describe_journal(root: Path) -> list[str]:
    """One line per model: what the journal holds, and what it cost at the prices that the
    environment gives.

    Then the files of committed verdicts, which count for nothing there.
    """
    path = find_journal(root)
    models = Journal(path).count() if path.is_file() else []
    lines = [
        f"journal: {each['model']}: {each['completions']:,} completions, {each['unreadable']:,} unreadable,"
        f" {each['prompt_tokens']:,} tokens in, {each['completion_tokens']:,} out"
        f"{_price(each['prompt_tokens'], each['completion_tokens'])}"
        for each in models
    ] or ["journal: no verdicts yet"]
    return lines + [f"committed: {path.relative_to(root)}, at no cost" for path in find_committed(root, "verdicts")]


def _describe(tally: Tally) -> str:
    tokens = round(tally.tokens_to_ask)
    verdicts = f"{tally.verdicts:,} verdicts needed"
    if not tally.requests:
        return f"{verdicts}, all in the journal"
    price = _price(tokens, tally.requests * _COMPLETION_TOKENS)
    new = f"{tally.requests:,} to ask: about {tokens / 1e6:.1f} M tokens in{price}"
    return f"{verdicts}, {tally.cached:,} in the journal, {new}"


def _price(tokens_in: int, tokens_out: int) -> str:
    price = Limits.from_environment().price(tokens_in, tokens_out)
    return "" if price is None else f", {price:,.2f} at the given prices"
