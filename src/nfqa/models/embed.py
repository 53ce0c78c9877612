"""Sentence and token vectors, computed once a text and kept in a cache keyed by content."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nfqa.models.roles import RoleSpec, parse_role

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_KEEP_NEW = "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?, ?)"
_KEEP = (  # a sentence's vector that was kept without its tokens' stays as it is
    "INSERT INTO vectors VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET tokens = excluded.tokens,"
    " special = excluded.special WHERE length(tokens) = 0"
)
_TOKENS_AT_ONCE = 6_000  # padded tokens a forward pass: bounds memory, and keeps batches near the cores' best speed


@dataclass(frozen=True)
class TextVectors:
    """What the embedder says of one text; float32, [CLS] and [SEP] rows of `tokens` included.

    `sentence` is the pooled, unit-length vector, `tokens` the last layer, `special` marks its rows of [CLS] and [SEP],
    or of a begin and an end.
    """

    sentence: NDArray[np.float32]  # [D]
    tokens: NDArray[np.float32]  # [T, D]
    special: NDArray[np.bool_]  # [T]

    @property
    def cls(self) -> NDArray[np.float32]:
        """The first token's vector, [D]."""
        return self.tokens[0]


class Embedder:
    """Vectors of texts by any sentence-transformers model, through a cache on disk.

    Vectors are rounded to half precision when they are made, so that a cached and a fresh run see the same numbers
    and results don't depend on the last bits of one processor's arithmetic (cosines move by about 1e-4).
    The model loads at the first text that is not cached. Texts over the model's limit are cut at its end, and
    `count_cut` tells how many. No remote code is run. `fingerprint` says what vectors depend on besides the text.
    """

    def __init__(self, spec: str, cache: Path | None = None, *, progress: bool = False) -> None:
        self.spec: RoleSpec = parse_role("embedder", spec)
        self.progress = progress
        self.fingerprint = f"{_describe_maker()}|{self.spec.identity}"
        self._model: SentenceTransformer | None = None
        self._db = _open_cache(cache)
        known = self._db.execute("SELECT key, length(tokens) > 0 FROM vectors").fetchall()
        self._known, self._whole = {key for key, _ in known}, {key for key, whole in known if whole}
        self._sentences: dict[str, NDArray[np.float32]] = {}

    def prepare(self, texts: Iterable[str], *, tokens: bool = True) -> int:
        """Compute and keep the vectors of all texts not yet cached; returns how many were computed.

        tokens: whether vectors of tokens will be asked for: they need 300 times the room of a sentence's.
        Raises: ValueError for an empty text. Killed half-way it keeps every finished batch.
        """
        unique = dict.fromkeys(texts)
        for text in unique:
            if not text.strip():
                raise ValueError("cannot embed an empty text; the loader should have refused it")
        known = self._whole if tokens else self._known
        missing = [text for text in unique if self._key(text) not in known]
        if missing:
            self._compute(missing, tokens=tokens)
        return len(missing)

    def embed_sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit-length sentence vectors, [len(texts), D].

        Raises: ValueError for no texts, as D is not known then, or an empty one.
        """
        if not texts:
            raise ValueError("no texts to embed")
        fresh = [text for text in dict.fromkeys(texts) if text not in self._sentences]
        for text, (blob,) in zip(fresh, self._read(fresh, "sentence"), strict=True):
            self._sentences[text] = _normalise(np.frombuffer(blob, dtype=np.float16))
        return np.stack([self._sentences[text] for text in texts])

    def embed_tokens(self, texts: Sequence[str]) -> list[TextVectors]:
        """Sentence and token vectors of each text."""
        vectors = []
        for sentence, tokens, special in self._read(texts, "sentence, tokens, special"):
            mask = np.frombuffer(special, dtype=np.bool_)
            table = np.frombuffer(tokens, dtype=np.float16).reshape(len(mask), -1).astype(np.float32)
            vectors.append(TextVectors(_normalise(np.frombuffer(sentence, dtype=np.float16)), table, mask))
        return vectors

    def count_cut(self, texts: Sequence[str]) -> int:
        """How many of the texts were longer than the model reads."""
        return sum(row[0] for row in self._read(texts, "cut"))

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(f"{self.fingerprint}\0{text}".encode()).digest()

    def _read(self, texts: Sequence[str], columns: str) -> list[tuple]:
        self.prepare(texts, tokens="tokens" in columns)
        found: dict[str, tuple] = {}
        for text in texts:
            if text not in found:
                query = f"SELECT {columns} FROM vectors WHERE key = ?"  # noqa: S608 (columns are literals above)
                found[text] = self._db.execute(query, (self._key(text),)).fetchone()
        return [found[text] for text in texts]

    def _load(self) -> SentenceTransformer:
        if self._model is None:
            from sentence_transformers import SentenceTransformer

            where = self.spec.name
            if self.spec.kind == "package":
                where = str(_find_package_model(self.spec.name))
            self._model = SentenceTransformer(where, revision=self.spec.revision, trust_remote_code=False)
            self._model.eval()
        return self._model

    def _compute(self, texts: Sequence[str], *, tokens: bool) -> None:
        import torch
        from tqdm import tqdm

        model = self._load()
        limit = model.max_seq_length or model.tokenizer.model_max_length
        lengths = [len(ids) for ids in model.tokenizer(list(texts), verbose=False)["input_ids"]]
        order = sorted(range(len(texts)), key=lambda i: (lengths[i], texts[i]))
        batches = _split_batches([min(lengths[i], limit) for i in order])
        bar = tqdm(total=len(texts), desc="embedding texts", unit="text", disable=not self.progress)
        with bar, torch.inference_mode():
            for first, last in batches:
                chosen = order[first:last]
                rows = self._forward(model, [texts[i] for i in chosen], [lengths[i] > limit for i in chosen])
                if not tokens:
                    rows = [(key, sentence, b"", b"", long) for key, sentence, _, _, long in rows]
                with self._db:
                    self._db.executemany(_KEEP if tokens else _KEEP_NEW, rows)
                for known in (self._known, self._whole)[: 1 + tokens]:
                    known.update(row[0] for row in rows)
                bar.update(len(chosen))

    def _forward(self, model: SentenceTransformer, texts: list[str], cut: list[bool]) -> list[tuple]:
        inputs = {k: v.to(model.device) if hasattr(v, "to") else v for k, v in model.preprocess(texts).items()}
        tokenizer = model.tokenizer
        marks = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id}
        output = model(inputs)
        rows = []
        for i, text in enumerate(texts):
            length = int(inputs["attention_mask"][i].sum())
            tokens = output["token_embeddings"][i, :length].float().cpu().numpy().astype(np.float16)
            sentence = output["sentence_embedding"][i].float().cpu().numpy()
            sentence = (sentence / np.linalg.norm(sentence)).astype(np.float16)
            special = np.array([int(token) in marks for token in inputs["input_ids"][i, :length]])
            rows.append((self._key(text), sentence.tobytes(), tokens.tobytes(), special.tobytes(), int(cut[i])))
        return rows


def _normalise(vector: NDArray) -> NDArray[np.float32]:
    wide = vector.astype(np.float32)
    return wide / np.linalg.norm(wide)


# of the code below this module's name: a change that moves a vector takes another
_VERSION = "2104be795f888a006e70f923d5fd91164102d2522ae17dcf2e2ced89c19e5a4c"


def _describe_maker() -> str:
    """What made a vector besides the model: this code and the packages that run it. Vectors of another are not read."""
    packages = ("sentence-transformers", "transformers", "torch")
    return "|".join([_VERSION, *(importlib.metadata.version(name) for name in packages)])


def _split_batches(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Cut a rising list of lengths into runs of at most _TOKENS_AT_ONCE padded tokens."""
    batches, first = [], 0
    for i, length in enumerate(lengths):
        if i > first and (i + 1 - first) * length > _TOKENS_AT_ONCE:
            batches.append((first, i))
            first = i
    return [*batches, (first, len(lengths))]


def _open_cache(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path or ":memory:", timeout=60)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, sentence BLOB NOT NULL, tokens BLOB NOT NULL,"
            " special BLOB NOT NULL, cut INTEGER NOT NULL)"
        )
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path}: not a cache of vectors ({error}); delete it, it is made again") from None
    return db


def _find_package_model(package: str) -> Path:
    """The folder of a model that a Python package carries."""
    found = importlib.util.find_spec(package.replace("-", "_"))
    if found is None or found.origin is None:
        raise ValueError(f"the package {package} is not installed; run `make setup`, or set EMBEDDER to another model")
    folders = sorted({file.parent for file in Path(found.origin).parent.rglob("modules.json")})
    if not folders:
        raise ValueError(f"the package {package} carries no sentence-transformers model (no modules.json inside)")
    return folders[0]
