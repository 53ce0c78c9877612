"""A causal language model in this process: any model of the hub or a folder, by transformers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.label_tree import LabelTree, grow_tree
from nfqa.models.one_prompt import Sampling, complete_plain, compute_logprobs_plain
from nfqa.models.pretrained import Pretrained, break_marks
from nfqa.models.roles import RoleSpec
from nfqa.models.shared_prefix import (
    can_pack,
    can_share,
    complete_rows,
    count_common,
    find_context,
    find_window,
    run_packed,
    run_prefix,
    run_rows,
)

_Way = Literal["plain", "rows", "packed"]
_PACKED_TOKENS = 512  # a row: attention costs the square of it, and a matrix product gains nothing from more


@dataclass(frozen=True)
class _Job:
    """One request, tokenised. `rows` are what the model runs: several only where labels share their first tokens."""

    number: int
    seed: int
    rows: tuple[tuple[int, ...], ...]
    tree: LabelTree | None
    labels: tuple[str, ...]

    @property
    def length(self) -> int:
        return max(map(len, self.rows))

    @property
    def reading_from(self) -> int:
        """The first place whose next token matters; what is before it can be shared."""
        return len(self.tree.forced if self.tree else self.rows[0]) - 1


class CausalLM:
    """Completions and next-token readings of a model given as `hf:NAME[@REVISION]` or `path:FOLDER`.

    device, dtype and trust_remote_code are `Pretrained`'s; only float32 keeps the shared and the plain way within 1e-4
    of each other. batch_tokens bounds the tokens, padding and shared beginning included, whose keys and values a batch
    holds; it is halved when the device runs out of memory.

    Of the model's own generation settings only the stop tokens count: no penalty or top-k applies that `Decoding`
    does not name. `broken_marks` counts the prompts in which `break_marks` found a control mark.
    """

    def __init__(
        self,
        spec: RoleSpec,
        *,
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int = 16_384,
        trust_remote_code: bool = False,
        progress: bool = False,
    ) -> None:
        if batch_tokens < 1:
            raise ValueError(f"batch_tokens is {batch_tokens}; expected 1 or more")
        self.batch_tokens = batch_tokens
        self.broken_marks = 0
        self._progress = progress
        self._loaded = Pretrained(
            spec, device=device, dtype=dtype, trust_remote_code=trust_remote_code, progress=progress
        )

    @property
    def identity(self) -> str:
        """Name, commit (or revision, or "unpinned"; of a folder the hash of its files) and precision."""
        return self._loaded.identity

    @property
    def template(self) -> str:
        """The word chat and the hash of the model's chat template, or "none"; plain wrapping takes no notice of it."""
        return self._loaded.template

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        """Each request's number with its reply or failure, as each batch is done.

        Requests of one group have the tokens that they begin with run once. A "logits" reply's text is the likeliest
        label; its `prompt_tokens` include the forced `[[`, and it has no completion tokens, as none was written.
        A request that does not fit the model's context is a Failure "too_long", never cut.
        Raises: ValueError for "chat" wrapping without a chat template, labels that can't be told apart, or a model
        that can't be loaded.
        """
        return self._answer(requests, decoding, share=True)

    def answer_plain(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        """The same by the plain way, one prompt at a time with nothing shared: what `answer` is held against."""
        return self._answer(requests, decoding, share=False)

    def close(self) -> None:
        """Let go of the model's memory; the next request loads it again."""
        self._loaded.drop_model()

    @cached_property
    def _shares(self) -> bool:
        return can_share(self._loaded.model)

    @cached_property
    def _packs(self) -> bool:
        return can_pack(self._loaded.model)

    def _answer(
        self, requests: Sequence[Request], decoding: Decoding, share: bool
    ) -> Iterator[tuple[int, Reply | Failure]]:
        from tqdm import tqdm

        marks = self._loaded.find_marks(decoding.wrapping)
        groups: dict[str, list[int]] = {}
        for number, request in enumerate(requests):
            groups.setdefault(request.group, []).append(number)
        share = share and self._shares
        with tqdm(total=len(requests), unit="prompt", disable=not self._progress) as bar:
            for group, numbers in groups.items():
                jobs: list[_Job] = []
                for number in numbers:
                    job = self._prepare(number, requests[number], decoding, marks)
                    if isinstance(job, _Job):
                        jobs.append(job)
                    else:
                        bar.update()
                        yield number, job
                for number, result in self._run(jobs, decoding, share, bool(group)):
                    bar.update()
                    yield number, result

    def _prepare(self, number: int, request: Request, decoding: Decoding, marks: frozenset[str]) -> _Job | Failure:
        """The request as tokens, or why it can't be run."""
        text = break_marks(request.prompt, marks)
        self.broken_marks += text != request.prompt
        if decoding.wrapping == "chat":
            text = self._loaded.wrap(text)
        tree = None
        if decoding.reading == "logits":
            ends = ["[[", *(f"[[{label}]]" for label in request.labels)]
            stub, *sequences = self._loaded.tokenise_ends(text, ends, decoding.wrapping)
            tree = grow_tree(request.labels, sequences, stub)
            rows = tuple(tree.rows)
        else:
            rows = (tuple(self._loaded.tokenise([text], decoding.wrapping)[0]),)
        job = _Job(number, request.seed, rows, tree, request.labels)
        if not all(rows):
            return Failure("empty_prompt", "the prompt has no tokens, and the tokenizer puts none before it")
        room = 0 if tree else decoding.max_tokens
        context = find_context(self._loaded.config)
        if context is not None and job.length + room > context:
            detail = f"{job.length:,} tokens of prompt and {room:,} to write, but the model's context is {context:,}"
            return Failure("too_long", detail)
        return job

    def _run(
        self, jobs: list[_Job], decoding: Decoding, share: bool, grouped: bool
    ) -> Iterator[tuple[int, Reply | Failure]]:
        """Answers of one group, in batches of prompts of about the same length."""
        import torch

        jobs = sorted(jobs, key=lambda job: job.length)
        begun = 0
        if share and grouped and len(jobs) > 1:
            rows = [row for job in jobs for row in job.rows]
            begun = min(count_common(rows), *(job.reading_from for job in jobs))
        way = self._choose_way(jobs, decoding) if share else "plain"
        prefix = None
        while jobs:
            size, used = self._count_batch(jobs, decoding, way, begun)
            start, message = time.perf_counter(), ""
            try:
                if way != "plain" and prefix is None:
                    prefix = run_prefix(self._loaded.model, jobs[0].rows[0][:begun])
                replies = self._answer_batch(jobs[:size], decoding, way, prefix, begun)
            except torch.OutOfMemoryError as error:
                message = str(error).partition("\n")[0][:200] or "no more memory"
            if message:
                torch.cuda.empty_cache()  # out of the handler: its traceback would hold on to the batch's tensors
                if size > 1:
                    self.batch_tokens = used // 2
                    continue
                yield jobs[0].number, Failure("out_of_memory", f"{jobs[0].length:,} tokens of prompt: {message}")
            else:
                seconds = (time.perf_counter() - start) / size
                for job, reply in zip(jobs[:size], replies, strict=True):
                    yield job.number, replace(reply, seconds=seconds)
            jobs = jobs[size:]

    def _choose_way(self, jobs: list[_Job], decoding: Decoding) -> _Way:
        """Ends that are only read go into one row; what writes, or looks back through a window, has its own."""
        if decoding.reading == "text" or len(jobs) < 2:
            return "rows"
        window = find_window(self._loaded.config)
        return "packed" if (window is None or jobs[-1].length <= window) and self._packs else "rows"

    def _count_batch(self, jobs: list[_Job], decoding: Decoding, way: _Way, begun: int) -> tuple[int, int]:
        """How many of the jobs, in rising length, make the next batch, and how many tokens it holds.

        What a row writes stands after its padding. A window of the last tokens would reach less far back over such a
        gap, so where a window is shorter than the rows, only prompts of equal length are put together.
        """
        room = decoding.max_tokens if decoding.reading == "text" else 0
        window = find_window(self._loaded.config)
        rows = packed = used = 0
        for count, job in enumerate(jobs):
            rows += len(job.rows)
            packed += sum(len(row) - begun for row in job.rows)
            width = job.length + room
            gap = room and window and width > window and job.length > jobs[0].length
            holds = begun + packed if way == "packed" else rows * width
            full = holds > self.batch_tokens or (way == "packed" and packed > _PACKED_TOKENS) or way == "plain"
            if count and (full or gap):
                return count, used
            used = holds
        return len(jobs), used

    def _answer_batch(self, jobs: list[_Job], decoding: Decoding, way: _Way, prefix: Any, begun: int) -> list[Reply]:
        """Replies to one batch, after a prefix of `begun` tokens."""
        if decoding.reading == "logits":
            return self._read_labels(jobs, way, prefix, begun)
        sampling = Sampling(decoding.temperature, decoding.top_p, decoding.max_tokens, self._loaded.stops)
        if way == "plain":
            written = [complete_plain(self._loaded.model, job.rows[0], job.seed, sampling) for job in jobs]
        else:
            suffixes = [job.rows[0][begun:] for job in jobs]
            written = complete_rows(self._loaded.model, prefix, suffixes, [job.seed for job in jobs], sampling)
        replies = []
        for job, tokens in zip(jobs, written, strict=True):
            text = self._loaded.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            finish = "stop" if tokens[-1] in self._loaded.stops else "length"
            replies.append(Reply(text, job.length, len(tokens), finish))
        return replies

    def _read_labels(self, jobs: list[_Job], way: _Way, prefix: Any, begun: int) -> list[Reply]:
        trees = [job.tree for job in jobs if job.tree is not None]
        model = self._loaded.model
        if way == "plain":
            tables = [compute_logprobs_plain(model, row, tree.depth) for tree in trees for row in tree.rows]
        else:
            suffixes = [row[begun:] for job in jobs for row in job.rows]
            depth = max(tree.depth for tree in trees)
            run = run_packed if way == "packed" else run_rows
            tables = list(run(model, prefix, suffixes, depth).log_softmax(-1))
        replies = []
        for job, tree in zip(jobs, trees, strict=True):
            logprobs = tree.sum_logprobs(tables[: len(job.rows)])
            tables = tables[len(job.rows) :]
            likeliest = job.labels[max(range(len(logprobs)), key=logprobs.__getitem__)]
            replies.append(Reply(f"[[{likeliest}]]", len(tree.forced), 0, "logits", logprobs=logprobs))
        return replies
