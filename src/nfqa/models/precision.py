"""The precision of models in process: which one, and whether this processor is any good at it."""

from __future__ import annotations

import os
import time
from functools import cache

DTYPES = ("float32", "bfloat16", "float16", "float64")  # named here, so that a name is checked without importing torch


def read_precision(default: str = "auto") -> str:
    """The dtype that NFQA_DTYPE names, or another where it names none."""
    named = os.environ.get("NFQA_DTYPE") or "auto"
    return default if named == "auto" else named


def refuse_slow(dtype: str, device: str) -> None:
    """Refuse a dtype in which a processor multiplies more slowly than in float32, as it has no instructions for it.

    Other devices than "cpu" are taken as they are. Raises: ValueError with both rates.
    """
    half = device == "cpu" and dtype in ("bfloat16", "float16")
    if half and (found := measure_rate(dtype)) < (usual := measure_rate("float32")):
        raise ValueError(
            f"this processor multiplies {dtype} at {found:,.1f} GFLOP/s and float32 at {usual:,.1f}: {dtype} would only"
            " be slower here; leave NFQA_DTYPE unset"
        )


@cache
def measure_rate(dtype: str) -> float:
    """GFLOP/s of a product of two matrices of 1,024 rows and columns on this processor."""
    import torch

    matrix = torch.ones(1024, 1024, dtype=getattr(torch, dtype))
    matrix[:64] @ matrix  # the first product of a kind also sets things up
    start = time.perf_counter()
    matrix @ matrix
    return 2 * 1024**3 / (time.perf_counter() - start) / 1e9
