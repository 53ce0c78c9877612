"""A model server's reply: the text, how it ended, the usage, and the probabilities of tokens."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, product
from os.path import commonprefix
from typing import Any

import numpy as np

from nfqa.judge.server_errors import RequestError, judge_status
from nfqa.kernels.texts import replace_surrogates
from nfqa.models.chat import Reply

_WHOLE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "tool_calls", "function_call"}  # finish_reason
_CUT = {"length", "max_tokens", "model_length"}
_ROUNDING = 1e-3  # above 0, that a log-probability may be
Top = list[tuple[str, float]]  # likely next tokens, each with its natural log-probability
# Characters that not every server shows as they are: none, part of a character, and blanks at a token's beginning.
_FORMS: tuple[Callable[[str], str], ...] = (str, partial(unicodedata.normalize, "NFC"))
_UNSURE = ("(?!)", r"[^\x00-\x7f]", r"[^\x00-\x7f]| ")


@contextmanager
def reading() -> Iterator[None]:
    """While a reply is read, of which nothing is sure. Raises: RequestError, "bad_reply", for one of another shape."""
    import openai

    try:
        yield
    except (RequestError, openai.APIStatusError, openai.APIConnectionError):
        raise
    except Exception as error:  # whatever a reply may do to a parser or a codec: it costs this request alone
        raise RequestError("bad_reply", f"the server's reply can't be read ({type(error).__name__}: {error})") from None


def read_completion(body: Any, *, prompt: str = "") -> tuple[str, str, Any]:
    """The first completion of a reply that came with status 200: text, how it ended, and probabilities of its tokens.

    It ended by "stop", "length" or "refused", where the text is the refusal.
    Raises: RequestError, "bad_reply", for a text that may not be whole; as `judge_status` for an error inside, by the
        HTTP status that it gives as its code, else as 500.
    """
    if error := body.get("error"):
        code = error.get("code") if isinstance(error, dict) else None
        raise judge_status(code if isinstance(code, int) and 400 <= code < 600 else 500, error, prompt=prompt)
    choice = body["choices"][0]
    message = choice.get("message", choice)  # in completions the text is beside it
    refusal, ended = message.get("refusal"), choice.get("finish_reason")
    text = message.get("content") if "content" in message or refusal else message["text"]
    if isinstance(text, list):  # a part that is reasoning is none of the text
        text = "".join(part.get("text") or "" for part in text if part.get("type") in (None, "text"))
    text = replace_surrogates(refusal or text or "")
    if refusal or ended == "content_filter":
        return text, "refused", None
    ended = "stop" if ended is None else ended.lower()
    if ended not in _WHOLE | _CUT:
        raise RequestError("bad_reply", f"the completion ended as {ended!r:.40}, so its text may not be whole")
    # No text at all: thinking took every token.
    return text, "length" if ended in _CUT else "stop", choice.get("logprobs")


def read_usage(body: Any) -> tuple[int, int] | None:
    """Tokens of the prompt and of the completion; None where the server reports none, or numbers that can't be true."""
    usage: Any = body.get("usage") if isinstance(body, dict) else None
    if not isinstance(usage, dict):
        return None
    counts: tuple[Any, Any] = usage.get("prompt_tokens"), usage.get("completion_tokens") or 0
    return counts if all(type(count) is int and 0 <= count < 10**9 for count in counts) else None


def read_top(logprobs: Any) -> Top:
    """The likely first tokens, from either endpoint's form; nothing where there are none."""
    if not logprobs:
        return []
    if logprobs.get("content"):
        return [(str(each["token"]), _read_logprob(each["logprob"])) for each in logprobs["content"][0]["top_logprobs"]]
    top = logprobs.get("top_logprobs") or [{}]
    return [(token, _read_logprob(value)) for token, value in top[0].items()]


def read_echo(logprobs: Any, before: str, text: str, reply: Reply) -> tuple[float, ...]:
    """The log-probability of each token of a text after what stands before it; a token over both is the text's.

    A token with nothing before it has none.
    reply: of which the tokens are; its text is the prompt and what was written after it, which may be nothing.
    Raises: RequestError, "bad_reply", for tokens that aren't the prompt's, or a log-probability that can't be one.
    """
    tokens, values = (logprobs or {}).get("tokens", ()), (logprobs or {}).get("token_logprobs", ())
    beyond = max(0, len(tokens) - reply.prompt_tokens)
    count = len(tokens) - (beyond if reply.text == before + text else reply.completion_tokens)
    first = find_first(tokens[:count], before, text)
    if first is None or len(values) != len(tokens) or None in values[1:count]:
        raise RequestError("bad_reply", "the tokens in the server's reply aren't those of the prompt")
    return tuple(_read_logprob(value) for value in values[first:count] if value is not None)


def find_first(tokens: Sequence[str], before: str, text: str) -> int | None:
    """The first token that reaches into a text after what stands before it; None for tokens of another prompt.

    Servers show a token that is part of a character in five ways, and give no offsets that hold for it. So what they
    show is compared without characters beyond ASCII, and without spaces, where it isn't the prompt to the letter. A
    mark at the beginning (<s>) is passed over; a tokenizer may have put letters and accents together (Unicode's NFC).
    """
    for unsure, form, marks in product(_UNSURE, _FORMS, (0, 1)):
        prompt = form(before + text)
        begun = commonprefix([form(before), prompt])  # noqa: RUF071
        if re.fullmatch(unsure, begun[-1:]) and not begun[-1:].isspace():  # where it ends can't be seen
            continue
        begin, *shown = (re.sub(unsure, "", part) for part in (begun, *tokens[marks:]))
        if "".join(shown) == re.sub(unsure, "", prompt):
            ends = accumulate(map(len, shown))
            reached = (end > len(begin) or end - len(own) >= len(begin) for end, own in zip(ends, shown, strict=True))
            return next((marks + number for number, reaches in enumerate(reached) if reaches), len(tokens))
    return None


def spread_labels(labels: Sequence[str], look: Callable[[str], Top]) -> tuple[float, ...]:
    """The natural log-probability of each label, in order.

    look: the likely tokens after `[[` and what it is given; called with "" first. A token counts for a label when it
    is the label, spaces and a closing bracket apart. Where a token is only the beginning of a label that is no token
    itself (10 as 1 and 0), one more look after that token splits its mass: onto the longer label, and the rest onto
    the shorter one, whatever follows it. A label that is not among the likely tokens gets minus infinity.
    """
    mass = dict.fromkeys(labels, -math.inf)

    def follow(written: str, reached: float) -> None:
        opened: dict[str, float] = {}
        for token, logprob in look(written):
            text, bracket, _ = (written + token).strip().partition("]")
            text, value = text.strip(), reached + logprob
            if bracket and text in mass and text != written:
                mass[text] = float(np.logaddexp(mass[text], value))
            elif not bracket and len(text) > len(written):
                opened[text] = float(np.logaddexp(opened.get(text, -math.inf), value))
        if written in mass:
            begun = [text for text in opened if any(label.startswith(text) for label in labels)]
            longer = sum(math.exp(opened[text] - reached) for text in begun)
            mass[written] = float(np.logaddexp(mass[written], reached + math.log(max(1 - longer, 1e-12))))
        for text, value in opened.items():
            if any(label.startswith(text) and label != text and label not in opened for label in labels):
                follow(text, value)
            elif text in mass:
                mass[text] = float(np.logaddexp(mass[text], value))

    follow("", 0.0)
    return tuple(mass[label] for label in labels)


def _read_logprob(value: Any) -> float:
    if not -math.inf <= float(value) <= _ROUNDING:
        raise ValueError(f"{value} is no log-probability")
    return min(0.0, float(value))
