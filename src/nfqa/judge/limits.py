"""How much a server is asked: requests at a time, and caps on all of them, on money and on a
verdict's tokens.
"""

from __future__ import annotations

import os
import threading
import warnings
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nfqa.files.json_lines import check
from nfqa.judge.server_replies import RequestError

_MOST = 10**9  # beyond it a cost is no number any more
_Amount = Annotated[float, Field(ge=0, le=_MOST)]


def _name_variable(field: str) -> str:
    return f"NFQA_{field.upper()}"


class Limits(BaseModel):
    """concurrency is how many requests are on their way at a time; max_requests counts every
    attempt; max_cost and the prices (per million tokens) are in one currency; max_tokens is the
    most that a judge may write, reasoning included.

    A completion's cost is known when it has come, so those on their way at that moment may lead
    past max_cost.
    Raises: ValueError for a number below 0 or above 1e9, no concurrency, or max_cost without both
        prices.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, alias_generator=_name_variable, populate_by_name=True
    )
    concurrency: Annotated[int, Field(ge=1, le=_MOST)] = 16
    max_requests: Annotated[int, Field(ge=0, le=_MOST)] | None = None
    max_cost: _Amount | None = None
    price_in: _Amount | None = None
    price_out: _Amount | None = None
    max_tokens: Annotated[int, Field(ge=1, le=_MOST)] | None = None

    @model_validator(mode="after")
    def _has_prices(self) -> Limits:
        if self.max_cost is not None and self.price(0, 0) is None:
            needs = "needs NFQA_PRICE_IN and NFQA_PRICE_OUT, per million tokens; set both"
            raise ValueError(f"NFQA_MAX_COST={self.max_cost:g} {needs}")
        return self

    @classmethod
    def from_environment(cls, *fields: str) -> Limits:
        """Read NFQA_CONCURRENCY, NFQA_MAX_REQUESTS and so on; what is unset or empty is the
        default.

        Args: fields: those to read, by default all.
        Warns: of MAX_COST or MAX_REQUESTS without NFQA_, which make alone takes.
        """
        for name in ("MAX_COST", "MAX_REQUESTS"):
            if os.environ.get(name) and not os.environ.get(f"NFQA_{name}"):
                warnings.warn(f"{name} caps nothing here; set NFQA_{name}", stacklevel=2)
        names = map(_name_variable, fields or cls.model_fields)
        given = {name: value for name in names if (value := os.environ.get(name, "").strip())}
        return check(cls, given, "environment")

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost; None without both prices."""
        if self.price_in is None or self.price_out is None:
            return None
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


class Meter:
    """What was sent and used, counted from many threads, and whether the limits leave room for
    more.

    used: requests, tokens in and tokens out before now, by other processes of the same run.
    unmetered: set where a server doesn't say what a reply used.
    """

    def __init__(self, limits: Limits | None = None, used: tuple[int, int, int] = (0, 0, 0)) -> None:
        self.limits = limits or Limits()
        self.unmetered = False
        self.requests_sent, self.prompt_tokens, self.completion_tokens = used
        self._lock = threading.Lock()

    def reserve(self) -> None:
        """Count one request that is about to be sent. Raises: RequestError, not counting it, where
        it must not be.
        """
        most = self.limits.max_requests
        money = self.limits.max_cost
        with self._lock:
            cost = self.limits.price(self.prompt_tokens, self.completion_tokens) or 0.0
            if most is not None and self.requests_sent >= most:
                why = f"{self.requests_sent} requests were sent; raise NFQA_MAX_REQUESTS={most}"
            elif money is not None and cost >= money:
                why = f"{cost:.4f} was spent; raise NFQA_MAX_COST={money:g}"
            elif money is not None and self.unmetered:
                why = f"the server reports no usage, so NFQA_MAX_COST={money:g} can't be held to"
                why += "; set NFQA_MAX_REQUESTS instead"
            else:
                self.requests_sent += 1
                return
        raise RequestError("capped", f"stopped, as {why} and run again; what was answered is kept", fatal=True)

    def count(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Add a reply's tokens."""
        with self._lock:
            self.prompt_tokens += prompt_tokens
            self.completion_tokens += completion_tokens
