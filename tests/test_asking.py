"""Asking through the journal: nothing is asked twice or lost, and what can't be had is missing with its reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace

import pytest

from nfqa.judge import asking
from nfqa.judge.asking import _STRIDE, RETRIES, Asker, StoppedError, Tally, scatter_seed
from nfqa.judge.journal import Entry, Journal, hash_text
from nfqa.kernels.parse import Verdict, expect_value, read_number
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec, parse_role

SPEC = parse_role("judge", "openai:m")
TEXT, GREEDY, LOGITS = Decoding(), Decoding(temperature=0), Decoding(reading="logits")
Answers = Callable[[str, int], str | Reply | Failure | None]


@pytest.fixture(autouse=True)
def plain_seeds(request, monkeypatch):
    """Scripts go by the seed as it is asked for; one test looks at what a backend is really given."""
    if "scattered" not in request.node.name:
        monkeypatch.setattr(asking, "scatter_seed", lambda seed, prompt: seed)


class Scripted:
    """A chat model that answers by prompt and seed; None is a request that it loses. `asked` is what reached it."""

    def __init__(self, answers: Answers, *, identity: str = "openai:m", template: str = "server") -> None:
        self.identity, self.template, self.answers = identity, template, answers
        self.asked: list[tuple[str, int]] = []

    def answer(self, requests: Sequence[Request], decoding: Decoding) -> Iterator[tuple[int, Reply | Failure]]:
        for number, request in reversed(list(enumerate(requests))):  # in no order that anyone may count on
            self.asked.append((request.prompt, request.seed))
            result = self.answers(request.prompt, request.seed)
            if result is not None:
                yield number, Reply(result, 10, 2) if isinstance(result, str) else result

    def close(self) -> None:
        """Nothing to let go of."""


def refuse_to_open(spec: RoleSpec) -> Scripted:
    raise AssertionError("the model must not be opened")


def read(reply: Reply, request: Request) -> Verdict:
    if reply.logprobs is not None:
        return expect_value(reply.logprobs, [float(label) for label in request.labels])
    return read_number(reply.text, lowest=1, highest=5)


def make_asker(model: Scripted | None, journal: Journal, decoding: Decoding = TEXT, **options: object) -> Asker:
    return Asker(SPEC, (lambda _: model) if model else refuse_to_open, journal, decoding, **options)


def requests_for(*prompts: str, seed: int = 0, **options: object) -> list[Request]:
    return [Request(prompt, seed, **options) for prompt in prompts]


def script(**replies: object) -> Answers:
    """By prompt alone."""
    return lambda prompt, _: replies[prompt]


def test_only_what_the_journal_lacks_is_asked_and_the_model_not_even_opened_where_it_lacks_nothing():
    journal, model = Journal(), Scripted(script(a="[[1]]", b="[[2]]", c="[[3]]"))
    first = make_asker(model, journal).ask(requests_for("a"), read)
    asker = make_asker(model, journal)
    assert [v.value for v in asker.ask(requests_for("b", "a", "c"), read)] == [2, 1, 3]
    assert sorted(model.asked) == [("a", 0), ("b", 0), ("c", 0)]
    # 2 replies of 10 + 2 tokens
    assert asker.tally == Tally(verdicts=3, cached=1, requests=2, prompt_tokens=20, completion_tokens=4)
    again = make_asker(None, journal)
    assert again.ask(requests_for("a"), read) == first
    assert again.tally == Tally(verdicts=1, cached=1)
    assert again.ask([], read) == []


@pytest.mark.parametrize(
    ("decoding", "request_", "spec"),
    [
        ({}, {"seed": 1}, "openai:m"),
        ({}, {"prompt": "a "}, "openai:m"),
        ({"temperature": 0.8000001}, {}, "openai:m"),
        ({}, {}, "openai:m#b"),
    ],
)
def test_another_decoding_seed_prompt_or_tag_is_asked_for_itself(decoding, request_, spec):
    journal, other = Journal(), Scripted(lambda *_: "[[2]]", identity=spec)
    make_asker(Scripted(script(a="[[1]]")), journal).ask(requests_for("a"), read)
    asker = Asker(parse_role("judge", spec), lambda _: other, journal, replace(TEXT, **decoding))
    assert asker.ask([replace(Request("a"), **request_)], read)[0].value == 2
    assert len(other.asked) == 1
    assert len(journal.list_lines()) == 2


def test_an_unreadable_completion_alone_is_asked_for_again_under_new_seeds():
    model = Scripted(lambda prompt, seed: "[[4]]" if prompt != "b" or seed == 7 + 2 * _STRIDE else "hm")
    asker = make_asker(model, Journal())
    verdicts = asker.ask(requests_for("a", "b", "c", seed=7), read)
    assert verdicts == [Verdict(4.0), Verdict(4.0), Verdict(4.0)]
    assert model.asked == [("c", 7), ("b", 7), ("a", 7), ("b", 7 + _STRIDE), ("b", 7 + 2 * _STRIDE)]
    assert asker.tally.missing == Counter()


@pytest.mark.filterwarnings("ignore:openai.m. a completion reached its limit")
@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I can't say", "unreadable"),
        ("[[9]]", "out_of_range"),
        ("  ", "empty"),
        (Reply("", 10, 512, "length"), "cut_short"),  # all went into thinking
        (Reply("I can't say [[1]]", 10, 4, "refused"), "refused"),  # whatever brackets it holds
    ],
)
def test_what_stays_unreadable_is_missing_with_its_reason_and_never_a_number(reply, reason):
    model, journal = Scripted(lambda *_: reply), Journal()
    asker = make_asker(model, journal)
    assert asker.ask(requests_for("a"), read) == [Verdict(None, reason)]
    assert len(model.asked) == len(journal.list_lines()) == 1 + RETRIES  # paid for, so kept
    assert asker.tally.missing == {reason: 1}
    assert journal.list_lines()[0]["reason"].startswith(reason)
    # the next run finds that all tries were made
    again = make_asker(None, journal)
    assert again.ask(requests_for("a"), read) == [Verdict(None, reason)]
    assert again.tally.cached == 1 + RETRIES


def test_a_reading_from_logits_knows_no_seed_and_is_never_asked_again():
    logprobs = {"a": (-0.5, -math.inf), "b": (-math.inf, -math.inf), "c": (math.nan, -1.0)}
    model = Scripted(lambda prompt, _: Reply("", 10, 1, "logits", logprobs=logprobs[prompt]))
    journal = Journal()
    one, none, odd = make_asker(model, journal, LOGITS).ask(requests_for("a", "b", "c", labels=("1", "2")), read)
    assert (one.value, one.mass) == (1, pytest.approx(0.6065, abs=1e-4))  # e^-0.5
    assert none == Verdict(None, "unreadable", mass=0.0)
    assert (odd.reason, len(model.asked), len(journal.list_lines())) == ("bad_logprobs", 3, 2)
    again = make_asker(None, journal, LOGITS)
    assert again.ask(requests_for("a", seed=5, labels=("1", "2")), read) == [one]
    # other labels are other verdicts
    with pytest.raises(AssertionError, match="must not be opened"):
        again.ask(requests_for("a", labels=("1", "2", "3")), read)


@pytest.mark.parametrize("tries", [0, 1])
def test_a_failure_is_missing_now_never_kept_and_that_try_is_asked_again_by_the_next_run(tries):
    replies = iter([*["hm"] * tries, Failure("timeout", "silent for 120 seconds"), "[[5]]"])
    model, journal = Scripted(lambda *_: next(replies)), Journal()
    asker = make_asker(model, journal)
    assert asker.ask(requests_for("a"), read) == [Verdict(None, "timeout")]
    assert (len(journal.list_lines()), asker.tally.requests, asker.tally.missing) == (tries, tries, {"timeout": 1})
    assert make_asker(model, journal).ask(requests_for("a"), read) == [Verdict(5.0)]
    assert model.asked == [*[("a", 0)] * tries, ("a", tries * _STRIDE), ("a", tries * _STRIDE)]


def test_a_fatal_failure_stops_all_and_what_was_answered_is_kept():
    fatal = Failure("capped", "stopped at 2 requests (MAX_REQUESTS=2)", fatal=True)
    model, journal = Scripted(script(a=fatal, b="[[2]]", c="[[3]]")), Journal()
    with pytest.raises(StoppedError, match=r"openai:m: stopped at 2 requests \(MAX_REQUESTS=2\)"):
        make_asker(model, journal).ask(requests_for("a", "b", "c"), read)  # answered from the last to the first
    assert len(journal.list_lines()) == 2
    assert [v.value for v in make_asker(None, journal).ask(requests_for("b", "c"), read)] == [2, 3]
    assert issubclass(StoppedError, ValueError)  # so the command line shows it as any other message


@pytest.mark.parametrize("change", [{"identity": "hf:m@new"}, {"template": "t2"}])
def test_another_revision_or_template_than_the_journal_remembers_is_asked_for_all_anew(change):
    journal, spec = Journal(), parse_role("judge", "hf:m")
    made = {"identity": "hf:m@old", "template": "t1"}
    old, new = Scripted(lambda *_: "[[1]]", **made), Scripted(lambda *_: "[[2]]", **(made | change))
    Asker(spec, lambda _: old, journal, TEXT).ask(requests_for("a", "b"), read)
    # all is there: no model is opened, so nobody knows of another one
    assert [v.value for v in Asker(spec, refuse_to_open, journal, TEXT).ask(requests_for("b"), read)] == [1]
    result = Asker(spec, lambda _: new, journal, TEXT).ask(requests_for("a", "b", "c"), read)
    assert [v.value for v in result] == [2, 2, 2]  # no mixture
    assert sorted(new.asked) == [("a", 0), ("b", 0), ("c", 0)]
    assert [v.value for v in Asker(spec, refuse_to_open, journal, TEXT).ask(requests_for("a", "c"), read)] == [2, 2]
    Asker(spec, lambda _: new, journal, TEXT).ask(requests_for("a", "d"), read)
    assert new.asked[3:] == [("d", 0)]  # the same model is asked only what is missing


def test_verdicts_of_two_revisions_are_never_mixed_in_one_run():
    journal, spec = Journal(), parse_role("judge", "hf:m")
    old, new = (Scripted(lambda *_: "[[1]]", identity=f"hf:m@{name}", template="t1") for name in ("old", "new"))
    Asker(spec, lambda _: old, journal, TEXT).ask(requests_for("a"), read)
    asker = Asker(spec, lambda _: new, journal, TEXT)
    assert asker.ask(requests_for("a"), read)[0].value == 1
    with pytest.raises(StoppedError, match=r"1 verdicts of this run are kept ones of hf:m@old \(t1\), but the model"):
        asker.ask(requests_for("b"), read)
    assert new.asked == []
    # with the revision named, it is clear from the start
    named = Asker(parse_role("judge", "hf:m@new"), lambda _: new, journal, TEXT)
    assert [len(named.ask(requests_for(prompt), read)) for prompt in "ab"] == [1, 1]
    assert new.asked == [("a", 0), ("b", 0)]


def test_a_dry_run_counts_and_asks_nothing():
    journal = Journal()
    tried = Entry(hash_text("tried"), "openai:m", "server", TEXT.signature, 0)
    journal.keep(tried, Reply("hm", 9, 1), Verdict(None))
    make_asker(Scripted(lambda *_: "[[2]]"), journal).ask(requests_for("known"), read)
    asker = make_asker(None, journal, dry=True)
    verdicts = asker.ask(requests_for("known", "12345678", "12345678", "1234", "tried"), read)
    assert verdicts == [Verdict(2), *[Verdict(None, "planned")] * 4]
    # asked: the two new prompts once each, and another try at the unreadable one, 8 + 4 + 5 characters
    assert asker.tally == Tally(verdicts=5, cached=2, requests=3, missing=Counter(planned=4), tokens_to_ask=17 / 4)
    assert len(journal.list_lines()) == 2


def test_what_is_written_comes_back_in_order_without_thinking_and_is_kept_as_it_came():
    replies = {
        "a": "<think>yes [[1]]</think>\n\none", "b": " ", "c": Failure("timeout", ""),
        "d": Reply("no", 1, 1, "refused"), "e": "[[9]]", "f": "<think>still",
    }  # fmt: skip
    journal = Journal()
    asker = make_asker(Scripted(script(**replies)), journal)
    assert asker.write(["e", "a", "b", "c", "d", "f", "a"]) == ["[[9]]", "one", None, None, None, None, "one"]
    assert asker.tally.missing == {"empty": 1, "timeout": 1, "refused": 1, "only_thinking": 1}
    assert make_asker(None, journal).write(["a", "e", "b"]) == ["one", "[[9]]", None]
    assert any("[[1]]" in line["text"] for line in journal.list_lines())
    anew = make_asker(Scripted(lambda prompt, seed: "second" if seed == 3 + _STRIDE else ""), Journal())
    assert anew.write(["a"], seed=3) == ["second"]


def test_a_journal_that_can_not_be_written_stops_the_run_at_once_and_is_named(tmp_path):
    journal, model = Journal(tmp_path / "journal.sqlite"), Scripted(lambda *_: "[[2]] " + "x" * 200)
    pages = journal._store._db.execute("PRAGMA page_count").fetchone()[0]
    journal._store._db.execute(f"PRAGMA max_page_count = {pages + 10}")  # a disk that fills up in the middle of a run
    prompts = [f"prompt {number}" for number in range(200)]
    with pytest.raises(StoppedError, match=r"journal\.sqlite.*full.*run again"):
        make_asker(model, journal).ask(requests_for(*prompts), read)
    assert 0 < len(journal.list_lines()) == len(model.asked) - 1  # the one that could not be written is lost alone
    journal._store._db.close()
    later = Journal(tmp_path / "journal.sqlite")
    assert {verdict.value for verdict in make_asker(model, later).ask(requests_for(*prompts), read)} == {2}
    assert len(set(model.asked)) == len(model.asked) - 1 == 200


def test_seeds_are_scattered_over_prompts_and_the_same_in_every_run():
    seen = []
    for _ in range(2):
        model = Scripted(lambda prompt, seed: "[[1]]")
        make_asker(model, Journal()).ask([Request("a"), Request("b"), Request("a", seed=1)], read)
        seen.append([seed for _, seed in model.asked])
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 3
    assert all(0 <= seed < 2**31 for seed in seen[0])
    assert scatter_seed(0, hash_text("a")) in seen[0]


@pytest.mark.parametrize("size", [12, 3])  # in one batch, or over many small ones
def test_a_servers_bad_hour_stops_a_run_instead_of_emptying_its_table(size):
    def answer(prompt: str, seed: int) -> Reply | Failure:
        return Failure("server_error", "500 from the server") if int(prompt) % 2 else Reply("[[2]]", 9, 4)

    journal, requests = Journal(), requests_for(*map(str, range(12)))
    asker = make_asker(Scripted(answer), journal)
    with pytest.raises(StoppedError, match=r"6 of 12 requests failed.*run again\. The last: 500 from the server"):
        [asker.ask(requests[first : first + size], read) for first in range(0, 12, size)]
    assert len(journal.list_lines()) == 6  # what was answered is kept


@pytest.mark.parametrize("error", [Failure("timeout", ""), KeyboardInterrupt("by hand")])
def test_one_failure_of_many_is_left_out_and_a_stop_by_hand_keeps_what_was_answered(error):
    def answer(prompt: str, seed: int) -> str | Failure:
        if prompt != "50 a":
            return "[[1]]"
        if isinstance(error, Failure):
            return error
        raise error

    journal = Journal()
    asker = make_asker(Scripted(answer), journal)
    with nullcontext() if isinstance(error, Failure) else pytest.raises(KeyboardInterrupt):
        values = [asker.ask(requests_for(f"{number} a"), read)[0].value for number in range(100)]
        assert (values.count(1), values.count(None)) == (99, 1)
    assert len(journal.list_lines()) == (99 if isinstance(error, Failure) else 50)


def test_many_refusals_in_a_row_stop_a_run_at_once_in_the_servers_words():
    model = Scripted(lambda prompt, seed: Failure("bad_request", "the moon is full"))
    with (
        pytest.warns(UserWarning, match="a request was refused.*the moon is full"),
        pytest.raises(StoppedError, match="the moon is full"),
    ):
        make_asker(model, Journal()).ask(requests_for(*map(str, range(500))), read)
    assert len(model.asked) == 20
