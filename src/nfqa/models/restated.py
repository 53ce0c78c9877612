"""From an answer and the texts that may restate it to rows of tokens, and from log-probabilities to
losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nfqa.kernels.perplexity import Settings
from nfqa.models.engine import Engine, Row
from nfqa.models.pretrained import Pretrained, break_marks

if TYPE_CHECKING:
    from torch import Tensor

_Offsets = list[tuple[int, int]]


@dataclass(frozen=True)
class Restated:
    """One answer, the context, and the texts to be scored as restatements of it."""

    context: str
    targets: tuple[str, ...]


@dataclass(frozen=True)
class TargetLoss:
    """What one target costs after its context.

    nats: summed negative log-likelihood of the target's own tokens, natural logarithm. tokens: how
        many were summed.
    attended: all tokens of context and target. cut: tokens of the answer taken out to make them
    fit. unscored: target tokens with nothing before them, which have no probability (the first one
    after an empty context, for a tokenizer without a begin mark), 0 or 1. reason: why there is no
    loss, "" where there is one: "no_tokens" (nats is 0), "too_long" for the model even without the
    answer (nats is NaN), or "not_finite".
    """

    nats: float
    tokens: int
    attended: int
    cut: int = 0
    unscored: int = 0
    reason: str = ""


TOO_LONG = TargetLoss(math.nan, 0, 0, reason="too_long")


@dataclass(frozen=True)
class TargetRow:
    """Context and target as one sequence of tokens; no tokens for what doesn't fit the model even
    without the answer.

    first: where the target begins. answer: begin and end of the answer's own tokens in the context.
    cut: how many tokens were taken out to make the row fit.
    """

    tokens: tuple[int, ...] = ()
    first: int = 0
    answer: tuple[int, int] = (0, 0)
    cut: int = 0

    @property
    def row(self) -> Row:
        """For the engine: the probability of each target token that has a token before it."""
        first = max(self.first, 1)
        return Row(self.tokens, tuple(range(first - 1, len(self.tokens) - 1)), self.tokens[first:])


class RowMaker:
    """Makes rows for one model under one setting.

    Control marks in answers and targets are broken (`break_marks`), so that no text ends the user's
    turn.
    Raises: ValueError for "chat" wrapping where the model has no chat template, or a tokenizer that
        is not a fast one.
    """

    def __init__(self, loaded: Pretrained, settings: Settings) -> None:
        if not loaded.tokenizer.is_fast:
            raise ValueError(f"{loaded.name}: its tokenizer does not give the characters of a token; use a fast one")
        self._loaded, self._settings = loaded, settings
        self._marks = loaded.find_marks(settings.wrapping)
        self._room = loaded.context

    def make_rows(self, item: Restated, name: str = "item") -> list[TargetRow]:
        """A row for each target.

        Joint, a token belongs to the target if it overlaps the target's characters. A context
        without any token gets the tokenizer's begin mark where it has one.
        Raises: ValueError, naming the item and the target, for a row that doesn't fit the model
        under `too_long` "error"; for a chat template that changes a message's text.
        """
        text, begin, end = self._render(break_marks(item.context, self._marks))
        targets = [break_marks(target, self._marks) for target in item.targets]
        tokens, offsets = self._encode(text)
        rows = []
        for number, target in enumerate(targets):
            if self._settings.boundary == "apart":
                ids = self._loaded.tokenizer(target, add_special_tokens=False, verbose=False)["input_ids"]
                row = TargetRow((*tokens, *ids), len(tokens), _find_tokens(offsets, begin, end))
            else:
                row = self._join(text, target, begin, end)
            if not row.first and self._loaded.tokenizer.bos_token_id is not None:
                row = replace(row, tokens=(self._loaded.tokenizer.bos_token_id, *row.tokens), first=1, answer=(1, 1))
            rows.append(self._fit(row, f"{name}, target {number}"))
        return rows

    def _render(self, answer: str) -> tuple[str, int, int]:
        """The context, and where in it the answer's characters begin and end."""
        settings = self._settings
        message = settings.join(answer)
        if settings.wrapping == "plain":
            before, after = settings.frame
            return before + message + after, len(before), len(before) + len(answer)
        text = self._loaded.wrap(message, generation_prompt=settings.generation_prompt)
        core = answer.strip()  # many templates strip a message
        begin = text.find(core, self._loaded.message_begin)
        return text, begin, begin + len(core)

    def _encode(self, text: str) -> tuple[list[int], _Offsets]:
        """Tokens, and the characters of each; no mark at the end."""
        tokenizer, plain = self._loaded.tokenizer, self._settings.wrapping == "plain"
        encoded = tokenizer(
            text,
            add_special_tokens=plain,  # a chat template writes them itself
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            verbose=False,
        )
        tokens, special = encoded["input_ids"], encoded["special_tokens_mask"]
        size = self._loaded.count_open(tokens, special) if plain else len(tokens)
        return tokens[:size], encoded["offset_mapping"][:size]

    def _join(self, text: str, target: str, begin: int, end: int) -> TargetRow:
        """Context and target tokenised as one text."""
        tokens, offsets = self._encode(text + target)
        first = len(tokens)
        if target:
            first = next((i for i, (_, stop) in enumerate(offsets) if stop > len(text)), first)
        low, high = _find_tokens(offsets, begin, end)
        return TargetRow(tuple(tokens), first, (min(low, first), min(high, first)))

    def _fit(self, row: TargetRow, name: str) -> TargetRow:
        """The row, without as many of the answer's tokens as it takes to fit; an empty one where no
        cut is enough.
        """
        over = 0 if self._room is None else len(row.tokens) - self._room
        if over <= 0:
            return row
        begin, end = row.answer
        if self._settings.too_long == "error":
            raise ValueError(
                f"{name}: {len(row.tokens):,} tokens of context and target, but the context of {self._loaded.name} is"
                f' {self._room:,}; shorten it, or set too_long to "cut_head", "cut_middle" or "cut_tail"'
            )
        if over >= end - begin:
            return TargetRow()
        place = {"cut_head": begin, "cut_middle": begin + (end - begin - over) // 2, "cut_tail": end - over}
        start = place[self._settings.too_long]
        tokens = row.tokens[:start] + row.tokens[start + over :]
        return TargetRow(tokens, row.first - over, (begin, end - over), over)


def _find_tokens(offsets: _Offsets, begin: int, end: int) -> tuple[int, int]:
    """The tokens that overlap the characters from begin to end, as a range."""
    if begin == end:
        return 0, 0
    low = next((i for i, (_, stop) in enumerate(offsets) if stop > begin), len(offsets))
    high = next((i for i in range(low, len(offsets)) if offsets[i][0] >= end), len(offsets))
    return low, high


def find_losses(
    engine: Engine, maker: RowMaker, items: Mapping[int, Restated]
) -> Iterator[list[tuple[int, int, TargetLoss]]]:
    """Number of the item, place among its targets and loss of each target, batch by batch.

    Raises: ValueError as `RowMaker.make_rows`, or for a row that the memory is too small for.
    """
    numbers = list(items)
    rows = [maker.make_rows(item, f"item {number}") for number, item in items.items()]
    for batch in engine.find_logprobs([[row.row for row in group] for group in rows]):
        losses = []
        for group, place, logprobs in batch:
            row = rows[group][place]
            if isinstance(logprobs, str):
                raise ValueError(f"a context and a target of {len(row.tokens):,} tokens don't fit: {logprobs}")
            losses.append((numbers[group], place, _describe(row, logprobs)))
        yield losses


def find_plain_losses(engine: Engine, maker: RowMaker, items: Sequence[Restated]) -> list[list[TargetLoss]]:
    """Losses by a loop over single rows with nothing shared or batched: the reference
    implementation.
    """
    rows = [maker.make_rows(item, f"item {number}") for number, item in enumerate(items)]
    return [[_describe(row, engine.find_plain(row.row)) for row in group] for group in rows]


def _describe(row: TargetRow, logprobs: Tensor) -> TargetLoss:
    if not row.tokens:
        return TOO_LONG
    nats = float(f"{0.0 - float(logprobs.sum()):.6g}")
    reason = "no_tokens" if not len(logprobs) else "" if math.isfinite(nats) else "not_finite"
    unscored = len(row.tokens) - row.first - len(logprobs)
    return TargetLoss(nats, len(logprobs), len(row.tokens), row.cut, unscored, reason)
