"""Asking through the journal: nothing is asked twice or lost, and what can't be had is missing with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest

from nfqa.judge import asking
from nfqa.judge.asking import _STRIDE, RETRIES, Asker, StoppedError, Tally, Verdict, merge_tallies, scatter_seed
from nfqa.judge.journal import Entry, Journal, Record, hash_text
from nfqa.kernels.parse import Reading, expect_value, read_number
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
            found = self.answers(request.prompt, request.seed)
            if found is not None:
                yield number, Reply(found, 10, 2) if isinstance(found, str) else found

    def close(self) -> None:
        """Nothing to let go of."""


def refuse_to_open(spec: RoleSpec) -> Scripted:
    raise AssertionError("the model must not be opened")


def read(reply: Reply, request: Request) -> Reading:
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


def test_verdicts_come_in_the_order_of_the_requests_and_are_kept():
    model, journal = Scripted(script(a="[[1]]", b="[[2]]", c="[[3]]")), Journal()
    asker = make_asker(model, journal)
    assert [v.value for v in asker.ask(requests_for("b", "a", "c"), read)] == [2, 1, 3]
    assert sorted(model.asked) == [("a", 0), ("b", 0), ("c", 0)]
    # 3 replies of 10 + 2 tokens
    assert asker.tally == Tally(wanted=3, kept=0, asked=3, prompt_tokens=30, completion_tokens=6)
    assert len(journal) == 3


def test_what_the_journal_holds_is_not_asked_and_the_model_not_even_opened():
    journal = Journal()
    first = make_asker(Scripted(script(a="[[1]]", b="[[2]]")), journal).ask(requests_for("a", "b"), read)
    again = make_asker(None, journal)
    assert again.ask(requests_for("a", "b"), read) == first
    assert again.tally == Tally(wanted=2, kept=2)
    assert again.ask([], read) == []


def test_only_what_is_missing_is_asked():
    journal, model = Journal(), Scripted(script(a="[[1]]", b="[[2]]", c="[[3]]"))
    make_asker(model, journal).ask(requests_for("a"), read)
    asker = make_asker(model, journal)
    assert [v.value for v in asker.ask(requests_for("a", "b", "c"), read)] == [1, 2, 3]
    assert sorted(model.asked) == [("a", 0), ("b", 0), ("c", 0)]
    assert (asker.tally.kept, asker.tally.asked) == (1, 2)


def test_equal_requests_of_a_batch_are_asked_once():
    model = Scripted(lambda prompt, seed: f"[[{1 + seed}]]")
    asker = make_asker(model, Journal())
    verdicts = asker.ask([Request("a", 0), Request("a", 0, group="x"), Request("a", 1), Request("a", 0)], read)
    assert [v.value for v in verdicts] == [1, 1, 2, 1]
    assert sorted(model.asked) == [("a", 0), ("a", 1)]
    assert (asker.tally.wanted, asker.tally.asked) == (4, 2)


@pytest.mark.parametrize(
    "change",
    [{"temperature": 0.7}, {"temperature": 0.8000001}, {"top_p": 0.9}, {"max_tokens": 511}, {"wrapping": "plain"}],
)
def test_another_decoding_is_asked_for_itself(change):
    journal, model = Journal(), Scripted(script(a="[[1]]"))
    make_asker(model, journal).ask(requests_for("a"), read)
    make_asker(model, journal, replace(TEXT, **change)).ask(requests_for("a"), read)
    assert len(model.asked) == len(journal) == 2


def test_another_seed_prompt_or_tag_is_asked_for_itself():
    journal, model = Journal(), Scripted(lambda *_: "[[1]]")
    make_asker(model, journal).ask(requests_for("a"), read)
    make_asker(model, journal).ask(requests_for("a", seed=1), read)
    make_asker(model, journal).ask(requests_for("a "), read)
    tagged = Scripted(lambda *_: "[[2]]", identity="openai:m#b")
    asker = Asker(parse_role("judge", "openai:m#b"), lambda _: tagged, journal, TEXT)
    assert asker.ask(requests_for("a"), read)[0].value == 2
    assert (len(model.asked), len(tagged.asked), len(journal)) == (3, 1, 4)


def test_a_verdict_is_the_same_model_s_wherever_it_is_served():
    journal = Journal()
    make_asker(Scripted(script(a="[[1]]")), journal).ask(requests_for("a"), read)
    elsewhere = Asker(parse_role("judge", "openai:m@http://other/v1"), refuse_to_open, journal, TEXT)
    assert elsewhere.ask(requests_for("a"), read)[0].value == 1


def test_an_unreadable_completion_is_asked_for_again_under_new_seeds():
    model = Scripted(lambda prompt, seed: "[[4]]" if seed == 7 + 2 * _STRIDE else "hm")
    asker = make_asker(model, Journal())
    assert asker.ask(requests_for("a", seed=7), read) == [Verdict(4.0, "", attempts=3)]
    assert model.asked == [("a", 7), ("a", 7 + _STRIDE), ("a", 7 + 2 * _STRIDE)]
    assert asker.tally.missing == Counter()


def test_only_the_unreadable_are_asked_again():
    model = Scripted(lambda prompt, seed: "hm" if prompt == "b" and seed == 0 else "[[4]]")
    verdicts = make_asker(model, Journal()).ask(requests_for("a", "b", "c"), read)
    assert [(v.value, v.attempts) for v in verdicts] == [(4, 1), (4, 2), (4, 1)]
    assert Counter(prompt for prompt, _ in model.asked) == {"a": 1, "b": 2, "c": 1}


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("I can't say", "unreadable"),
        ("[[9]]", "out_of_range"),
        ("  ", "empty"),
        (Reply("I think that", 10, 512, "length"), "cut_short"),
        (Reply("", 10, 512, "length"), "cut_short"),  # all went into thinking
        (Reply("[[9]] because", 10, 512, "length"), "out_of_range"),
        (Reply("I would rather not", 10, 4, "refused"), "refused"),
        (Reply("", 10, 0, "refused"), "refused"),
    ],
)
def test_what_stays_unreadable_is_missing_with_its_reason_and_never_a_number(reply, reason):
    model, journal = Scripted(lambda *_: reply), Journal()
    asker = make_asker(model, journal)
    assert asker.ask(requests_for("a"), read) == [Verdict(None, reason, attempts=1 + RETRIES)]
    assert len(model.asked) == len(journal) == 1 + RETRIES  # paid for, so kept
    assert asker.tally.missing == {reason: 1}
    assert '"reason": "' + reason in next(journal.export())
    # the next run finds that all tries were made
    again = make_asker(None, journal)
    assert again.ask(requests_for("a"), read) == [Verdict(None, reason, attempts=1 + RETRIES)]
    assert again.tally.kept == 1 + RETRIES


def test_the_last_reason_counts():
    replies = iter(["", "[[9]]", "hm"])
    model = Scripted(lambda *_: next(replies))
    assert make_asker(model, Journal()).ask(requests_for("a"), read) == [Verdict(None, "unreadable", attempts=3)]


def test_a_number_before_the_cut_counts():
    model = Scripted(lambda *_: Reply("[[2]] since it is", 10, 512, "length"))
    assert make_asker(model, Journal()).ask(requests_for("a"), read)[0].value == 2


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_the_number_of_further_tries_is_the_caller_s(retries):
    model = Scripted(lambda *_: "hm")
    assert make_asker(model, Journal(), retries=retries).ask(requests_for("a"), read)[0].attempts == retries + 1
    assert len(model.asked) == len(set(model.asked)) == retries + 1


def test_a_greedy_completion_is_not_asked_for_again():
    model = Scripted(lambda *_: "hm")
    assert make_asker(model, Journal(), GREEDY).ask(requests_for("a"), read) == [
        Verdict(None, "unreadable", attempts=1)
    ]
    assert model.asked == [("a", 0)]


def test_a_reading_from_logits_knows_no_seed_and_is_never_asked_again():
    reply = Reply("", 10, 1, "logits", logprobs=(-0.5, float("-inf")))
    nothing = Reply("", 10, 1, "logits", logprobs=(float("-inf"), float("-inf")))
    model, journal = Scripted(lambda prompt, _: reply if prompt == "a" else nothing), Journal()
    asker = make_asker(model, journal, LOGITS)
    one, none = asker.ask(requests_for("a", "b", labels=("1", "2")), read)
    assert (one.value, one.mass) == (1, pytest.approx(0.6065, abs=1e-4))  # e^-0.5
    assert none == Verdict(None, "unreadable", attempts=1, mass=0.0)
    assert len(model.asked) == 2
    again = make_asker(None, journal, LOGITS)
    assert again.ask(requests_for("a", seed=5, labels=("1", "2")), read) == [one]
    # other labels are other verdicts
    with pytest.raises(AssertionError, match="must not be opened"):
        again.ask(requests_for("a", labels=("1", "2", "3")), read)


def test_labels_make_no_difference_to_what_is_written():
    model, journal = Scripted(script(a="[[2]]")), Journal()
    make_asker(model, journal).ask(requests_for("a", labels=("1", "2")), read)
    assert make_asker(None, journal).ask(requests_for("a", labels=("1", "2", "3")), read)[0].value == 2


def test_a_failure_is_missing_now_never_kept_and_asked_again_by_the_next_run():
    replies = iter([Failure("timeout", "silent for 120 seconds"), "[[5]]"])
    model, journal = Scripted(lambda *_: next(replies)), Journal()
    asker = make_asker(model, journal)
    (verdict,) = asker.ask(requests_for("a"), read)
    assert (verdict.value, verdict.reason) == (None, "timeout")
    assert (len(journal), asker.tally.asked, asker.tally.missing) == (0, 0, {"timeout": 1})
    assert model.asked == [("a", 0)]  # the backend has retried already
    assert make_asker(model, journal).ask(requests_for("a"), read)[0].value == 5
    assert model.asked == [("a", 0), ("a", 0)]


def test_a_failure_at_a_further_try_leaves_that_try_to_the_next_run():
    down = True

    def answer(prompt: str, seed: int) -> str | Failure:
        return "hm" if seed == 0 else Failure("timeout", "") if down else "[[3]]"

    model, journal = Scripted(answer), Journal()
    assert make_asker(model, journal).ask(requests_for("a"), read)[0].reason == "timeout"
    down = False
    assert make_asker(model, journal).ask(requests_for("a"), read) == [Verdict(3.0, "", attempts=2)]
    assert model.asked == [("a", 0), ("a", _STRIDE), ("a", _STRIDE)]


def test_a_fatal_failure_stops_all_and_what_was_answered_is_kept():
    fatal = Failure("capped", "stopped at 2 requests (MAX_REQUESTS=2)", fatal=True)
    model, journal = Scripted(script(a=fatal, b="[[2]]", c="[[3]]")), Journal()
    with pytest.raises(StoppedError, match=r"openai:m: stopped at 2 requests \(MAX_REQUESTS=2\)"):
        make_asker(model, journal).ask(requests_for("a", "b", "c"), read)  # answered from the last to the first
    assert len(journal) == 2
    assert [v.value for v in make_asker(None, journal).ask(requests_for("b", "c"), read)] == [2, 3]
    assert issubclass(StoppedError, ValueError)  # so the command line shows it as any other message


def test_a_request_that_the_backend_loses_is_missing():
    model, journal = Scripted(script(a=None, b="[[2]]")), Journal()
    asker = make_asker(model, journal)
    lost, found = asker.ask(requests_for("a", "b"), read)
    assert (lost.value, lost.reason, found.value) == (None, "unanswered", 2)
    assert (asker.tally.missing, len(journal)) == ({"unanswered": 1}, 1)


def test_a_reader_that_breaks_loses_no_other_verdict():
    def break_on_a(reply: Reply, request: Request) -> Reading:
        if request.prompt == "a":
            raise ValueError("a prompt that can't be read")
        return read(reply, request)

    journal = Journal()
    with pytest.raises(ValueError, match="a prompt that can't be read"):
        make_asker(Scripted(lambda *_: "[[1]]"), journal).ask(requests_for("a", "b", "c"), break_on_a)
    assert len(journal) == 2


def test_a_stop_by_hand_keeps_what_was_answered():
    def interrupt(prompt: str, _: int) -> str:
        if prompt == "a":
            raise KeyboardInterrupt
        return "[[1]]"

    journal = Journal()
    with pytest.raises(KeyboardInterrupt):
        make_asker(Scripted(interrupt), journal).ask(requests_for("a", "b", "c"), read)
    assert len(journal) == 2


def test_another_revision_than_the_journal_remembers_is_asked_for_all_anew():
    journal, spec = Journal(), parse_role("judge", "hf:m")
    old = Scripted(lambda *_: "[[1]]", identity="hf:m@old", template="t1")
    new = Scripted(lambda *_: "[[2]]", identity="hf:m@new", template="t1")
    Asker(spec, lambda _: old, journal, TEXT).ask(requests_for("a", "b"), read)
    # all is there: no model is opened, so nobody knows of another revision
    assert [v.value for v in Asker(spec, refuse_to_open, journal, TEXT).ask(requests_for("b"), read)] == [1]
    found = Asker(spec, lambda _: new, journal, TEXT).ask(requests_for("a", "b", "c"), read)
    assert [v.value for v in found] == [2, 2, 2]  # no mixture
    assert sorted(new.asked) == [("a", 0), ("b", 0), ("c", 0)]
    assert [v.value for v in Asker(spec, refuse_to_open, journal, TEXT).ask(requests_for("a", "c"), read)] == [2, 2]


def test_verdicts_of_two_revisions_are_never_mixed_in_one_run():
    journal, spec = Journal(), parse_role("judge", "hf:m")
    old, new = (Scripted(lambda *_: "[[1]]", identity=f"hf:m@{name}", template="t1") for name in ("old", "new"))
    Asker(spec, lambda _: old, journal, TEXT).ask(requests_for("a"), read)
    asker = Asker(spec, lambda _: new, journal, TEXT)
    assert asker.ask(requests_for("a"), read)[0].value == 1
    with pytest.raises(
        StoppedError, match=r"1 verdicts of this run are kept ones of \('hf:m@old', 't1'\), but the model"
    ):
        asker.ask(requests_for("b"), read)
    assert new.asked == []
    # with the revision named, it is clear from the start
    named = Asker(parse_role("judge", "hf:m@new"), lambda _: new, journal, TEXT)
    assert [len(named.ask(requests_for(prompt), read)) for prompt in "ab"] == [1, 1]
    assert new.asked == [("a", 0), ("b", 0)]


def test_a_plain_prompt_knows_no_template_so_a_second_batch_goes_on():
    journal, plain = Journal(), replace(TEXT, wrapping="plain")
    model = Scripted(lambda *_: "[[1]]")
    make_asker(model, journal, plain).ask(requests_for("a"), read)
    asker = make_asker(model, journal, plain)
    assert [asker.ask(requests_for(prompt), read)[0].value for prompt in "ab"] == [1, 1]
    assert model.asked == [("a", 0), ("b", 0)]


def test_another_template_than_the_journal_remembers_is_asked_for_all_anew():
    journal, spec = Journal(), parse_role("judge", "hf:m@main")
    one = Scripted(lambda *_: "[[1]]", identity="hf:m@main", template="t1")
    two = Scripted(lambda *_: "[[2]]", identity="hf:m@main", template="t2")
    Asker(spec, lambda _: one, journal, TEXT).ask(requests_for("a"), read)
    assert [v.value for v in Asker(spec, lambda _: two, journal, TEXT).ask(requests_for("a", "b"), read)] == [2, 2]
    # asked without a template, no verdict depends on it
    plain = replace(TEXT, wrapping="plain")
    Asker(spec, lambda _: one, journal, plain).ask(requests_for("a"), read)
    assert Asker(spec, lambda _: two, journal, plain).ask(requests_for("a", "b"), read)[0].value == 1


def test_the_same_model_as_the_journal_remembers_is_asked_only_what_is_missing():
    journal, spec = Journal(), parse_role("judge", "hf:m")
    model = Scripted(lambda *_: "[[1]]", identity="hf:m@rev", template="t1")
    Asker(spec, lambda _: model, journal, TEXT).ask(requests_for("a"), read)
    Asker(spec, lambda _: model, journal, TEXT).ask(requests_for("a", "b"), read)
    assert model.asked == [("a", 0), ("b", 0)]


def test_a_model_is_opened_once():
    opened = []

    def open_model(spec: RoleSpec) -> Scripted:
        opened.append(spec)
        return Scripted(lambda *_: "hm")

    asker = Asker(SPEC, open_model, Journal(), TEXT)
    asker.ask(requests_for("a"), read)
    asker.ask(requests_for("b"), read)
    assert opened == [SPEC]


def test_a_dry_run_counts_and_asks_nothing():
    journal = Journal()
    make_asker(Scripted(lambda *_: "hm"), journal, retries=0).ask(requests_for("tried"), read)
    make_asker(Scripted(lambda *_: "[[2]]"), journal).ask(requests_for("known"), read)
    asker = make_asker(None, journal, dry=True)
    verdicts = asker.ask(requests_for("known", "12345678", "12345678", "1234", "tried"), read)
    assert [(v.value, v.reason) for v in verdicts] == [
        (2, ""), (None, "planned"), (None, "planned"), (None, "planned"), (None, "planned"),
    ]  # fmt: skip
    # asked: the two new prompts once each, and another try at the unreadable one, 8 + 4 + 5 characters
    assert asker.tally == Tally(
        wanted=5, kept=2, asked=3, missing=Counter(planned=4), characters_to_ask=17
    )  # fmt: skip
    assert asker.tally.tokens_to_ask == 4
    assert len(journal) == 2


def test_progress_is_told_from_nothing_to_all():
    told: list[tuple[int, int]] = []
    asker = make_asker(Scripted(lambda *_: "[[1]]"), Journal(), progress=lambda *counts: told.append(counts))
    asker.ask(requests_for("a", "b", "a"), read)
    assert told == [(0, 2), (1, 2), (2, 2)]
    asker.ask(requests_for("a"), read)
    assert len(told) == 3  # nothing was asked


def test_what_is_written_comes_back_in_order_and_is_kept():
    replies = {"a": "one", "b": " ", "c": Failure("timeout", ""), "d": Reply("no", 1, 1, "refused"), "e": "[[9]]"}
    journal = Journal()
    asker = make_asker(Scripted(script(**replies)), journal)
    assert asker.write(["e", "a", "b", "c", "d", "a"]) == ["[[9]]", "one", None, None, None, "one"]
    assert asker.tally.missing == {"empty": 1, "timeout": 1, "refused": 1}
    assert make_asker(None, journal).write(["a", "e", "b"]) == ["one", "[[9]]", None]


def test_an_empty_answer_is_written_anew_under_another_seed():
    model = Scripted(lambda prompt, seed: "second" if seed == 3 + _STRIDE else "")
    asker = make_asker(model, Journal())
    assert asker.write(["a"], seed=3) == ["second"]
    assert model.asked == [("a", 3), ("a", 3 + _STRIDE)]


def test_nothing_is_written_in_a_dry_run():
    asker = make_asker(None, Journal(), dry=True)
    assert asker.write(["a", "b"]) == [None, None]
    assert asker.tally.asked == 2


def test_an_imported_journal_gives_the_same_verdicts_without_a_model():
    model = Scripted(lambda prompt, seed: "hm" if hash_text(f"{prompt}{seed}") < "5" else f"[[{1 + seed % 5}]]")
    journal, prompts = Journal(), [f"prompt {n}" for n in range(40)]
    verdicts = make_asker(model, journal).ask(requests_for(*prompts), read)
    assert any(v.attempts > 1 for v in verdicts)
    other = Journal()
    other.take_in(journal.export())
    assert make_asker(None, other).ask(requests_for(*prompts), read) == verdicts


def test_a_verdict_is_read_from_the_kept_text_and_not_taken_on_trust():
    journal = Journal()
    entry = Entry(hash_text("a"), "openai:m", "server", TEXT.signature, 0)
    journal.keep(Record(entry, Reply("[[2]]", 1, 1), 5.0, "", SPEC.identity))
    assert make_asker(None, journal).ask(requests_for("a"), read)[0].value == 2


def test_tallies_add_up():
    one = Tally(1, 2, 3, Counter(empty=1), 4, 5, 6)
    two = Tally(10, 20, 30, Counter(empty=2, refused=1), 40, 50, 60)
    assert merge_tallies([one, two]) == Tally(11, 22, 33, Counter(empty=3, refused=1), 44, 55, 66)
    assert merge_tallies([]) == Tally()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"temperature": -0.1},
            r"temperature is -0.1, top_p 0.95, max_tokens 512; expected 0 or more, above 0 up to 1",
        ),
        ({"temperature": float("nan")}, r"temperature is nan"),
        ({"temperature": float("inf")}, r"temperature is inf"),
        ({"top_p": 0}, r"top_p 0,"),
        ({"top_p": 1.1}, r"top_p 1.1"),
        ({"max_tokens": 0}, r"max_tokens 0"),
        (
            {"reading": "mind"},
            r"reading is 'mind' and wrapping is 'chat'; expected one of text, logits, and one of chat,",
        ),
        ({"wrapping": "gift"}, r"wrapping is 'gift'"),
    ],
)
def test_a_decoding_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


def test_a_decoding_s_signature_shows_all_that_matters_and_nothing_else():
    assert TEXT.signature == "text|chat|t0.8|p0.95|max512"
    assert GREEDY.signature == Decoding(temperature=0.0).signature == "text|chat|t0|p0.95|max512"
    assert Decoding(temperature=1, top_p=1, wrapping="plain").signature == "text|plain|t1|p1|max512"
    assert LOGITS.signature == replace(LOGITS, temperature=0.1, max_tokens=9).signature == "logits|chat"


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


def test_a_refusal_is_none_whatever_brackets_it_holds():
    model = Scripted(lambda prompt, seed: Reply("I can't say [[1]]", 9, 4, finish="refused"))
    (found,) = make_asker(model, Journal(), retries=0).ask(requests_for("a"), read)
    assert (found.value, found.reason) == (None, "refused")


def test_a_servers_bad_hour_stops_a_run_instead_of_emptying_its_table():
    def answer(prompt: str, seed: int) -> Reply | Failure:
        return Failure("server_error", "500 from the server") if int(prompt) % 2 else Reply("[[2]]", 9, 4)

    journal = Journal()
    asker = make_asker(Scripted(answer), journal)
    with pytest.raises(StoppedError, match=r"6 of 12 requests failed.*run again\. The last: 500 from the server"):
        asker.ask(requests_for(*map(str, range(12))), read)
    assert len(journal) == 6  # what was answered is kept


def test_many_failures_in_a_row_stop_a_run_at_once():
    model = Scripted(lambda prompt, seed: Failure("connection", "nobody answers"))
    with pytest.raises(StoppedError, match="nobody answers"):
        make_asker(model, Journal()).ask(requests_for(*map(str, range(500))), read)
    assert len(model.asked) == 20


def test_the_completion_that_another_process_kept_first_counts_for_both():
    journal = Journal()

    def answer(prompt: str, seed: int) -> str:
        other = Scripted(lambda prompt, seed: "[[4]]")
        make_asker(other, journal).ask(requests_for("a"), read)  # it comes between asking and keeping
        return "[[2]]"

    assert [v.value for v in make_asker(Scripted(answer), journal).ask(requests_for("a"), read)] == [4.0]
