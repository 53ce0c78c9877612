"""How any model is opened: once, in which precision, without bars, and without waiting for a hub
out of reach.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, TypeVar

from nfqa.models.roles import RoleSpec, refuse_shadowed

DTYPES = ("float32", "bfloat16", "float16", "float64")  # named here, so that a name is checked without importing torch
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "float64": 8}  # of a number
_Function = TypeVar("_Function", bound=Callable[..., Any])
_OPENING = threading.RLock()  # transformers sets what belongs to the whole process while it opens a model
_PATIENCE = 2.0  # seconds that the hub has to answer; its own client tries for half a minute, for each file


def read_precision(default: str = "auto") -> str:
    """The dtype that NFQA_DTYPE names, or another where it names none. Raises: ValueError for an
    unknown one.
    """
    name = os.environ.get("NFQA_DTYPE") or "auto"
    if name not in ("auto", *DTYPES):
        raise ValueError(f"NFQA_DTYPE is {name!r}; expected auto, {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")
    return default if name == "auto" else name


def open_once(function: _Function) -> _Function:
    """`functools.cache` for what opens a model: threads that ask for the same one at once get one,
    not one each.
    """
    cached: Any = cache(function)

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        with _OPENING:
            return cached(*args, **options)

    call.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def one_at_a_time(method: _Function) -> _Function:
    """A method that one thread at a time runs on an object with a `_lock` (an RLock): a tokenizer
    keeps state.
    """

    @wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        with self._lock:
            return method(self, *args, **options)

    return run  # type: ignore[return-value]


@contextmanager
def open_quietly(spec: RoleSpec) -> Iterator[None]:
    """While a model is opened: no other thread opens one, no bars (a download shows its own), no
    waiting for a hub.

    Where the hub can't be reached, what its cache holds is opened. The process's own settings are
    as before afterwards.
    Raises: ValueError where neither the hub nor its cache has the model, and as `refuse_shadowed`.
    """
    refuse_shadowed(spec)
    from huggingface_hub import constants
    from transformers.utils import logging

    with _OPENING:
        was_offline = constants.HF_HUB_OFFLINE
        fault = _find_fault() if spec.kind == "hf" and not was_offline else ""
        instead = "name a folder (path:FOLDER) or a package (package:NAME)"
        if spec.is_gguf:
            instead = f"put {spec.name.rpartition('/')[2]} into a folder, and set NFQA_MODELS to it"
        no_bar: Any = logging.EmptyTqdm
        hook = logging.set_tqdm_hook(lambda _, args, options: no_bar(*args, **options))
        constants.HF_HUB_OFFLINE = was_offline or bool(fault)
        try:
            yield
        except (OSError, ValueError) as error:
            if not fault:
                raise
            raise ValueError(
                f"{spec.kind}:{spec.name} can't be opened from the cache {constants.HF_HUB_CACHE}, and the hub"
                f" {constants.ENDPOINT} can't be reached; {fault}, set HF_HOME to a folder whose cache has the model,"
                f" or {instead}"
            ) from error
        finally:
            constants.HF_HUB_OFFLINE = was_offline
            logging.set_tqdm_hook(hook)


@contextmanager
def explain_failure(spec: RoleSpec, cure: str = "") -> Iterator[None]:
    """While a model is loaded: whatever its files lack or need is said in one line.

    Args: cure: what to do about files that can't be read. Raises: ValueError naming the model, for
        any such failure.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (ImportError, OSError, ValueError, SafetensorError) as error:
        first = str(error).strip().partition("\n")[0].rstrip(" .:")
        others = ""
        if spec.role in ("judge", "generator", "evaluator"):
            others = ", a GGUF file of it (path:FILE.gguf), or one on a server (openai:MODEL@http://HOST:8000/v1)"
        if "trust_remote_code" in str(error):
            trusts = spec.role in ("judge", "generator")
            allow = "set NFQA_TRUST_REMOTE_CODE=yes to run it, or " if trusts else "which is not run here; "
            cure = f"; {allow}choose a model without code of its own"
        elif isinstance(error, ImportError):
            cure = f"; install that, or choose weights that are not quantised{others}"
        raise ValueError(f"{spec.kind}:{spec.name} can't be loaded: {first}{cure}") from error


class NoRoomError(ValueError):
    """There is not enough memory for a model."""


def refuse_too_large(name: str, weights: int, precision: str, *, advice: str) -> None:
    """Raises: NoRoomError where so many weights take more than this machine's free memory in a
    precision.
    """
    import psutil

    free = psutil.virtual_memory().available
    needed = weights * _BYTES[precision]
    if needed > free:
        raise NoRoomError(
            f"{name}: its {weights / 1e9:.1f} billion weights take {needed / 1e9:.1f} GB in {precision}, and"
            f" {free / 1e9:.1f} GB of memory are free; close other programs, {advice}"
        )


def refuse_empty(tokenizer: Any, spec: RoleSpec) -> None:
    """Raises: ValueError for a tokenizer without words, which transformers makes for a folder that
    has none.
    """
    if hasattr(tokenizer, "all_special_ids") and len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ValueError(
            f"{spec.kind}:{spec.name} has no tokenizer beside its weights; add its tokenizer.json, or choose another"
            " model"
        )


def _find_fault() -> str:
    """What to do where the hub doesn't answer, or says that it is broken; "" where it answers."""
    from huggingface_hub import constants, get_session

    try:
        client = get_session()
    except Exception as error:  # of whatever client the hub's library uses
        return explain_network(error)
    try:
        return "" if client.head(constants.ENDPOINT, timeout=_PATIENCE).status_code < 500 else "connect"
    except Exception:
        return "connect"


def explain_network(error: Exception) -> str:
    """Which variables of the environment keep a client of HTTP from being opened, and what to do;
    no value is shown.
    """
    if isinstance(error, OSError):  # of ssl too
        return "SSL_CERT_FILE names no file of certificates; correct or unset it"
    known = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY")
    proxies = " or ".join(sorted(name for name in os.environ if name.upper() in known and os.environ[name]))
    if isinstance(error, ImportError):
        return f"{proxies} names a SOCKS proxy; install its client (pip install socksio), or unset it"
    return f"{proxies} names a proxy that can't be used; expected http://HOST:PORT, or unset it"
