"""A causal language model in this process: any model of the hub or a folder, by transformers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.engine import Engine, Row, count_common
from nfqa.models.pretrained import Pretrained, break_marks

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_GROUPS = 64  # of requests at a time: what all of them begin with is run once, and what was answered is kept soon
_LIKELIEST = 512  # sorting only these of 49,152 probabilities takes a fifteenth of the time


@dataclass(frozen=True)
class LabelRows:
    """The rows whose next-token distributions give the probability of each label.

    forced: how many tokens the prompt and what follows it in every label's text have, normally
    `[[`. parts: for each label, in which row its log-probabilities are, where those of its own
    tokens, and where those of tokens after it that would make it a longer label. A prompt that is
    to be continued is one row without parts.
    """

    forced: int
    rows: tuple[Row, ...]
    parts: tuple[tuple[int, slice, slice], ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Of the longest row."""
        return max((row.tokens for row in self.rows), key=len)


class CausalLM(Pretrained):
    """Completions and next-token readings of a pretrained model.

    Only float32 keeps the shared and the plain way within 1e-4 of each other. Of the model's own
    generation settings only the stop tokens count: no penalty or top-k applies that `Decoding` does
    not name.
    """

    def answer(
        self, requests: Sequence[Request], decoding: Decoding, *, share: bool = True
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, as each batch is done.

        Requests of one group are run in batches, and for a "logits" reading the tokens that they
        begin with once;
        share: False runs each prompt on its own, the reference for the other way. A "logits"
        reply's text is the likeliest label; its `prompt_tokens` include the forced `[[`, and it has
        no completion tokens, as none was written. A request that does not fit the model's context
        is a Failure "too_long", never cut.
        Raises: ValueError for a judge's "chat" wrapping without a chat template (a generator then
        reads plain text), or a model that can't be loaded.
        """
        if self.spec.role == "generator" and self.template == "none":
            decoding = replace(decoding, wrapping="plain")
        marks = self.find_marks(decoding.wrapping)
        engine = self.engine if share else Engine(self.model, batch_tokens=1, share=False)
        run = self._read if decoding.reading == "logits" else self._write
        order = sorted(range(len(requests)), key=lambda number: requests[number].group)
        groups = [[*numbers] for _, numbers in groupby(order, lambda number: requests[number].group)]
        for first in range(0, len(groups), _GROUPS):
            some = groups[first : first + _GROUPS]
            plans = {i: self._prepare(requests[i], decoding, marks) for numbers in some for i in numbers}
            yield from ((i, plan) for i, plan in plans.items() if isinstance(plan, Failure))
            fitting = [{i: plan for i in numbers if isinstance(plan := plans[i], LabelRows)} for numbers in some]
            yield from run(requests, fitting, decoding, engine)

    def _prepare(self, request: Request, decoding: Decoding, marks: frozenset[str]) -> LabelRows | Failure:
        """The request as tokens, or why it can't be run."""
        text = break_marks(request.prompt, marks)
        if decoding.wrapping == "chat":
            text = self.wrap(text)
        if decoding.reading == "logits":
            ends = ["[[", *(f"[[{label}]]" for label in request.labels)]
            stub, *sequences = self.tokenise([text + end for end in ends], decoding.wrapping)
            plan = plan_labels(request.labels, sequences, stub)
            room = 0
        else:
            (tokens,) = self.tokenise([text], decoding.wrapping)
            plan = LabelRows(len(tokens), (Row(tuple(tokens), (), ()),), ())
            room = 1
        context = self.context
        if context is not None and len(plan.tokens) + room > context:
            return Failure("too_long", f"{len(plan.tokens):,} tokens of prompt, but the model's context is {context:,}")
        return plan

    def _read(
        self, requests: Sequence[Request], groups: Sequence[dict[int, LabelRows]], _: Decoding, engine: Engine
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """The labels' probabilities; nothing is written."""
        owners = [[number for number, plan in plans.items() for _ in plan.rows] for plans in groups]
        rows = [[row for plan in plans.values() for row in plan.rows] for plans in groups]
        done: dict[int, dict[int, Any]] = {number: {} for plans in groups for number in plans}
        for group, place, logprobs in chain.from_iterable(engine.find_logprobs(rows)):
            number = owners[group][place]
            plan = groups[group][number]
            results = done[number]
            results[place] = logprobs
            if len(results) == len(plan.rows):
                yield number, _read_reply(requests[number], plan, [results[i] for i in sorted(results)])

    def _write(
        self, requests: Sequence[Request], groups: Sequence[dict[int, LabelRows]], decoding: Decoding, engine: Engine
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """Completions. One that the context leaves less room than it was given is written alone, up
        to its end.
        """
        plans = {number: plan for plans in groups for number, plan in plans.items()}
        stops = self.stops
        most = decoding.max_tokens
        context = self.context
        rooms = {i: min(most, context - plan.forced if context else most) for i, plan in plans.items()}

        def write(numbers: list[int]) -> list[list[int]]:
            prompts = [plans[i].tokens for i in numbers]
            seeds = [requests[i].seed for i in numbers]
            limited = replace(decoding, max_tokens=rooms[numbers[0]])
            return complete(self.model, prompts, seeds, limited, stops)

        queues = [[i for i in plans if rooms[i] == most], *([i] for i in plans if rooms[i] < most)]
        runs = (engine.run_batches(queue, lambda i: plans[i].forced + rooms[i], write) for queue in queues)
        for number, tokens in chain.from_iterable(chain.from_iterable(runs)):
            if isinstance(tokens, str):
                yield number, _tell_too_large(plans[number], tokens)
                continue
            text = self.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            finish = "stop" if tokens[-1] in stops else "length"
            yield number, Reply(text, plans[number].forced, len(tokens), finish)


def plan_labels(labels: Sequence[str], sequences: Sequence[Sequence[int]], stub: Sequence[int]) -> LabelRows:
    """The rows for labels whose prompts, with `[[label]]` at the end, tokenise to `sequences`.

    Formula: ln P(label) = the sum over its tokens t_i up to the one that differs from all others of
    ln P(t_i | forced, t_1 ... t_i-1); for a label that others begin with, all of its tokens, and
    ln(1 - the sum of P(t | forced, t_1 ... t_n) over the tokens t by which these continue). What
    follows a label, such as `]]`, never counts. With digits as tokens, ln P("1") = ln P(1 | [[) +
    ln(1 - P(0 | [[1)) beside "10".
    stub: the tokens of the prompt with `[[` alone; where all labels begin with the same character,
    it keeps that character from being forced. labels: two or more different ones.
    """
    bounds = [*sequences, stub] if len({label[:1] for label in labels}) == 1 else sequences
    forced = count_common(bounds)
    whole = [tuple(sequence[forced:]) for sequence in sequences]
    tails = [
        tail[: 1 + max(count_common([tail, other]) for j, other in enumerate(whole) if j != i)]
        for i, tail in enumerate(whole)
    ]
    inner = sorted({tail[:-1] for tail in tails})
    contexts = [a for a in inner if not any(b != a and b[: len(a)] == a for b in inner)]
    closing = count_common([tail[::-1] for tail in whole])
    pairs: list[list[tuple[int, int]]] = [[] for _ in contexts]  # place and target
    parts = []
    for tail, full in zip(tails, whole, strict=True):
        row = next(i for i, context in enumerate(contexts) if context[: len(tail) - 1] == tail[:-1])
        tokens = tail
        longer = set[int]()
        if len(tail) > len(full) - closing:
            tokens = tail[:-1]
            longer = {other[len(tokens)] for other in whole if other[: len(tokens)] == tokens and other != full}
        steps = [*enumerate(tokens), *((len(tokens), token) for token in sorted(longer))]
        start = len(pairs[row])
        middle = len(pairs[row]) + len(tokens)
        parts.append((row, slice(start, middle), slice(middle, start + len(steps))))
        pairs[row] += [(forced - 1 + step, token) for step, token in steps]
    begin = tuple(sequences[0][:forced])
    rows = [Row(begin + context, *zip(*each, strict=True)) for context, each in zip(contexts, pairs, strict=True)]
    return LabelRows(forced, tuple(rows), tuple(parts))


def _read_reply(request: Request, plan: LabelRows, results: Sequence[Any]) -> Reply | Failure:
    """results: for each row its log-probabilities, or why there are none."""
    for message in results:
        if isinstance(message, str):
            return _tell_too_large(plan, message)
    # six digits: batches and threads move the last ones
    sums = [
        results[row][tokens].sum() + (1 - results[row][longer].exp().sum()).clamp(min=1e-12).log()
        for row, tokens, longer in plan.parts
    ]
    logprobs = tuple(float(f"{float(each):.6g}") for each in sums)
    likeliest = request.labels[max(range(len(logprobs)), key=logprobs.__getitem__)]
    return Reply(f"[[{likeliest}]]", plan.forced, 0, "logits", logprobs=logprobs)


def _tell_too_large(plan: LabelRows, message: str) -> Failure:
    return Failure("out_of_memory", f"{len(plan.tokens):,} tokens of prompt: {message}")


def complete(
    model: Any, rows: Sequence[Sequence[int]], seeds: Sequence[int], decoding: Decoding, stops: frozenset[int]
) -> list[list[int]]:
    """The tokens of one completion for each row, its stop token included. Shorter rows have padding
    before them.

    Each row draws from its own generator, so what it draws depends neither on the other rows nor on
    their order. One row works for every causal model.
    """
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def force_tokens(_: Tensor, scores: Tensor) -> Tensor:
        tokens = draw_tokens(scores, generators, decoding)
        return torch.full_like(scores, -torch.inf).scatter(1, tokens[:, None], 0.0)

    settings = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=False,
        max_new_tokens=decoding.max_tokens,
        eos_token_id=sorted(stops) or None,
        pad_token_id=min(stops, default=0),
    )
    width = max(map(len, rows))
    ids = [[*[0] * (width - len(row)), *row] for row in rows]
    mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
    with torch.inference_mode():
        done = model.generate(
            torch.tensor(ids, device=model.device),
            attention_mask=torch.tensor(mask, device=model.device),
            generation_config=settings,
            logits_processor=LogitsProcessorList([force_tokens]),
        )
    written = done[:, width:].tolist()
    ends = [next((i for i, token in enumerate(row, 1) if token in stops), len(row)) for row in written]
    return [row[:end] for row, end in zip(written, ends, strict=True)]


def draw_tokens(logits: Tensor, generators: Sequence[torch.Generator], decoding: Decoding) -> Tensor:
    """One token a row from the smallest set whose probability reaches top_p: logits [B, V], tokens
    [B].

    A row's uniform number comes from its own generator; the token is where the sum of the sorted
    probabilities, in double precision, passes it.
    """
    import torch

    if decoding.temperature == 0:
        return logits.argmax(-1)
    probabilities = (logits.double() / decoding.temperature).softmax(-1)
    order = probabilities.topk(min(_LIKELIEST, probabilities.shape[-1])).indices.sort(-1).values
    ordered, place = probabilities.gather(1, order).sort(descending=True, stable=True)  # of equal ones the first token
    order = order.gather(1, place)
    if (ordered[:, :-1].sum(-1) <= decoding.top_p).any():  # some row's set is larger
        ordered, order = probabilities.sort(descending=True, stable=True)
    summed = ordered.cumsum(-1)
    nucleus = summed - ordered < decoding.top_p  # [B, V or _LIKELIEST]
    uniform = torch.stack([torch.rand((), generator=generator) for generator in generators]).to(logits.device)
    place = (summed < (uniform * (ordered * nucleus).sum(-1))[:, None]).sum(-1)
    place = place.minimum(nucleus.sum(-1) - 1)
    return order.gather(1, place[:, None])[:, 0]
