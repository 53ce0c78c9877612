"""What was fitted, kept as plain arrays beside the caches of vectors and losses: `.npz`, never a pickle."""

from __future__ import annotations

import hashlib
import importlib.metadata
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from nfqa.data.paths import write_atomically

_PACKAGES = ("numpy", "scipy", "scikit-learn")


def keep_arrays(
    folder: Path | None,
    name: str,
    make: Callable[[], Mapping[str, NDArray]],
    *,
    depends_on: Iterable[str],
    modules: Iterable[ModuleType],
) -> dict[str, NDArray]:
    """The arrays that `make` gives, read from FOLDER/NAME-HASH.npz where they were made before, else made and kept.

    Args: folder: None to make them and keep nothing; depends_on, modules: all that the arrays follow from, hashed with
        the modules' code and the packages that fit: what differs in any has another file. One that can't be read is
        made again.
    """
    if folder is None:
        return dict(make())
    digest = hashlib.sha256()
    for module in modules:
        digest.update(Path(str(module.__file__)).read_bytes())
    for part in (*depends_on, *map(importlib.metadata.version, _PACKAGES)):
        digest.update(f"\0{part}".encode())
    path = folder / f"{name}-{digest.hexdigest()[:16]}.npz"
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as kept:
            return dict(kept)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        made = dict(make())
    with write_atomically(path) as scratch:
        np.savez(scratch, **made)  # type: ignore[arg-type]
    return made
