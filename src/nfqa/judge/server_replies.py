"""What a model server's reply holds: the text, how it ended, the usage, and the probabilities of next tokens."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nfqa.judge.journal import mend_text
from nfqa.judge.server_errors import RequestError, find_message, judge_status
from nfqa.models.chat import Failure

_MOST_TOKENS = 10**9  # of one request
_WHOLE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"}  # finish_reason
_CUT = {"length", "max_tokens", "model_length"}
_ROUNDING = 1e-3  # above 0, that a log-probability may be
Top = Sequence[tuple[str, float]]  # likely next tokens, each with its natural log-probability


@dataclass(frozen=True)
class Completion:
    """The text, how it ended ("stop", "length" or "refused": the text is the refusal then), its likely first tokens."""

    text: str
    finish: str
    top: Top


def read_completion(found: object, *, clean: Callable[[str], str]) -> Completion:
    """The first completion of a reply that came with status 200.

    Raises: RequestError, passing, for a reply that is no object, for none or broken choices and where a text should be
        and is none ("bad_reply"), and for an error inside; one that carries an HTTP status of its own is judged by it.
    """
    if isinstance(found, str):  # JSON that was sent as plain text
        found = json.loads(found)
    if not isinstance(found, dict):
        raise _refuse("is no JSON object")
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    error = found.get("error") or (choice.get("error") if isinstance(choice, dict) else None)
    if error:
        code = error.get("code") if isinstance(error, dict) else None
        status = int(code) if isinstance(code, int | str) and re.fullmatch(r"[45]\d\d", str(code)) else 500
        raise judge_status(status, {"error": find_message(error)}, clean=clean)
    if not isinstance(choice, dict):
        raise _refuse("holds no choices")
    if choice.get("finish_reason") == "error":
        raise judge_status(500, "the completion ended in an error", clean=clean)
    return Completion(*_read_text(choice), _read_top(choice.get("logprobs")))


def read_usage(found: object) -> tuple[int, int] | None:
    """Tokens of the prompt and of the completion; None where the server reports none, or numbers that can't be true."""
    usage = found.get("usage") if isinstance(found, dict) else None
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens") or 0
    counts = [n for n in (prompt, completion) if isinstance(n, int) and 0 <= n < _MOST_TOKENS]
    return (counts[0], counts[1]) if len(counts) == 2 else None


def spread_labels(labels: Sequence[str], look: Callable[[str], Top]) -> tuple[float, ...]:
    """The natural log-probability of each label, in order.

    look: the likely tokens after `[[` and what it is given; called with "" first. A token counts for a label when it
    is the label, spaces and a closing bracket apart. Where a token is only the beginning of a label that is no token
    itself (10 as 1 and 0), one more look after that token splits its mass: onto the longer label, and onto the
    shorter one as far as a bracket closes it. A label that is not among the likely tokens gets minus infinity.
    """
    mass = dict.fromkeys(labels, -math.inf)

    def follow(written: str, reached: float) -> None:
        opened: dict[str, float] = {}
        for token, logprob in look(written):
            text, bracket, _ = (written + token).strip().partition("]")
            text, value = text.strip(), reached + logprob
            if bracket and text in mass:
                mass[text] = float(np.logaddexp(mass[text], value))
            elif not bracket and len(text) > len(written):
                opened[text] = float(np.logaddexp(opened.get(text, -math.inf), value))
        for text, value in opened.items():
            if any(label.startswith(text) and label != text and label not in opened for label in labels):
                follow(text, value)
            elif text in mass:
                mass[text] = float(np.logaddexp(mass[text], value))

    follow("", 0.0)
    return tuple(mass[label] for label in labels)


def _read_text(choice: dict[str, Any]) -> tuple[str, str]:
    message = choice.get("message")
    holder, name = (message, "content") if isinstance(message, dict) else (choice, "text")
    refusal, content, finish = holder.get("refusal"), holder.get(name), choice.get("finish_reason")
    if isinstance(content, list):  # some servers give a message in parts
        said = [part for part in content if isinstance(part, dict) and part.get("type") in (None, "text")]
        content = "".join(str(part.get("text") or "") for part in said)  # reasoning is none of it
    if content is None and (name in holder or refusal):  # nothing was said, as when thinking took all tokens
        content = ""
    if not isinstance(content, str):
        raise _refuse("holds no text")
    if refusal or finish == "content_filter":
        return mend_text(refusal if isinstance(refusal, str) else content), "refused"
    ended = "stop" if finish is None else str(finish).lower()
    if ended not in _WHOLE | _CUT:
        raise _refuse(f"ended for the reason {finish!r:.40}, so that its text may not be whole")
    return mend_text(content), "length" if ended in _CUT else "stop"


def _read_top(logprobs: object) -> Top:
    """From either endpoint's form; nothing where there is none. Raises: RequestError for one that is none."""
    if not isinstance(logprobs, dict):
        return []
    content, legacy = logprobs.get("content"), logprobs.get("top_logprobs")
    pairs: list[tuple[Any, Any]] = []
    if isinstance(content, list) and content and isinstance(content[0], dict):
        listed = content[0].get("top_logprobs")
        listed = listed if isinstance(listed, list) else []
        pairs = [(token.get("token"), token.get("logprob")) for token in listed if isinstance(token, dict)]
    elif isinstance(legacy, list) and legacy and isinstance(legacy[0], dict):
        pairs = list(legacy[0].items())
    top = [(token, float(value)) for token, value in pairs if isinstance(token, str) and isinstance(value, int | float)]
    if any(math.isnan(value) or value > _ROUNDING for _, value in top):
        raise _refuse("holds a log-probability that is NaN or above 0")
    return [(token, min(0.0, value)) for token, value in top]


def _refuse(why: str) -> RequestError:
    return RequestError(Failure("bad_reply", f"the server's reply {why}"))
