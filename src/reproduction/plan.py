"""What a run would ask a language model, counted before anything is asked, and what the journal holds already."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

from nfqa.files.json_lines import read_json
from nfqa.files.paths import write_text
from nfqa.judge.asking import Tally
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits
from reproduction.judging import find_journal
from reproduction.keys import Target
from reproduction.notebooks import hash_json, read_parameters
from reproduction.options import ASKED, RunOptions
from reproduction.place import find_committed
from reproduction.replay import count_asked

_SECONDS = 11  # for a text of SmolLM2 on two cores, as those of Figure 8 took
_COMPLETION_TOKENS = 12  # about what a bare verdict takes; a judge that explains itself writes up to 512


def plan_targets(root: Path, targets: Sequence[Target], options: RunOptions) -> Iterator[str]:
    """A line for each target that asks a language model; what two targets share is asked once, and counted in each.

    References that a language model would write aren't known before they are written: where they are missing from the
    journal, the verdicts over them are not counted. A count is kept, and counted again only when what it depends on or
    the journal has changed: every prompt is written for it, which takes a minute.
    """
    place = options.find_place(root)
    journal = describe_journal(root)
    for target in targets:
        if not target.key or not target.key.asks:
            continue
        depends = hash_json([target.identifier, target.key.parts, str(find_journal(root)), journal])
        path = place.work / "plans" / f"{depends}.json"
        if options.parameters or not path.is_file():  # a parameter may name a file, which may change
            tally = replace(count_asked(target.paper, target.name, place, target.options), missing=Counter())
            write_text(path, json.dumps(vars(tally)))
        yield f"{target.identifier:24} {_describe(Tally(**read_json(path)))}"


def estimate_run(root: Path, targets: Sequence[Target], options: RunOptions) -> Iterator[str]:
    """What a run on DebateQA's own questions would take: a line for each artefact that is to run, and one for all.

    Minutes are those of the notebook's default questions. Texts and verdicts of a language model are counted by a dry
    run of the cells that ask for them; those already in the journal or committed are at hand.
    """
    place = options.find_place(root)
    total = 0
    yield "Estimate. Minutes are of the default questions: DebateQA's are more, by a factor that is not known."
    for target in targets:
        if not target.stale:
            continue
        settings = read_parameters(target.artefact.path) | (target.key.parameters if target.key else {})
        roles = {role: str(settings.get(role) or "") for role in ASKED}
        line = f"{target.identifier:24} {target.artefact.minutes:.1f} min"
        if options.asks(roles):
            tally = count_asked(target.paper, target.name, place, target.options)
            total += tally.requests
            line += (
                f"; texts and verdicts of a language model: {tally.verdicts:,}, of which {tally.requests:,} to ask for"
            )
        if "evaluator" in target.artefact.roles:
            line += "; losses of its evaluators are not counted"
        yield line
    yield (
        f"To ask of language models: {total:,} texts and verdicts at most. SmolLM2 takes {_SECONDS} s for a text on two"
        f" cores: about {total * _SECONDS / 3600:.1f} hours. How long losses take is not known."
    )


def describe_journal(root: Path) -> list[str]:
    """One line per model: what the journal holds, and what it cost at the prices that the environment gives.

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


def describe_target(target: Target) -> str:
    """Whether an artefact was run here and is fresh, or why it is stale, and about how long it takes."""
    if target.lacks:
        return f"not run: needs {', '.join(target.lacks)}; previous result kept"
    if target.minutes is not None:
        minutes = f"{target.minutes:.1f} min last time"
    else:
        minutes = f"about {target.seconds / 60:.1f} min" if target.seconds < inf else "not timed yet"
    if not target.stale:
        return f"fresh  ({minutes})"
    from reproduction.papers import list_needs, show_name

    reasons = "; ".join(target.stale[:3]) + (f"; and {len(target.stale) - 3} more" if len(target.stale) > 3 else "")
    filled = [show_name(target.paper, role) for role in target.options.roles]
    missing = [need for need in list_needs(target.paper, target.name) if need not in filled]
    state = f"STALE  ({minutes}): {reasons}"
    if target.minutes is None:
        state = f"not run here  ({minutes})"
    return state + (f"; some rows need {', '.join(missing)}" if missing else "")


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
