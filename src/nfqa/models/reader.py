"""Whether a text states something: SmolLM2 reads the text, then the claim, and gives a probability."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nfqa.files.code import hash_maker
from nfqa.files.committed import RowFormat
from nfqa.files.paths import hash_file
from nfqa.files.store import Store
from nfqa.models.adapters import apply_adapter
from nfqa.models.loading import one_at_a_time, open_once
from nfqa.models.roles import MODELS, ROLES, SMOLLM2, find_package_file, is_installed, parse_role
from nfqa.models.vectors import split_batches

WEIGHTS = MODELS / "reader" / "smollm2.safetensors"
LONGEST = 256  # tokens of a text and of a claim; what is longer is cut at its end
CLAIMS = 16  # on a text that are read at once
LAYERS = 24  # of SmolLM2's 30, which the claim is read by
CLAIM = "\n\nClaim: "  # SmolLM2 reads the text, CLAIM, the claim and STATED
STATED = "\nStated:"
READER_CUT = "a text was cut at its end to fit the reader"  # the note of a score
# Readings in git. key: a hash of the reader, the text and the claim.
READINGS = RowFormat({"key": "binary", "reader": "string", "logit": "double", "cut": "int32"}, itemgetter("key"))
_CODE = ("nfqa.models.reader", "nfqa.models.adapters")
_PACKAGES = ("transformers", "torch")


def find_reader(judge: str) -> str:
    """What reads for coverage by the name of a judge: SMOLLM2, "embedded" for vectors, "" for
    another language model.

    For "" it is SmolLM2 where it is installed, else vectors; they stand for each form of LINKAGE's
    embedded judge.
    """
    if judge in ("embedded", *ROLES["judge"].fixed):
        return "embedded"
    if not judge:
        return SMOLLM2 if is_installed(SMOLLM2) else "embedded"
    return SMOLLM2 if judge == SMOLLM2 else ""


@open_once
def open_reader() -> Reader:
    """The reader of this process, which keeps what it read for as long as that lives.

    Raises: ValueError where SmolLM2 is not installed.
    """
    find_package_file(Reader.spec.name)
    return Reader()


class Reader:
    """SmolLM2 135M that reads a text once, and each claim about it after it.

    Formula: P(text states claim) = 1 / (1 + exp(-w . h - b)), h the 24th layer, normalised, at the
    last token of text CLAIM claim STATED, the model's matrices changed by a low-rank addition.
    That, w and b were learned from pairs that people and this project wrote
    (`tools/train_reader.py`). Claims on one text don't see each other. English. Logits are rounded
    to 1e-3, so that results don't depend on the last bits of one processor's arithmetic.
    Args: store: a file that keeps readings; committed: Parquet files of readings, for what the
        store lacks; note: receives every call, and nothing is read: what is neither stored nor
        committed is NaN; progress: whether to show a bar.
    Source: LoRA, Hu et al. 2022. Differs from: sequence classification in transformers, in that a
        text's claims share its tokens.
    """

    spec = parse_role("evaluator", SMOLLM2)

    def __init__(
        self,
        store: Path | None = None,
        *,
        committed: Sequence[Path] = (),
        note: Callable[[Reader, Sequence[tuple[str, str]]], None] | None = None,
        progress: bool = False,
    ) -> None:
        self._lock = threading.RLock()
        self.file = WEIGHTS
        self._note = note
        self._progress = progress
        self.signature = f"reader:{hash_file(self.file)[:12]}|base:{self.spec.identity}"
        self._made_by = hash_maker(*_CODE, within=_CODE, packages=_PACKAGES)
        about = {"lasting": "BLOB", "reader": "TEXT", "made_by": "TEXT"}
        self._store = Store(store, "readings", logit="REAL", cut="INTEGER", **about)
        self._committed = READINGS.read(committed)

    def read(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """The probability that each text states the claim beside it, [n]."""
        logits = np.array([logit for logit, _ in self._find(pairs)], dtype=np.float64)
        return np.asarray(1 / (1 + np.exp(-logits)))

    def find_cut(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the pairs of a text and a claim that were longer than the model reads."""
        return {pair for pair, (_, cut) in zip(pairs, self._find(pairs), strict=True) if cut}

    def find_committed(self, pair: tuple[str, str]) -> tuple[float, int] | None:
        """A committed logit and whether the pair was cut, or None."""
        row = self._committed.get(self._hash(pair)[1])
        return (row["logit"], row["cut"]) if row else None

    @one_at_a_time
    def _find(self, pairs: Sequence[tuple[str, str]]) -> list[tuple[float, int]]:
        """The logit of each pair and whether it was cut; what isn't known is read."""
        hashed = {pair: self._hash(pair) for pair in pairs}
        lasting = dict(hashed.values())
        known = {key: (row["logit"], row["cut"]) for key, name in lasting.items() if (row := self._committed.get(name))}
        known |= self._store.read(lasting, "logit", "cut")
        if self._note:
            self._note(self, pairs)
            return [known.get(hashed[pair][0], (np.nan, 0)) for pair in pairs]
        missing = {pair: hashed[pair] for pair in hashed if hashed[pair][0] not in known}
        if missing:
            known |= self._compute(missing)
        return [known[hashed[pair][0]] for pair in pairs]

    def _hash(self, pair: tuple[str, str]) -> tuple[bytes, bytes]:
        """The key of a reading in the store; and the one without code and versions, under which it
        is committed.
        """
        lasting = hashlib.sha256(json.dumps([self.signature, *pair]).encode()).digest()[:16]
        return hashlib.sha256(self._made_by.encode() + lasting).digest(), lasting

    def list_kept(self) -> list[dict[str, Any]]:
        """What the store holds that the present code has read, in the columns of READINGS."""
        rows = self._store.select("SELECT lasting, reader, logit, cut FROM {table} WHERE made_by = ?", [self._made_by])
        return [dict(zip(READINGS.columns, row, strict=True)) for row in rows]

    @one_at_a_time
    def forget(self) -> None:
        """Let go of what is not on disk."""
        self._store.forget()

    def _compute(self, keys: dict[tuple[str, str], tuple[bytes, bytes]]) -> dict[bytes, tuple[float, int]]:
        """Read pairs and keep the results. Returns: the logit and whether it was cut, by the key in
        the store.
        """
        from tqdm import tqdm

        pairs = list(keys)
        made: dict[bytes, tuple[float, int]] = {}
        with tqdm(total=len(pairs), desc="reading", unit="pair", disable=not self._progress, delay=1) as bar:
            for results in self.read_anew(pairs):
                rows = []
                for place, logit, cut in results:
                    key, lasting = keys[pairs[place]]
                    made[key] = logit, int(cut)
                    rows.append((key, logit, int(cut), lasting, self.signature, self._made_by))
                self._store.write(rows)
                bar.update(len(results))
        return made

    def read_anew(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[tuple[int, float, bool]]]:
        """Each pair's place in `pairs`, its logit and whether it was cut, batch by batch; nothing
        is kept.
        """
        import torch

        from nfqa.models.pretrained import break_marks

        tokenizer, model, weight, bias = self._model
        marks = frozenset(tokenizer.all_special_tokens)

        def tokenise(texts: Sequence[str], end: str = "") -> tuple[list[list[int]], list[bool]]:
            plain = [break_marks(text, marks) + end or " " for text in texts]
            *rows, last = tokenizer([*plain, end], add_special_tokens=False, verbose=False)["input_ids"]
            fitting = [row if len(row) <= LONGEST else [*row[: LONGEST - len(last)], *last] for row in rows]
            return fitting, [len(row) > LONGEST for row in rows]

        encoded, cut_texts = tokenise([text for text, _ in pairs])
        claims, cut_claims = tokenise([CLAIM + claim for _, claim in pairs], STATED)
        in_texts = groupby(sorted(range(len(pairs)), key=lambda place: pairs[place]), lambda place: pairs[place][0])
        groups = [[*places] for _, places in in_texts]
        parts = [group[first : first + CLAIMS] for group in groups for first in range(0, len(group), CLAIMS)]
        rows = [(encoded[places[0]], places) for places in parts]
        rows.sort(key=lambda row: len(row[0]) + sum(len(claims[place]) for place in row[1]))
        lengths = [len(text) + sum(len(claims[place]) for place in places) for text, places in rows]
        for first, last in split_batches(lengths):
            inputs, ends = pack_claims(
                [(text, [claims[place] for place in places]) for text, places in rows[first:last]]
            )
            with torch.inference_mode():
                inputs["attention_mask"] = inputs["attention_mask"].to(model.dtype)
                states = model(**inputs, use_cache=False).last_hidden_state[ends[:, 0], ends[:, 1]]
                logits = states.float() @ weight + bias
            chosen = [place for _, places in rows[first:last] for place in places]
            cut = [cut_texts[place] or cut_claims[place] for place in chosen]
            rounded = [round(logit, 3) for logit in logits.double().tolist()]
            yield list(zip(chosen, rounded, cut, strict=True))

    @cached_property
    def _model(self) -> tuple[Any, Any, Any, Any]:
        from safetensors.torch import load_file

        from nfqa.models.pretrained import Pretrained

        pretrained = Pretrained(self.spec, device="cpu", dtype="float32")
        model = pretrained.model.model
        model.layers = model.layers[:LAYERS]
        apply_adapter(model, self.file)
        parts = load_file(self.file)
        return pretrained.tokenizer, model, parts["head.weight"][0], parts["head.bias"][0]


def pack_claims(rows: Sequence[tuple[list[int], list[list[int]]]]) -> tuple[dict[str, Any], Any]:
    """Texts with all claims on each behind it, as a causal model's inputs; a claim sees its text
    and itself alone.

    Args: rows: tokens of a text, and of each claim on it. Returns: input_ids, position_ids,
        attention_mask (added to attention's logits); and row and place of each claim's last token,
        [claims, 2].
    """
    import torch

    size = max(len(text) + sum(map(len, claims)) for text, claims in rows)
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    positions = torch.zeros_like(ids)
    part = torch.full_like(ids, -1)
    ends = []
    for number, (text, claims) in enumerate(rows):
        end = 0
        for which, tokens in enumerate([text, *claims]):
            begin, end, before = end, end + len(tokens), len(text) * bool(which)
            ids[number, begin:end] = torch.tensor(tokens, dtype=torch.long)
            positions[number, begin:end] = torch.arange(before, before + len(tokens))
            part[number, begin:end] = which
            ends += [(number, end - 1)] * bool(which)
    sees = (part[:, None] == 0) | (part[:, None] == part[:, :, None])
    sees &= torch.ones(size, size, dtype=torch.bool).tril()
    mask = torch.zeros(sees.shape).masked_fill(~sees, -1e4)[:, None]
    return {"input_ids": ids, "position_ids": positions, "attention_mask": mask}, torch.tensor(ends)
