"""Sentence and token vectors, computed once a text and kept by content."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nfqa.files.code import hash_maker
from nfqa.files.paths import hash_file
from nfqa.files.store import Store
from nfqa.models.adapters import find_adapter
from nfqa.models.loading import one_at_a_time, open_once, open_quietly, read_precision
from nfqa.models.roles import RoleSpec, find_package_file, parse_role
from nfqa.models.vectors import SentenceModel

# A change of this makes all vectors anew, and so does another version of these packages.
_CODE = ("nfqa.models.vectors", "nfqa.models.adapters")
_PACKAGES = ("sentence-transformers", "transformers", "torch")
EMBEDDER_CUT = "a text was cut at its end to fit the embedder"  # the note of a score


class TokenVectors(NamedTuple):
    """The last layer's vectors of a text's tokens; `special` marks [CLS] and [SEP], or a begin and
    an end.
    """

    tokens: NDArray[np.float32]  # [T, D]
    special: NDArray[np.bool_]  # [T]


class Embedder:
    """Vectors of texts by any sentence-transformers model, through a cache on disk.

    Vectors are rounded to half precision when they are made, so that a cached and a fresh run see
    the same numbers and results don't depend on the last bits of one processor's arithmetic
    (cosines move by about 1e-4). The model loads at the first text that is not cached, in the
    precision that NFQA_DTYPE names, or float32. Texts over the model's limit are cut at its end,
    and `find_cut` lists them. No remote code is run. `fingerprint` says what vectors depend on
    besides the text. `tune(adapter)` is the same embedder with an adapter; one that is not the
    packaged model (`can_tune`) stays as it is. Several threads may use one embedder. `progress`
    gets the characters of a batch of texts that are done, and of all: they, not the number of
    texts, tell the time, as short texts come first.
    """

    def __init__(
        self, spec: str, cache: Path | None = None, *, progress: Callable[[int, int], None] | None = None,
        adapter: str = "",
    ) -> None:  # fmt: skip
        self.spec: RoleSpec = parse_role("embedder", spec)
        self.progress = progress
        self.can_tune = self.spec.kind == "package"  # the adapters are the packaged embedder's own
        self.tune: Callable[[str], Embedder] = open_once(
            lambda adapter: (
                Embedder(spec, cache, progress=progress, adapter=adapter) if adapter and self.can_tune else self
            )
        )
        self._lock = threading.RLock()
        self._adapter = find_adapter(adapter) if adapter else None
        self._dtype = read_precision("float32")
        made_by = hash_maker(*_CODE, within=_CODE, packages=_PACKAGES)
        self.fingerprint = f"{made_by}|{self.spec.identity}{'' if self._dtype == 'float32' else f'|{self._dtype}'}"
        self.fingerprint += f"|{hash_file(self._adapter)}" if self._adapter else ""
        self._sentences = Store(cache, "sentences", vector="BLOB", cut="INTEGER")
        self._tokens = Store(cache, "tokens", vectors="BLOB", special="BLOB")  # of some of these texts
        self._read_before: dict[str, NDArray[np.float32]] = {}
        self._cut: set[str] = set()  # of these texts

    @one_at_a_time
    def prepare(self, texts: Iterable[str], *, tokens: bool = True) -> int:
        """Compute and keep the vectors of all texts not yet cached; returns how many were computed.

        tokens: whether vectors of tokens will be asked for: they need 300 times the room of a
            sentence's.
        Raises: ValueError for an empty text. Killed half-way it keeps every finished batch.
        """
        unique = {self._key(text): text for text in texts}
        if not all(map(str.strip, unique.values())):
            raise ValueError("cannot embed an empty text; the loader should have refused it")
        known = (self._tokens if tokens else self._sentences).read(unique, "key")
        missing = [text for key, text in unique.items() if key not in known]
        if missing:
            self._compute(missing, tokens=tokens)
        return len(missing)

    @one_at_a_time
    def embed_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit-length sentence vectors, [len(texts), D].

        Raises: ValueError for no texts, as D is not known then, or an empty one.
        """
        fresh = [text for text in dict.fromkeys(texts) if text not in self._read_before]
        for text, (vector, cut) in zip(fresh, self._read(self._sentences, fresh, "vector", "cut"), strict=True):
            wide = np.frombuffer(vector, dtype=np.float16).astype(np.float32)
            self._read_before[text] = wide / np.linalg.norm(wide)
            self._cut.update([text] * cut)
        return np.stack([self._read_before[text] for text in texts])

    def embed_queries(self, queries: Sequence[str]) -> NDArray[np.float32]:
        """Unit-length vectors of what is searched for, [len(queries), D], to compare with those of
        texts.

        Behind the model's own prompt for queries where it publishes one, such as gte-Qwen2's
        instruction.
        Source: `SentenceTransformer.encode_query`, whose prompt is `query` in
            config_sentence_transformers.json.
        Differs from: it, in that the prompt's own tokens are pooled in every model.
        """
        return self.embed_sentences([self._query_prompt + query for query in queries])

    @cached_property
    def _query_prompt(self) -> str:
        settings = find_file(self.spec, "config_sentence_transformers.json")
        prompts = json.loads(settings.read_text(encoding="utf-8")).get("prompts") if settings else None
        return (prompts or {}).get("query") or ""

    @one_at_a_time
    def embed_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The token vectors of each text. Raises: ValueError for static embeddings, which have none
        in a text.
        """
        vectors = []
        for tokens, special in self._read(self._tokens, texts):
            mask = np.frombuffer(special, dtype=np.bool_)
            if not len(mask):
                raise ValueError(
                    f"{self.spec.kind}:{self.spec.name} has no vectors of tokens in a text, as static embeddings have"
                    " none; choose another embedder for bertscore and cls_cosine"
                )
            table = np.frombuffer(tokens, dtype=np.float16).reshape(len(mask), -1).astype(np.float32)
            vectors.append(TokenVectors(table, mask))
        return vectors

    @one_at_a_time
    def find_cut(self, texts: Sequence[str]) -> set[str]:
        """Those of the texts that were longer than the model reads."""
        if texts:
            self.embed_sentences(texts)
        return self._cut.intersection(texts)

    def count_cut(self, texts: Sequence[str]) -> int:
        """How many of the texts were longer than the model reads."""
        cut = self.find_cut(texts)
        return sum(text in cut for text in texts)

    @one_at_a_time
    def forget(self) -> None:
        """Let go of all vectors that are not on disk."""
        for store in (self._sentences, self._tokens):
            store.forget()
        self._read_before.clear()
        self._cut.clear()

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.fingerprint}\0{text}".encode()).digest()

    def _read(self, store: Store, texts: Sequence[str], *columns: str) -> list[tuple]:
        self.prepare(texts, tokens=store is self._tokens)
        keys = [self._key(text) for text in texts]
        rows = store.read(dict.fromkeys(keys), *columns)
        return [rows[key] for key in keys]

    @cached_property
    def _model(self) -> SentenceModel:
        with open_quietly(self.spec):
            return SentenceModel(self.spec, self._dtype, self._adapter)

    def _compute(self, texts: Sequence[str], *, tokens: bool) -> None:
        show = self.progress or (lambda *_: None)
        done = 0
        total = sum(map(len, texts))
        show(done, total)
        for batch in self._model.embed(texts):
            self._sentences.write((self._key(text), sentence, int(cut)) for text, sentence, cut, *_ in batch)
            if tokens:
                self._tokens.write((self._key(text), *each) for text, _, _, *each in batch)
            done += sum(len(text) for text, *_ in batch)
            show(done, total)


def find_file(spec: RoleSpec, name: str) -> Path | None:
    """A small file beside a model's weights; None where it has no such file."""
    if spec.kind != "hf":
        folder = find_package_file(spec.name, "modules.json").parent if spec.kind == "package" else Path(spec.name)
        return folder / name if (folder / name).is_file() else None
    from sentence_transformers.util import load_file_path

    with open_quietly(spec):
        file = load_file_path(spec.name, name, revision=spec.revision)
    return Path(file) if file else None
