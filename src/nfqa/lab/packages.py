"""The versions of the packages that a number can depend on."""

from __future__ import annotations

import importlib.metadata
from functools import cache

_NAMES = (
    "matplotlib",
    "nltk",
    "numpy",
    "pandas",
    "rapidfuzz",
    "rouge-score",
    "sacrebleu",
    "scikit-learn",
    "scipy",
    "sentence-transformers",
    "torch",
    "transformers",
)


@cache
def read_versions() -> dict[str, str]:
    """Installed version by package, without the build tag (2.13.0, not 2.13.0+cpu)."""
    return {name: importlib.metadata.version(name).partition("+")[0] for name in _NAMES}
