"""What was fitted, cached as plain arrays beside vectors and losses: `.npz`, never a pickle."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nfqa.data.code import hash_maker
from nfqa.data.paths import write_atomically

_PACKAGES = ("numpy", "scipy", "scikit-learn")


def cached_arrays(
    folder: Path | None, name: str, make: Callable[[], Mapping[str, NDArray]], *, maker: str, depends_on: Iterable[str]
) -> dict[str, NDArray]:
    """The arrays that `make` gives, from FOLDER/NAME-HASH.npz where they were made before, else made and kept there.

    Args: folder: None to keep nothing; maker: the module that makes them, whose code counts, with all that it reaches
        and the packages that fit; depends_on: whatever else they depend on. A file that can't be read is made again.
    """
    if folder is None:
        return dict(make())
    parts = "\0".join((hash_maker(maker, packages=_PACKAGES), *depends_on))
    path = folder / f"{name}-{hashlib.sha256(parts.encode()).hexdigest()[:16]}.npz"
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as kept:
            return dict(kept)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        made = dict(make())
    with write_atomically(path) as scratch:
        np.savez(scratch, **made)  # type: ignore[arg-type]
    return made
