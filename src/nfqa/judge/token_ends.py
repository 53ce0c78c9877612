"""Where in a prompt each of its tokens ends, by their texts as servers show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from operator import itemgetter

_LIBERTY = 10**6  # more than the tokens of a text can cost otherwise
_MOST = 100  # ways that are followed at a time
_Way = tuple[int, tuple[int, int]]  # what it costs to come there, and from where


def find_ends(tokens: Sequence[str], text: str) -> list[int] | None:
    """Where in the text each token ends, in characters; None for tokens of another text.

    A token is bytes of the text's UTF-8. One that is part of a character ends where the character does, as the offsets
    of a tokenizer have it. Of the ways in which servers show such a part, the one that fits best counts.
    """
    ways = (_align(tokens, text.encode(), show) for show in (_SHOW[:1] if text.isascii() else _SHOW))
    return min(filter(None, ways), default=(0, None))[1]


def _show_nothing(part: bytes) -> str:
    shown = part.decode(errors="replace")
    return "" if shown.endswith("\ufffd") else shown


_SHOW: tuple[Callable[[bytes], str], ...] = (
    lambda part: part.decode(errors="replace"),  # each token decoded by itself
    _show_nothing,  # vLLM: with the token that ends the character all is shown that was not
    lambda part: part.decode("latin-1"),  # SGLang
    lambda part: part.decode(errors="ignore"),  # llama-cpp-python
    lambda part: "bytes:" + "".join(f"\\x{byte:02x}" for byte in part),  # OpenAI
)


def _align(tokens: Sequence[str], data: bytes, show: Callable[[bytes], str]) -> tuple[int, list[int]] | None:
    """The ends, and what they cost.

    Of several ways to lay the tokens along the bytes, the one with the fewest liberties counts, then the one with the
    fewest ends inside a character. Liberties are a mark at the beginning (<s>) that takes no room, and blanks that
    are missing or stand for others.
    """
    begun = [*accumulate((byte & 0xC0 != 0x80 for byte in data), initial=0)]  # characters that begin before each byte
    begun.append(begun[-1] + 1)
    stops = [len(data)]  # where the blanks that begin at each byte stop
    for at in range(len(data))[::-1]:
        stops.append(stops[-1] if data[at : at + 1].isspace() else at)
    stops.reverse()

    @cache
    def lay(token: str, raw: bytes, begin: int) -> list[tuple[int, int]]:
        """Where a token may end that begins there, and what liberty that takes."""
        core, blanks = raw.strip(), stops[begin]
        ends = [(begin + len(raw), 0)] if raw and data.startswith(raw, begin) else []
        if core and not ends and data.startswith(core, blanks):
            ends = [(blanks + len(core), _LIBERTY)]
        if begin == 0 and core[:1] in (b"", b"<", b"["):
            ends.append((0, _LIBERTY))
        return ends + [(begin + size, 0) for size in _cut(data[begin : begin + 4 * len(token) + 8], token, show)]

    # By where a token may end, and the byte from which on nothing was shown.
    steps: list[dict[tuple[int, int], _Way]] = [{(0, 0): (0, (0, 0))}]
    for left, token in zip(range(len(tokens))[::-1], (one.replace("\u2581", " ") for one in tokens), strict=True):
        raw, reached = token.encode(errors="surrogatepass"), dict[tuple[int, int], _Way]()
        firsts: dict[tuple[int, int], int] = {}  # of each run of blanks, from where it was laid more cheaply
        for (begin, hidden), (cost, _) in sorted(steps[-1].items(), key=lambda way: (way[1][0], way[0])):
            ends = lay(token, raw, begin)
            if not raw.strip():  # it may stand for any blanks; of one way's ends no more than _MOST can be followed
                run = stops[begin], 0 if token else hidden
                first = firsts.get(run, run[0])
                ends = ends + [(end, _LIBERTY) for end in range(begin + 1, min(first, begin + _MOST) + 1)]
                firsts[run] = min(first, begin)
            places = [(end, end if token else hidden, liberty) for end, liberty in ends]
            if hidden < begin < hidden + len(raw) and data.startswith(raw, hidden):
                places.append((hidden + len(raw), hidden + len(raw), 0))
            for end, start, liberty in places:
                if end and end + left > len(data):  # each token takes room
                    continue
                way = cost + liberty + (begun[end] == begun[end + 1]), (begin, hidden)
                reached[end, start] = min(reached.get((end, start), way), way)
        steps.append(dict(sorted(reached.items(), key=itemgetter(1))[:_MOST]))
    last = [(cost, place) for place, (cost, _) in steps[-1].items() if not data[place[0] :].strip()]
    if not last:
        return None
    (cost, place), reverse_ends = min(last), list[int]()
    for step in reversed(steps[1:]):
        reverse_ends.append(begun[place[0]])
        place = step[place][1]
    return cost, reverse_ends[::-1]


def _cut(data: bytes, token: str, show: Callable[[bytes], str]) -> Iterator[int]:
    """How many of these bytes are shown as the token, where they are no whole characters or a U+FFFD of the text."""
    for size in range(1, 1 + len(data) * (not data.isascii())):
        if "\ufffd" in data[:size].decode(errors="replace") and show(data[:size]) == token:
            yield size
