"""Asking a language model through the journal: look first, ask what is missing, keep each
completion as it arrives.
"""

from __future__ import annotations

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from math import isnan
from operator import add
from typing import Any

from nfqa.judge.journal import WITHOUT, Entry, Journal, hash_text
from nfqa.kernels.parse import Verdict
from nfqa.kernels.texts import leave_out_thinking, name_lack
from nfqa.models.chat import UNSETTLED, ChatModel, Decoding, Failure, Reply, Request
from nfqa.models.loading import one_at_a_time
from nfqa.models.roles import RoleSpec

RETRIES = 2  # further tries at an unreadable verdict, each under a new seed
_STRIDE = 1_000_003  # apart from any seed that a user counts up from 0
# A table must not be written over a server's bad hour: a run stops after so many failures in a row, or where more than
# this share of a batch failed for causes that pass. Fewer are missing with their reason, and asked again next time.
_ENOUGH_IN_A_ROW = 20
_FEW = 5
_TOLERATED = 0.05
_WORTH_ANOTHER_TRY = {"unreadable", "ambiguous", "out_of_range", "empty", "only_thinking", "cut_short", "refused"}
Reader = Callable[[Reply, Request], Verdict]
Identity = tuple[str, str]  # model, revision and precision; and what wraps a prompt. Both enter every key.


class StoppedError(ValueError):
    """Nothing more was asked: no such model, no access, or a cap. What was answered is kept."""


@dataclass
class Tally:
    """What asking came to: verdicts needed, completions from the journal, new requests; `missing`
    by reason.
    """

    verdicts: int = 0
    cached: int = 0
    requests: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    thinking: int = 0  # written texts that came after thinking, which was left out
    tokens_to_ask: float = 0.0  # of a plan alone: about what its prompts hold, at four characters of English each


@dataclass
class _Session:
    """A model that several askers share: opened once, its failures counted together."""

    model: ChatModel | None = None
    # Of plain prompts and of others: whose completions the journal has, and whose this run has used.
    recalled: dict[bool, Identity] = field(default_factory=dict)
    served: dict[bool, Identity] = field(default_factory=dict)
    decodings: dict[str, str] = field(default_factory=dict)  # as the journal has them
    warnings: set[str] = field(default_factory=set)
    sent: int = 0
    failed: int = 0  # over all batches: a bad hour may fall on many small ones
    failed_in_a_row: int = 0


@dataclass(eq=False)
class Asker:
    """Requests to one model, each completion kept in a journal.

    The model is opened at the first request that the journal can't serve, so a table can be made
    again from someone's journal with no model at hand. With `dry` nothing is asked: what would be
    is counted in the tally, and its verdict is missing as "planned". `note` receives all requests
    with what they depend on. `progress` receives how many of a batch are answered, and of how many.
    `tally` counts all requests so far. Threads ask one after the other. precision: that of a model
    in process, where it was chosen; completions of another don't count.
    """

    spec: RoleSpec
    open_model: Callable[[RoleSpec], ChatModel]
    journal: Journal
    decoding: Decoding
    dry: bool = False
    progress: Callable[[int, int], None] = lambda _done, _total: None
    precision: str = ""
    note: Callable[[Asker, Sequence[Request], Sequence[Entry]], None] | None = None
    tally: Tally = field(default_factory=Tally)
    _session: _Session = field(default_factory=_Session)
    _lock: Any = field(default_factory=threading.RLock)

    def with_decoding(self, decoding: Decoding) -> Asker:
        """An asker of the same model under another decoding; model, journal and tally are shared."""
        return replace(self, decoding=decoding)

    def close(self) -> None:
        """Let go of the model, where one was opened; the next request opens it again."""
        if self._session.model is not None:
            self._session.model.close()
            self._session.model = None

    @property
    def retries(self) -> int:
        """Further tries at an unreadable verdict; none where a greedy or logits reading would say
        the same again.
        """
        return RETRIES if self.decoding.reading == "text" and self.decoding.temperature > 0 else 0

    @property
    def identity(self) -> str:
        """Model, revision and precision: of the open model, else as the journal has them, else the
        spec alone.
        """
        return self._identify()[0]

    def _identify(self) -> Identity:
        session = self._session
        plain = self.decoding.wrapping == "plain"
        if session.model is not None:
            return _identify(session.model, plain)
        if plain not in session.recalled:
            models = self.journal.find_models(self.spec.identity, plain=plain)
            fitting = (model for model in models if not self.precision or model[0].endswith(f"|{self.precision}"))
            session.recalled[plain] = next(fitting, (self.spec.identity, "unknown"))
        return session.recalled[plain]

    @property
    def signature(self) -> str:
        """The decoding, and what of it the server would not take: of the open model, else as the
        journal has it.
        """
        decodings = self._session.decodings
        signature = self.decoding.signature
        if self._left_out or self.decoding.reading != "text":
            return signature + self._left_out
        if signature not in decodings:
            decodings[signature] = next(iter(self.journal.find_decodings(self.spec.identity, signature)), signature)
        return decodings[signature]

    @property
    def _left_out(self) -> str:
        names = getattr(self._session.model, "left_out", "") if self.decoding.reading == "text" else ""
        return f"{WITHOUT}{names}" if names else ""

    @one_at_a_time
    def ask(self, requests: Sequence[Request], read: Reader) -> list[Verdict]:
        """The verdict of each request, in order.

        An unreadable completion is asked for again under new seeds, then missing with its last
        reason. A request that failed for a passing cause (a time-out, a busy server) is missing now
        and is asked again by the next run.
        Raises: StoppedError when every further request would fail alike, when the journal can't be
            written, or when verdicts of this run came from the journal and the model that opens now
            is another one.
        """
        self.tally.verdicts += len(requests)
        verdicts = self._obtain(requests, read)
        for attempt in range(1, self.retries + 1):
            unread = [i for i, verdict in enumerate(verdicts) if verdict.reason in _WORTH_ANOTHER_TRY]
            again = [replace(requests[i], seed=requests[i].seed + attempt * _STRIDE) for i in unread]
            for i, verdict in zip(unread, self._obtain(again, read), strict=True):
                verdicts[i] = verdict
        self.tally.missing.update(verdict.reason for verdict in verdicts if verdict.value is None)
        return verdicts

    def write(self, prompts: Sequence[str], *, seed: int = 0, whole: bool = False) -> list[str | None]:
        """Completions as texts, for a model that writes answers; None where none came, or one that
        says nothing.
        """
        return [getattr(reply, "text", None) for reply in self.reply(prompts, seed=seed, whole=whole)]

    def reply(self, prompts: Sequence[str], *, seed: int = 0, whole: bool = False) -> list[Reply | Failure]:
        """Each prompt's completion, or why there is none; `finish` is "length" for one that was cut
        at its limit.

        Its thinking is removed, and counted; one that is all thinking is missing as
        "only_thinking".
        Args: whole: a cut one is asked for again as an unreadable one is, then missing as
            "cut_short".
        """
        replies: dict[str, Reply] = {}

        def read(reply: Reply, request: Request) -> Verdict:
            lack = "empty" if whole and reply.finish == "length" else name_lack(reply.text)
            replies[request.prompt] = replace(reply, text=leave_out_thinking(reply.text))
            thinking[request.prompt] = not lack and replies[request.prompt] != reply
            return Verdict(None, lack) if lack else Verdict(0.0)  # "cut_short" where an empty one was

        thinking: dict[str, bool] = {}
        verdicts = self.ask([Request(prompt, seed) for prompt in prompts], read)
        self.tally.thinking += sum(thinking.values())
        return [
            Failure(verdict.reason, "") if verdict.value is None else replies[prompt]
            for prompt, verdict in zip(prompts, verdicts, strict=True)
        ]

    def _obtain(self, requests: Sequence[Request], read: Reader) -> list[Verdict]:
        """Verdicts from the journal, or from the model for what it lacks."""
        entries, replies = self._look_up(requests)
        if self.note:
            self.note(self, requests, entries)
        asks = not self.dry and len(replies) < len({entry.key for entry in entries})
        with self.journal.lock() if asks else nullcontext():
            if asks:
                self._open(missing=len({entry.key for entry in entries}) - len(replies), stored=len(replies))
                entries, replies = self._look_up(requests)  # with what another process was asking until now
            if replies:
                self.tally.cached += sum(entry.key in replies for entry in entries)
                self._session.served[self.decoding.wrapping == "plain"] = (entries[0].model, entries[0].template)
            todo = {e.key: (r, e) for e, r in zip(entries, requests, strict=True) if e.key not in replies}
            if todo:
                send = self._plan if self.dry else self._send
                replies |= send(todo, read)
        return [self._read(replies[entry.key], request, read) for entry, request in zip(entries, requests, strict=True)]

    def _look_up(self, requests: Sequence[Request]) -> tuple[list[Entry], dict[str, Reply | Failure]]:
        """What each completion depends on, and those that the journal has, by key."""
        common = Entry("", *self._identify(), self.signature, 0)
        text = self.decoding.reading == "text"
        entries = [
            replace(common, prompt=hash_text(one.prompt), **({"seed": one.seed} if text else {"labels": one.labels}))
            for one in requests
        ]
        replies = ((entry.key, self.journal.find(entry)) for entry in entries)
        return entries, {key: reply for key, reply in replies if reply is not None}

    def _open(self, *, missing: int = 0, stored: int = 0) -> ChatModel:
        """The model.

        Args: missing, stored: completions that it is opened for, and those beside them that the
            journal has.
        Raises: StoppedError where this run has used completions of another; ValueError where it
            can't be opened.
        """
        session = self._session
        if session.model is None:
            try:
                session.model = self.open_model(self.spec)
            except ValueError as error:
                if not stored:
                    raise
                counts = f"{stored:,} completions are stored, and {missing:,} more need the model"
                pace = "about two seconds each on two cores for a model of 1.5 billion parameters"
                raise ValueError(f"{self.spec.short}: {counts} ({pace}); {error}") from error
            for plain, (model, template) in session.served.items():
                now = _identify(session.model, plain)
                if now != (model, template):
                    raise StoppedError(
                        f"{self.tally.cached} verdicts of this run are kept ones of {model} ({template}), but the model"
                        f" is now {now[0]} ({now[1]}): run it as it was (NFQA_DTYPE names a precision), or name its"
                        " revision or another journal, or request the committed ones again with FRESH=1"
                    )
        return session.model

    def _plan(self, todo: dict[str, tuple[Request, Entry]], _: Reader) -> dict[str, Reply | Failure]:
        """Count what would be asked."""
        self.tally.requests += len(todo)
        self.tally.tokens_to_ask += sum(len(one.prompt) for one, _ in todo.values()) / 4
        return dict.fromkeys(todo, Failure("planned", ""))

    def _send(self, todo: dict[str, tuple[Request, Entry]], read: Reader) -> dict[str, Reply | Failure]:
        """Ask for what is missing, each completion kept when it arrives."""
        session = self._session
        last = ""
        lost = Failure("unanswered", "the backend gave neither a completion nor a failure")
        results: dict[str, Reply | Failure] = dict.fromkeys(todo, lost)
        session.sent += len(todo)
        self.progress(0, len(todo))
        pairs = list(todo.values())
        requests = [replace(request, seed=scatter_seed(entry.seed, entry.prompt)) for request, entry in pairs]
        for done, (number, result) in enumerate(self._open().answer(requests, self.decoding), 1):
            request, entry = pairs[number]
            if isinstance(result, Reply) and any(map(isnan, result.logprobs or ())):
                result = Failure("bad_logprobs", "the model gave no probabilities (NaN)")
            results[entry.key] = result
            self.progress(done, len(todo))
            if isinstance(result, Failure):
                last = result.detail
                session.failed_in_a_row += 1
                session.failed += result.reason in UNSETTLED
                if result.fatal or (session.failed_in_a_row >= _ENOUGH_IN_A_ROW and result.reason in UNSETTLED):
                    raise StoppedError(f"{self.spec.identity}: {last}")
                if result.reason == "bad_request":
                    self._warn(result.reason, f"a request was refused, and is missing: {last}")
                continue
            session.failed_in_a_row = 0
            if names := self._left_out.removeprefix(WITHOUT):
                self._warn(names, f"takes no {names}, so its own default counts; signatures say so")
            actual = replace(entry, decoding=self.decoding.signature + self._left_out)
            verdict = self._read(result, request, read)
            try:
                results[entry.key] = self.journal.keep(actual, result, verdict, spec=self.spec.identity)
            except ValueError as error:  # what else was on its way is lost, but no more than that
                raise StoppedError(
                    f"{error}; no more requests are sent; free disk space or repair the file, and run again"
                ) from None
            self.tally.requests += 1
            self.tally.prompt_tokens += result.prompt_tokens
            self.tally.completion_tokens += result.completion_tokens
        if last and session.failed >= _FEW and session.failed > _TOLERATED * session.sent:
            raise StoppedError(
                f"{self.spec.identity}: {session.failed} of {session.sent} requests failed, too many to continue;"
                f" finished answers are saved; to resume, run again. The last: {last}"
            )
        return results

    def _read(self, result: Reply | Failure, request: Request, read: Reader) -> Verdict:
        verdict = _read(result, request, read)
        if verdict.reason == "cut_short" and self.spec.role == "judge":
            most = self.decoding.max_tokens
            advice = f"raise MAX_TOKENS={most} (--max-tokens of nfqa score, max_tokens= in Python)"
            self._warn("cut_short", f"a completion reached its limit before its verdict, and is missing: {advice}")
        return verdict

    def _warn(self, subject: str, message: str) -> None:
        """Warn of a subject, once for a model."""
        if subject not in self._session.warnings:
            self._session.warnings.add(subject)
            warnings.warn(f"{self.spec.identity}: {message}", stacklevel=2)


def scatter_seed(seed: int, prompt: str) -> int:
    """The seed that a backend is given, 31 bits of a hash of seed and prompt hash: no two prompts
    share their luck.
    """
    return int(hash_text(f"{seed}|{prompt}")[:8], 16) >> 1


def _identify(model: ChatModel, plain: bool) -> Identity:
    return model.identity, "plain" if plain else model.template


def _read(result: Reply | Failure, request: Request, read: Reader) -> Verdict:
    if isinstance(result, Failure):
        return Verdict(None, result.reason)
    if result.finish == "refused":  # whatever brackets its text may hold
        return Verdict(None, "refused")
    verdict = read(result, request)
    cut = result.finish == "length" and verdict.reason in ("unreadable", "empty")
    return Verdict(None, "cut_short") if cut else verdict


def merge_tallies(tallies: Iterable[Tally]) -> Tally:
    """The sum of several."""
    return reduce(lambda one, other: Tally(*map(add, vars(one).values(), vars(other).values())), tallies, Tally())
