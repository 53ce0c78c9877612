"""A causal language model in this process: any model of the hub or a folder, by transformers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.engine import Engine, Row, count_common
from nfqa.models.pretrained import Pretrained, break_marks
from nfqa.models.roles import RoleSpec

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_GROUPS = 64  # of requests at a time: what all of them begin with is run once, and what was answered is kept soon
_LIKELIEST = 512  # sorting only these of 49,152 probabilities takes a fifteenth of the time


@dataclass(frozen=True)
class LabelRows:
    """The rows whose next-token distributions tell the probability of each label.

    forced: how many tokens the prompt and what follows it in every label's text have, normally `[[`. parts: for each
    label, in which row its log-probabilities are, where those of its own tokens, and where those of tokens after it
    that would make it a longer label. A prompt that is to be continued is one row without parts.
    """

    forced: int
    rows: tuple[Row, ...]
    parts: tuple[tuple[int, slice, slice], ...]

    @property
    def tokens(self) -> tuple[int, ...]:
        """Of the longest row."""
        return max((row.tokens for row in self.rows), key=len)


class CausalLM:
    """Completions and next-token readings of a model that `Pretrained` opens.

    device, dtype and trust_remote_code are `Pretrained`'s; only float32 keeps the shared and the plain way within 1e-4
    of each other. batch_tokens is the `Engine`'s.

    Of the model's own generation settings only the stop tokens count: no penalty or top-k applies that `Decoding`
    does not name.
    """

    def __init__(
        self,
        spec: RoleSpec,
        *,
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int = 16_384,
        trust_remote_code: bool = False,
    ) -> None:
        self._batch_tokens = batch_tokens
        self._writes = spec.role == "generator"
        self._loaded = Pretrained(spec, device=device, dtype=dtype, trust_remote_code=trust_remote_code)

    @property
    def identity(self) -> str:
        """Name, commit (or revision, or "unpinned"; of a folder the hash of its files) and precision."""
        return self._loaded.identity

    @property
    def template(self) -> str:
        """The word chat and the hash of the model's chat template, or "none"; plain wrapping takes no notice of it."""
        return self._loaded.template

    def answer(
        self, requests: Sequence[Request], decoding: Decoding, *, share: bool = True
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, as each batch is done.

        Requests of one group are run in batches, and for a "logits" reading the tokens that they begin with once;
        share: False runs each prompt on its own, the reference for the other way. A "logits" reply's text is the
        likeliest label; its `prompt_tokens` include the forced `[[`, and it has no completion tokens, as none was
        written.
        A request that does not fit the model's context is a Failure "too_long", never cut.
        Raises: ValueError for a judge's "chat" wrapping without a chat template (a generator then reads plain text), or
        a model that can't be loaded.
        """
        if self._writes and self.template == "none":
            decoding = replace(decoding, wrapping="plain")
        marks = self._loaded.find_marks(decoding.wrapping)
        engine = self._engine if share else Engine(self._loaded.model, batch_tokens=1, share=False)
        run = self._read if decoding.reading == "logits" else self._write
        order = sorted(range(len(requests)), key=lambda number: requests[number].group)
        groups = [[*numbers] for _, numbers in groupby(order, lambda number: requests[number].group)]
        while groups:
            some, groups = groups[:_GROUPS], groups[_GROUPS:]
            made = [
                {number: self._prepare(requests[number], decoding, marks) for number in numbers} for numbers in some
            ]
            yield from ((i, plan) for plans in made for i, plan in plans.items() if isinstance(plan, Failure))
            plans = [{i: plan for i, plan in plans.items() if isinstance(plan, LabelRows)} for plans in made]
            yield from run(requests, plans, decoding, engine)

    def close(self) -> None:
        """Let go of the model's memory; the next request loads it again."""
        self._loaded.drop_model()
        self.__dict__.pop("_engine", None)

    @cached_property
    def _engine(self) -> Engine:
        return Engine(self._loaded.model, batch_tokens=self._batch_tokens)

    def _prepare(self, request: Request, decoding: Decoding, marks: frozenset[str]) -> LabelRows | Failure:
        """The request as tokens, or why it can't be run."""
        text = break_marks(request.prompt, marks)
        if decoding.wrapping == "chat":
            text = self._loaded.wrap(text)
        if decoding.reading == "logits":
            ends = ["[[", *(f"[[{label}]]" for label in request.labels)]
            stub, *sequences = self._loaded.tokenise_ends(text, ends, decoding.wrapping)
            plan, room = plan_labels(request.labels, sequences, stub), 0
        else:
            (tokens,) = self._loaded.tokenise([text], decoding.wrapping)
            plan, room = LabelRows(len(tokens), (Row(tuple(tokens), (), ()),), ()), 1
        context = self._loaded.context
        if context is not None and len(plan.tokens) + room > context:
            return Failure("too_long", f"{len(plan.tokens):,} tokens of prompt, but the model's context is {context:,}")
        return plan

    def _read(
        self, requests: Sequence[Request], groups: Sequence[dict[int, LabelRows]], _: Decoding, engine: Engine
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """The labels' probabilities; nothing is written."""
        owners = [[number for number, plan in plans.items() for _ in plan.rows] for plans in groups]
        rows = [[row for plan in plans.values() for row in plan.rows] for plans in groups]
        read: dict[int, dict[int, Any]] = {number: {} for plans in groups for number in plans}
        for group, place, logprobs, seconds in _time_each(engine.find_logprobs(rows)):
            number = owners[group][place]
            read[number][place] = logprobs
            plan = groups[group][number]
            if len(read[number]) == len(plan.rows):
                found = [logprobs for _, logprobs in sorted(read.pop(number).items())]
                yield number, _read_reply(requests[number], plan, found, seconds)

    def _write(
        self, requests: Sequence[Request], made: Sequence[dict[int, LabelRows]], decoding: Decoding, engine: Engine
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """Completions. One that the context leaves less room than it was given is written alone, up to its end."""
        plans = {number: plan for each in made for number, plan in each.items()}
        tokenizer, stops, most = self._loaded.tokenizer, self._loaded.stops, decoding.max_tokens
        context = self._loaded.context
        rooms = {i: min(most, context - plan.forced if context else most) for i, plan in plans.items()}

        def write(numbers: list[int]) -> list[list[int]]:
            prompts, seeds = [plans[i].tokens for i in numbers], [requests[i].seed for i in numbers]
            limited = replace(decoding, max_tokens=rooms[numbers[0]])
            return complete(self._loaded.model, prompts, seeds, limited, stops)

        groups = [[i for i in plans if rooms[i] == most], *([i] for i in plans if rooms[i] < most)]
        runs = (engine.run_batches(own, lambda i: plans[i].forced + rooms[i], write) for own in groups)
        for number, tokens, seconds in _time_each(chain.from_iterable(runs)):
            if isinstance(tokens, str):
                yield number, _tell_too_large(plans[number], tokens)
                continue
            text = tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            finish = "stop" if tokens[-1] in stops else "length"
            yield number, Reply(text, plans[number].forced, len(tokens), finish, seconds)


def plan_labels(labels: Sequence[str], sequences: Sequence[Sequence[int]], stub: Sequence[int]) -> LabelRows:
    """The rows for labels whose prompts, with `[[label]]` at the end, tokenise to `sequences`.

    Formula: ln P(label) = the sum over its tokens t_i up to the one that tells it from all others of
    ln P(t_i | forced, t_1 ... t_i-1); for a label that others begin with, all of its tokens, and
    ln(1 - the sum of P(t | forced, t_1 ... t_n) over the tokens t by which these go on). What follows a label, such as
    `]]`, never counts. With digits as tokens, ln P("1") = ln P(1 | [[) + ln(1 - P(0 | [[1)) beside "10".
    stub: the tokens of the prompt with `[[` alone; where all labels begin with the same character, it keeps that
    character from being forced. labels: two or more different ones.
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
    asked: list[list[tuple[int, int]]] = [[] for _ in contexts]  # place and target
    parts = []
    for tail, full in zip(tails, whole, strict=True):
        row = next(i for i, context in enumerate(contexts) if context[: len(tail) - 1] == tail[:-1])
        own, longer = tail, set[int]()
        if len(tail) > len(full) - closing:
            own = tail[:-1]
            longer = {other[len(own)] for other in whole if other[: len(own)] == own and other != full}
        steps = [*enumerate(own), *((len(own), token) for token in sorted(longer))]
        start, middle = len(asked[row]), len(asked[row]) + len(own)
        parts.append((row, slice(start, middle), slice(middle, start + len(steps))))
        asked[row] += [(forced - 1 + step, token) for step, token in steps]
    begin = tuple(sequences[0][:forced])
    rows = [Row(begin + context, *zip(*pairs, strict=True)) for context, pairs in zip(contexts, asked, strict=True)]
    return LabelRows(forced, tuple(rows), tuple(parts))


def _time_each(batches: Iterable[Sequence[tuple[Any, ...]]]) -> Iterator[tuple[Any, ...]]:
    """Each row of a batch, with its share of the seconds that the batch took."""
    start = time.perf_counter()
    for batch in batches:
        seconds = (time.perf_counter() - start) / max(len(batch), 1)
        yield from ((*found, seconds) for found in batch)
        start = time.perf_counter()


def _read_reply(request: Request, plan: LabelRows, found: Sequence[Any], seconds: float) -> Reply | Failure:
    """found: for each row its log-probabilities, or why there are none."""
    for message in found:
        if isinstance(message, str):
            return _tell_too_large(plan, message)
    # six digits: batches and threads move the last ones
    sums = [
        found[row][own].sum() + (1 - found[row][longer].exp().sum()).clamp(min=1e-12).log()
        for row, own, longer in plan.parts
    ]
    logprobs = tuple(float(f"{float(each):.6g}") for each in sums)
    likeliest = request.labels[max(range(len(logprobs)), key=logprobs.__getitem__)]
    return Reply(f"[[{likeliest}]]", plan.forced, 0, "logits", seconds, logprobs)


def _tell_too_large(plan: LabelRows, message: str) -> Failure:
    return Failure("out_of_memory", f"{len(plan.tokens):,} tokens of prompt: {message}")


def complete(
    model: Any, rows: Sequence[Sequence[int]], seeds: Sequence[int], decoding: Decoding, stops: frozenset[int]
) -> list[list[int]]:
    """The tokens of one completion for each row, its stop token included. Shorter rows have padding before them.

    Each row draws from its own generator, so what it draws depends neither on the other rows nor on their order.
    One row works for every causal model.
    """
    import torch
    from transformers import GenerationConfig, LogitsProcessorList

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def force_drawn(_: Tensor, scores: Tensor) -> Tensor:
        drawn = draw_tokens(scores, generators, decoding)
        return torch.full_like(scores, -torch.inf).scatter(1, drawn[:, None], 0.0)

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
            logits_processor=LogitsProcessorList([force_drawn]),
        )
    written = done[:, width:].tolist()
    ends = [next((i for i, token in enumerate(row, 1) if token in stops), len(row)) for row in written]
    return [row[:end] for row, end in zip(written, ends, strict=True)]


def draw_tokens(logits: Tensor, generators: Sequence[torch.Generator], decoding: Decoding) -> Tensor:
    """One token a row from the smallest set whose probability reaches top_p: logits [B, V], tokens [B].

    A row's uniform number comes from its own generator; the token is where the sum of the sorted probabilities, in
    double precision, passes it.
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
    kept = summed - ordered < decoding.top_p  # [B, V or _LIKELIEST]
    uniform = torch.stack([torch.rand((), generator=generator) for generator in generators]).to(logits.device)
    place = (summed < (uniform * (ordered * kept).sum(-1))[:, None]).sum(-1)
    place = place.minimum(kept.sum(-1) - 1)
    return order.gather(1, place[:, None])[:, 0]
