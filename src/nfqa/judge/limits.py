"""When to stop asking a server that counts: a cap on requests and one on money."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from nfqa.models.chat import Failure


@dataclass(frozen=True)
class Limits:
    """max_requests counts every attempt; max_cost and the prices (per million tokens) are in one currency.

    A completion's cost is known when it has come, so those on their way at that moment may lead past max_cost.
    Raises: ValueError for max_cost without both prices.
    """

    max_requests: int | None = None
    max_cost: float | None = None
    price_in: float | None = None
    price_out: float | None = None

    def __post_init__(self) -> None:
        if self.max_cost is not None and (self.price_in is None or self.price_out is None):
            raise ValueError(
                f"MAX_COST is {self.max_cost:g}, but it can't be held to without prices;"
                " set PRICE_IN and PRICE_OUT, per million tokens"
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Limits:
        """Read MAX_REQUESTS, MAX_COST, PRICE_IN and PRICE_OUT; what is unset or empty is no limit.

        Raises: ValueError for one that is no number of 0 or more, or for MAX_COST without both prices.
        """
        given = os.environ if environment is None else environment
        requests = _read_number(given, "MAX_REQUESTS", whole=True)
        cost, price_in, price_out = (_read_number(given, name) for name in ("MAX_COST", "PRICE_IN", "PRICE_OUT"))
        return cls(None if requests is None else int(requests), cost, price_in, price_out)

    def less(self, requests: int, prompt_tokens: int, completion_tokens: int) -> Limits:
        """What is left of the limits when so much was used before."""
        left = None if self.max_requests is None else max(0, self.max_requests - requests)
        spent = self.price(prompt_tokens, completion_tokens) or 0.0
        money = None if self.max_cost is None else max(0.0, self.max_cost - spent)
        return Limits(left, money, self.price_in, self.price_out)

    def price(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """What so many tokens cost; None without both prices."""
        if self.price_in is None or self.price_out is None:
            return None
        return (prompt_tokens * self.price_in + completion_tokens * self.price_out) / 1e6


class Meter:
    """What was sent and used, counted from many threads, and whether the limits leave room for more."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.requests_sent = self.prompt_tokens = self.completion_tokens = 0
        self._unmetered = False
        self._lock = threading.Lock()

    @property
    def cost(self) -> float | None:
        """What the counted tokens cost at the given prices; None without prices."""
        return self.limits.price(self.prompt_tokens, self.completion_tokens)

    def reserve(self) -> Failure | None:
        """Count one request that is about to be sent; or, without counting it, why it must not be."""
        with self._lock:
            most, money = self.limits.max_requests, self.limits.max_cost
            kept = "what was answered is kept"
            if most is not None and self.requests_sent >= most:
                why = f"stopped at {self.requests_sent} requests (MAX_REQUESTS={most})"
                return Failure("capped", f"{why}; {kept}; raise MAX_REQUESTS and run again", fatal=True)
            if money is not None and self.cost is not None and self.cost >= money:
                why = f"stopped at a cost of {self.cost:.4f} (MAX_COST={money:g})"
                return Failure("capped", f"{why}; {kept}; raise MAX_COST and run again", fatal=True)
            if money is not None and self._unmetered:
                why = f"stopped because the server reports no usage, so MAX_COST={money:g} can't be held to"
                return Failure("capped", f"{why}; {kept}; set MAX_REQUESTS instead and run again", fatal=True)
            self.requests_sent += 1
            return None

    def count(self, usage: tuple[int, int] | None) -> None:
        """Add a reply's tokens, of prompt and completion; None where the server didn't say."""
        with self._lock:
            if usage is None:
                self._unmetered = True
                return
            self.prompt_tokens += usage[0]
            self.completion_tokens += usage[1]


def _read_number(environment: Mapping[str, str], name: str, *, whole: bool = False) -> float | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(int(text)) if whole else float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ValueError(f"{name} is {text!r}; expected a {'whole ' if whole else ''}number of 0 or more")
    return value
