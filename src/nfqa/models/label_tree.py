"""Which next-token distributions tell the probability of each label, when labels may begin with the same tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfqa.models.shared_prefix import count_common

if TYPE_CHECKING:
    from torch import Tensor

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class LabelTree:
    """Labels as paths of tokens after a forced beginning.

    forced: the prompt and what follows it in every label's text, normally `[[`. tails: each label's tokens up to the
    one that tells it from all others. contexts: what to put after `forced`, so that these few rows show every
    distribution needed: with digits as tokens, "1" and "10" need the one after `[[` and the one after `[[1`.
    """

    forced: Tokens
    tails: tuple[Tokens, ...]
    contexts: tuple[Tokens, ...]

    @property
    def rows(self) -> list[Tokens]:
        """The inputs to run."""
        return [self.forced + context for context in self.contexts]

    @property
    def depth(self) -> int:
        """After how many of each row's last tokens a distribution is needed."""
        return 1 + max(len(context) for context in self.contexts)

    def sum_logprobs(self, tables: Sequence[Tensor]) -> tuple[float, ...]:
        """Each label's logarithm of probability under the whole vocabulary.

        tables: for each row the next token's logprobs after its last tokens, [depth or more, V].

        Formula: ln P(label) = the sum over its tail's tokens t_i of ln P(t_i | forced, t_1 ... t_i-1). The `]]` after
        a label counts only where it tells the label from a longer one.
        """
        found = []
        for tail in self.tails:
            row = next(i for i, context in enumerate(self.contexts) if context[: len(tail) - 1] == tail[:-1])
            first = len(tables[row]) - 1 - len(self.contexts[row])  # the place after `forced`
            found.append(float(sum(tables[row][first + step, token] for step, token in enumerate(tail))))
        return tuple(found)


def grow_tree(labels: Sequence[str], sequences: Sequence[Sequence[int]], stub: Sequence[int]) -> LabelTree:
    """The tree of labels whose prompts, with `[[label]]` at the end, tokenise to `sequences`.

    stub: the tokens of the prompt with `[[` alone; where all labels begin with the same character, it keeps that
    character from being forced. Raises: ValueError for fewer than two labels or equal ones.
    """
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"labels are {tuple(labels)}; a logits reading chooses among two or more different ones")
    bounds = [*sequences, stub] if len({label[:1] for label in labels}) == 1 else sequences
    forced = count_common(bounds)
    whole = [tuple(sequence[forced:]) for sequence in sequences]
    tails = [
        tail[: _tell_apart(tail, [other for j, other in enumerate(whole) if j != i])] for i, tail in enumerate(whole)
    ]
    inner = sorted({tail[:-1] for tail in tails})
    contexts = [a for a in inner if not any(b != a and b[: len(a)] == a for b in inner)]
    return LabelTree(tuple(sequences[0][:forced]), tuple(tails), tuple(contexts))


def _tell_apart(tail: Tokens, others: Sequence[Tokens]) -> int:
    """How many of a tail's tokens it takes until none of the others begins with them."""
    return 1 + max(count_common([tail, other]) for other in others)
