"""Asking a language model through the journal: look first, ask what is missing, keep each completion as it arrives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isnan

from nfqa.judge.journal import Entry, Journal, Record, hash_text
from nfqa.kernels.parse import Reading
from nfqa.models.chat import UNSETTLED, ChatModel, Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

RETRIES = 2  # further tries at an unreadable verdict, each under a new seed
_STRIDE = 1_000_003  # apart from any seed that a user counts up from 0
# A table must not be written over a server's bad hour: a run stops after so many failures in a row, or where more than
# this share of a batch failed for causes that pass. Fewer are missing with their reason, and asked again next time.
_ENOUGH_IN_A_ROW = 20
_FEW, _TOLERATED = 5, 0.05
_CHARACTERS_A_TOKEN = 4  # for the estimate alone; English text under the tokenizers of the time
Reader = Callable[[Reply, Request], Reading]


class StoppedError(ValueError):
    """Nothing more was asked: no such model, no access, or a cap. What was answered is kept."""


@dataclass(frozen=True)
class Verdict:
    """A number, or None with the reason. `attempts` counts the completions that were asked for."""

    value: float | None
    reason: str = ""
    attempts: int = 0
    mass: float | None = None


@dataclass
class Tally:
    """What asking came to. `kept` completions were in the journal before, `asked` are new; `missing` by reason."""

    wanted: int = 0
    kept: int = 0
    asked: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    characters_to_ask: int = 0  # of a plan alone

    @property
    def tokens_to_ask(self) -> int:
        """About how many tokens a plan's prompts hold, at four characters each."""
        return self.characters_to_ask // _CHARACTERS_A_TOKEN


class Asker:
    """Requests to one model, each completion kept in a journal.

    The model is opened at the first request that the journal can't serve, so a table can be made again from someone's
    journal with no model at hand. With `dry` nothing is asked: what would be is counted in the tally, and its verdict
    is missing as "planned". `progress` is told how many of a batch are answered, and of how many.
    """

    def __init__(
        self,
        spec: RoleSpec,
        open_model: Callable[[RoleSpec], ChatModel],
        journal: Journal,
        decoding: Decoding,
        *,
        retries: int = RETRIES,
        dry: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.spec = spec
        self.journal = journal
        self.decoding = decoding
        self.dry = dry
        self.tally = Tally()
        self._progress = progress or (lambda _done, _total: None)
        # A greedy or logit reading would say the same again.
        self.retries = retries if decoding.reading == "text" and decoding.temperature > 0 else 0
        self._open_model = open_model
        self._model: ChatModel | None = None
        self._sent = self._failed = self._in_a_row = 0  # over all batches: a bad hour may fall on many small ones
        self._known: tuple[str, str] | None = None

    @property
    def identity(self) -> str:
        """Model, revision and precision, as far as they are known: of the open model, or as the journal has them."""
        return self._describe()[0]

    def ask(self, requests: Sequence[Request], read: Reader) -> list[Verdict]:
        """The verdict of each request, in order.

        An unreadable completion is asked for again under new seeds, then missing with its last reason. A request that
        failed for a passing cause (a time-out, a busy server) is missing now and is asked again by the next run.
        Raises: StoppedError when every further request would fail alike, or when verdicts of this run came from the
            journal and the model that opens now is another than theirs.
        """
        self.tally.wanted += len(requests)
        verdicts = [Verdict(None, "planned" if self.dry else "unanswered") for _ in requests]
        todo = list(range(len(requests)))
        for attempt in range(self.retries + 1):
            shifted = [replace(requests[i], seed=requests[i].seed + attempt * _STRIDE) for i in todo]
            for i, found in zip(todo, self._obtain(shifted, read), strict=True):
                verdicts[i] = replace(found, attempts=attempt + 1)
            todo = [i for i in todo if verdicts[i].value is None and verdicts[i].reason in _WORTH_ANOTHER_TRY]
            if not todo:
                break
        self.tally.missing.update(verdict.reason for verdict in verdicts if verdict.value is None)
        return verdicts

    def write(self, prompts: Sequence[str], *, seed: int = 0, decoding: Decoding | None = None) -> list[str | None]:
        """Completions as texts, for a model that writes answers; None where none came, or an empty one.

        Args: decoding: another than the asker's own, for this call.
        """
        if decoding is not None:
            own, self.decoding = self.decoding, decoding
            try:
                return self.write(prompts, seed=seed)
            finally:
                self.decoding = own
        texts: dict[int, str] = {}
        requests = [Request(prompt, seed) for prompt in prompts]

        def read(reply: Reply, _: Request) -> Reading:
            ok = bool(reply.text.strip()) and reply.finish != "refused"
            return Reading(0.0) if ok else Reading(None, "empty")

        verdicts = self.ask(requests, read)
        for i, verdict in enumerate(verdicts):
            if verdict.value is not None:
                kept = self.journal.find(self._make_entry(requests[i], verdict.attempts - 1))
                texts[i] = kept.reply.text if kept else ""
        return [texts.get(i) for i in range(len(prompts))]

    def _obtain(self, requests: Sequence[Request], read: Reader) -> list[Verdict]:
        """Verdicts from the journal, or from the model for what it lacks."""
        entries = [self._make_entry(request) for request in requests]
        records = [self.journal.find(entry) for entry in entries]
        if all(records) or self.dry:
            return self._fill(requests, entries, records, read)
        with self.journal.hold():  # what another process was asking until now is found there
            if self._model is None:
                self._open()
            entries = [self._make_entry(request) for request in requests]
            return self._fill(requests, entries, [self.journal.find(entry) for entry in entries], read)

    def _open(self) -> None:
        known, self._known = self._known, None
        self._model = self._open_model(self.spec)
        if self._describe() != known and self.tally.kept:  # another revision or template than the kept ones are of
            raise StoppedError(
                f"{self.tally.kept} verdicts of this run are kept ones of {known}, but the model is now"
                f" {self._describe()}; run it as it was (revision, number format, template), or name the revision"
                " or another journal, so that the two are not mixed"
            )

    def _fill(
        self, requests: Sequence[Request], entries: list[Entry], records: list[Record | None], read: Reader
    ) -> list[Verdict]:
        self.tally.kept += sum(record is not None for record in records)
        replies: dict[str, Reply | Failure] = {
            entry.key: record.reply for entry, record in zip(entries, records, strict=True) if record
        }
        missing = {entry.key: i for i, entry in enumerate(entries) if entry.key not in replies}  # equal ones once
        if self.dry:
            self.tally.asked += len(missing)
            self.tally.characters_to_ask += sum(len(requests[i].prompt) for i in missing.values())
            replies |= dict.fromkeys(missing, Failure("planned", ""))
        elif missing:
            asked = list(missing.values())
            replies |= self._send([requests[i] for i in asked], [entries[i] for i in asked], read)
        return [_read(replies[entry.key], request, read) for entry, request in zip(entries, requests, strict=True)]

    def _send(self, requests: list[Request], entries: list[Entry], read: Reader) -> dict[str, Reply | Failure]:
        if self._model is None:
            raise RuntimeError("the model must be open before anything is sent")
        found: dict[str, Reply | Failure] = {}
        last = ""
        self._sent += len(requests)
        self._progress(0, len(requests))
        sent = [replace(r, seed=scatter_seed(e.seed, e.prompt)) for r, e in zip(requests, entries, strict=True)]
        for number, result in self._model.answer(sent, self.decoding):
            entry = entries[number]
            if isinstance(result, Reply) and any(map(isnan, result.logprobs or ())):
                result = Failure("bad_logprobs", "the model gave no probabilities (NaN)")
            found[entry.key] = result
            self._progress(len(found), len(requests))
            if isinstance(result, Failure):
                self._in_a_row, last = self._in_a_row + 1, result.detail
                self._failed += result.reason in UNSETTLED
                if result.fatal or (self._in_a_row >= _ENOUGH_IN_A_ROW and result.reason in UNSETTLED):
                    said = f"{self.spec.identity}: {result.detail}"
                    raise StoppedError("; ".join(filter(None, [said, self.journal.trouble])))
                continue
            self._in_a_row = 0
            verdict = _read(result, requests[number], read)
            record = Record(entry, result, verdict.value, verdict.reason, self.spec.identity)
            found[entry.key] = self.journal.keep(record).reply
            if self.journal.trouble and not self.journal.spares:
                raise StoppedError(self.journal.trouble)
            self.tally.asked += 1
            self.tally.prompt_tokens += result.prompt_tokens
            self.tally.completion_tokens += result.completion_tokens
        if self.journal.trouble:
            raise StoppedError(self.journal.trouble)
        if last and self._failed >= _FEW and self._failed > _TOLERATED * self._sent:
            raise StoppedError(
                f"{self.spec.identity}: {self._failed} of {self._sent} requests failed, too many to leave out;"
                f" what was answered is kept, run again. The last: {last}"
            )
        lost = Failure("unanswered", "the backend gave neither a completion nor a failure")
        return {entry.key: found.get(entry.key, lost) for entry in entries}

    def _make_entry(self, request: Request, attempt: int = 0) -> Entry:
        model, template = self._describe()
        greedy = self.decoding.reading == "logits"
        return Entry(
            prompt=hash_text(request.prompt),
            model=model,
            template=template,
            decoding=self.decoding.signature,
            seed=0 if greedy else request.seed + attempt * _STRIDE,
            labels=request.labels if greedy else (),
        )

    def _describe(self) -> tuple[str, str]:
        """Model and template: of the open model, or as the journal remembers them, or as the spec alone has them."""
        plain = self.decoding.wrapping == "plain"
        if self._model is not None:
            return self._model.identity, "plain" if plain else self._model.template
        if self._known is None:
            found = self.journal.find_models(self.spec.identity, plain=plain)
            self._known = found[0] if found else (self.spec.identity, "unknown")
        return self._known


def scatter_seed(seed: int, prompt: str) -> int:
    """The seed that a backend is given, 31 bits of a hash of seed and prompt hash: no two prompts share their luck."""
    return int(hash_text(f"{seed}|{prompt}")[:8], 16) >> 1


_WORTH_ANOTHER_TRY = {"unreadable", "ambiguous", "out_of_range", "empty", "cut_short", "refused"}


def _read(result: Reply | Failure, request: Request, read: Reader) -> Verdict:
    if isinstance(result, Failure):
        return Verdict(None, result.reason)
    if result.finish == "refused":  # whatever brackets its text may hold
        return Verdict(None, "refused")
    reading = read(result, request)
    if reading.value is None and reading.reason in ("unreadable", "empty") and result.finish == "length":
        return Verdict(None, "cut_short")
    return Verdict(reading.value, reading.reason, mass=reading.mass)


def merge_tallies(tallies: Iterable[Tally]) -> Tally:
    """The sum of several."""
    total = Tally()
    for tally in tallies:
        for name in ("wanted", "kept", "asked", "prompt_tokens", "completion_tokens", "characters_to_ask"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        total.missing.update(tally.missing)
    return total
