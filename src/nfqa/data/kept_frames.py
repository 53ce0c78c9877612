"""Frames kept in a file, so that a run that was killed goes on after the last step that it finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from nfqa.data.paths import write_atomically

if TYPE_CHECKING:
    import pandas as pd

Frames = tuple["pd.DataFrame", ...]


def keep_frames(
    folder: Path,
    name: str,
    make: Callable[[], Frames],
    *,
    depends_on: Iterable[str],
    modules: Iterable[ModuleType],
    lasting: Callable[[Frames], bool] = lambda _: True,
) -> tuple[Frames, str]:
    """The frames that `make` gives, read from FOLDER/NAME-HASH.json where they were made before, else made and kept.

    Args: depends_on, modules: all that the frames follow from, hashed with the modules' code. A file that can't be
        read is made again. Cells are texts, numbers, truth values or missing; the index is not kept. lasting: whether
        frames are to be kept; those of a step that failed in part are made again in the next run.
    Returns: the frames, as they are read from the file, and the hash, with their content's, on which the next step
        depends.
    """
    import pandas as pd

    digest = hashlib.sha256(name.encode())
    for part in (*depends_on, *(Path(str(module.__file__)).read_text(encoding="utf-8") for module in modules)):
        digest.update(f"\0{part}".encode())
    path = folder / f"{name}-{digest.hexdigest()[:16]}.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        frames = make()
        kept = [json.loads(frame.to_json(orient="split", index=False, double_precision=15)) for frame in frames]
        if lasting(frames):
            with write_atomically(path) as scratch:
                scratch.write_text(json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    digest.update(json.dumps(kept).encode())
    return tuple(pd.DataFrame(frame["data"], columns=frame["columns"]) for frame in kept), digest.hexdigest()
