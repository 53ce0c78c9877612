"""Results on disk: one JSON an artefact, long form, full precision, no time, host or path inside."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from nfqa.data.paths import write_atomically
from nfqa.lab.artefacts import Artefact, KnownDifference, Leaf


class Row(BaseModel):
    """One number and all that belongs to it.

    value, ci_low, ci_high: full precision, natural units, None when undefined. n, n_dropped: what was averaged and
    what was left out (question-seed pairs where seeds are several). spread: standard deviation over seeds.
    signature: how the number was made. kernels: the functions that made it, MODULE:NAME.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    system: str
    dataset: str
    metric: str
    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    n: int | None = None
    n_dropped: int | None = None
    dropped_because: dict[str, int] = {}
    seeds: tuple[int, ...] = ()
    spread: float | None = None
    signature: str
    kernels: tuple[str, ...]
    origin: str
    paper: float | None = None

    @field_validator("value", "ci_low", "ci_high", "spread")
    @classmethod
    def _nan_is_none(cls, value: float | None) -> float | None:
        return None if value is None or math.isnan(value) else float(value)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.system, self.dataset, self.metric


class Result(BaseModel):
    """An artefact's rows, the sentences found from them, and what they were made from."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    artefact: str
    rows: tuple[Row, ...]
    findings: tuple[str, ...] = ()
    provenance: dict[str, Any]


def write_result(path: Path, result: Result) -> None:
    """Write sorted, indented JSON; equal results give equal bytes.

    Raises: ValueError when two rows have the same system, data set and metric.
    """
    keys = [row.key for row in result.rows]
    twins = {key for key in keys if keys.count(key) > 1}
    if twins:
        raise ValueError(f"{result.artefact}: two rows for {sorted(twins)[0]}; each needs a name of its own")
    content = json.dumps(result.model_dump(mode="json"), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    with write_atomically(path) as scratch:
        scratch.write_text(content + "\n", encoding="utf-8")


def read_result(path: Path) -> Result:
    """Read a results file.

    Raises: ValueError naming the file when it isn't one.
    """
    try:
        return Result.model_validate_json(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: not a results file ({str(error).splitlines()[0]}); run the artefact again") from None


def compare_with_leaf(row: Row | None, leaf: Leaf, artefact: Artefact) -> tuple[str, str]:
    """The verdict on one published number, and a word on why.

    equal: ours rounds to the printed digits. near: within the artefact's tolerance, or the published value lies in
    our 95 % interval. differs: neither; "known" when papers/*.yml lists the reason. not run: no value of ours.
    """
    if row is None or row.value is None:
        return "not run", ""
    if round(row.value, leaf.decimals) == leaf.value:
        return "equal", "the same at the printed digits"
    gap = row.value - leaf.value
    if abs(gap) <= artefact.tolerance:
        return "near", f"{gap:+.4f}, within {artefact.tolerance}"
    if row.ci_low is not None and row.ci_high is not None and row.ci_low <= leaf.value <= row.ci_high:
        return "near", f"{gap:+.4f}, published value inside our 95 % interval"
    reason = _find_reason(artefact.known_differences, leaf)
    return ("differs, known", reason) if reason else ("differs", f"{gap:+.4f}, no reason listed")


def _find_reason(known: tuple[KnownDifference, ...], leaf: Leaf) -> str:
    for entry in known:
        wanted = (entry.system, entry.dataset, entry.metric)
        if all(want in (None, have) for want, have in zip(wanted, leaf.key, strict=True)):
            return entry.reason
    return ""
