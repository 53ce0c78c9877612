"""A model server that fails in every way that servers do."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import openai
import pytest
from stub_server import ODD, RETRIED, StubServer, reply_to

from nfqa import opening
from nfqa.judge.asking import Asker
from nfqa.judge.journal import Journal
from nfqa.judge.limits import Limits, Meter
from nfqa.judge.openai_server import OpenAIServer
from nfqa.judge.server_replies import RequestError, judge_status, read_usage
from nfqa.kernels.parse import Verdict
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

KEY = "sk-made-up-for-this-test-0123456789"
LOGITS = Decoding(reading="logits")
OPENED: list[OpenAIServer] = []


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("OPENAI_") or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.005)
    yield
    while OPENED:
        OPENED.pop().close()


def open_server(
    stub: StubServer | None = None, url: str | None = None, used: tuple[int, int, int] = (0, 0, 0), **options: Any
) -> OpenAIServer:
    limits = Limits(**{name: options.pop(name) for name in Limits.model_fields if name in options})
    spec = RoleSpec("judge", "openai", "stub", None, stub.url if stub else url)
    OPENED.append(OpenAIServer(spec, Meter(limits, used), **options))
    return OPENED[-1]


def collect(
    server: OpenAIServer,
    requests: Sequence[Request] = (Request("Rank it.", 3),),
    decoding: Decoding = Decoding(),  # noqa: B008
) -> list[Any]:
    """Replies and failures in the order of the requests, one for each."""
    answers = sorted(server.answer(requests, decoding), key=lambda pair: pair[0])
    assert [number for number, _ in answers] == list(range(len(requests)))
    return [result for _, result in answers]


def ask(stub: StubServer, *arguments: Any, **options: Any) -> list[Any]:
    return collect(open_server(stub, **options), *arguments)


def make_requests(count: int) -> list[Request]:
    return [Request(f"Rank answer {i}.", seed=i % 7) for i in range(count)]


@pytest.mark.parametrize(
    ("wrapping", "path", "framed"),
    [
        ("chat", "/v1/chat/completions", {"messages": [{"role": "user", "content": "Rank it."}]}),
        ("plain", "/v1/completions", {"prompt": "Rank it."}),
    ],
)
def test_a_reply_comes_with_its_usage_and_the_request_says_how_to_decode(wrapping, path, framed):
    with StubServer() as stub:
        (reply,) = ask(stub, [Request("Rank it.", 3)], Decoding(0.5, 0.9, 17, wrapping=wrapping))
    # "Rank it." is two words; the reply is "It is fair but thin. [[n]]", six
    assert reply == Reply(reply_to("Rank it.", 3), 2, 6, "stop", reply.seconds)
    assert 0 < reply.seconds < 5
    assert stub.paths == [path]
    assert stub.bodies == [framed | {"model": "stub", "temperature": 0.5, "top_p": 0.9, "max_tokens": 17, "seed": 3}]
    with StubServer() as stub:
        ask(stub, [Request("Rank it.")], Decoding(0.0))
    assert {*stub.bodies[0]} & {*SAMPLED} == {"temperature"}


@pytest.mark.parametrize("fault", RETRIED)
def test_what_passes_is_tried_again_and_the_reply_is_the_same(fault):
    with StubServer(script=[fault, fault]) as stub:
        server = open_server(stub)
        (reply,) = collect(server)
    assert reply.text == reply_to("Rank it.", 3)
    assert sum(stub.asked.values()) == server.meter.requests_sent == 3
    assert sum(stub.answered.values()) == 1


# fault, reason, whether every further request would fail alike, attempts of at most two, words
FAULTS = [
    ("rate_limit:9999", "rate_limited", False, 1, "the server answered 429"),  # longer than anyone waits
    ("drop", "connection", False, 2, "http://127.0.0.1"),
    ("hang", "timeout", False, 2, "was silent for 0.3 seconds"),
    ("truncated", "bad_reply", False, 1, "the server's reply can't be read"),
    ("error_inside", "server_error", False, 1, "the server answered 500: overloaded"),
    ("status:401", "no_access", True, 1, "OPENAI_API_KEY"),
    ("redirect:http://127.0.0.1:1/v1", "bad_request", False, 1, "the server answered 307"),  # and not followed
]


@pytest.mark.parametrize(("fault", "reason", "fatal", "attempts", "words"), FAULTS)
def test_a_fault_that_stays_ends_in_its_reason(fault, reason, fatal, attempts, words):
    with StubServer(script=[fault] * 9) as stub:
        (failure,) = ask(stub, max_retries=1, timeout=0.3)
    assert (failure.reason, failure.fatal) == (reason, fatal)
    assert words in failure.detail
    assert sum(stub.asked.values()) == attempts


@pytest.mark.parametrize(
    ("change", "text", "finish"),
    [
        ({"finish_reason": "content_filter"}, "It", "refused"),
        ({"message": {"content": None, "refusal": "I would rather not."}}, "I would rather not.", "refused"),
        ({"finish_reason": "length", "message": {"content": None}}, "", "length"),  # thinking took every token
        ({"message": {"content": [{"type": "reasoning", "text": "[[1]]"}, {"text": "[[2]]"}]}}, "[[2]]", "stop"),
        ({"message": {"content": [{"text": "\ud83d"}, {"text": "\ude00"}]}}, "\U0001f600", "stop"),
        # of another shape, or cut for a reason that we don't know
        ({"message": {"content": 5}}, None, "bad_reply"),
        ({"finish_reason": "error"}, None, "bad_reply"),
    ],
)
def test_how_a_completion_ended_and_its_text_are_read(change, text, finish):
    with StubServer(edit=lambda whole: {"choices": [whole["choices"][0] | change]}) as stub:
        (result,) = ask(stub)
    if text is None:
        assert (result.reason, result.fatal) == (finish, False)
    else:
        assert (result.finish, result.text.startswith(text)) == (finish, True)


def test_an_unknown_model_stops_the_run_and_the_message_names_what_there_is():
    with StubServer(model="good-model") as stub:
        failures = ask(stub, make_requests(50), concurrency=4)
    assert {(failure.reason, failure.fatal) for failure in failures} == {("unknown_model", True)}
    assert f"{stub.url} has no model 'stub'" in failures[-1].detail
    assert "it offers good-model, other-model" in failures[-1].detail
    assert len(stub.bodies) <= 4  # those on their way, and none after
    with StubServer(model="good-model", listed="words") as stub:
        assert "could not be listed: check the address" in ask(stub)[0].detail


@pytest.mark.parametrize(
    ("status", "body", "reason", "fatal"),
    [
        (403, {"error": {"message": "not in your country"}}, "no_access", True),
        (429, {"error": {"message": "quota exceeded", "code": "insufficient_quota"}}, "no_access", True),
        (400, {"detail": "Server is pinned to 'a'; requested 'b'."}, "unknown_model", True),
        (400, "The input (61709 tokens) is longer than the model's context length (40960).", "too_long", False),
        (400, "top_k must be an integer", "bad_request", False),
    ],
)
def test_only_what_every_further_request_would_meet_is_fatal(status, body, reason, fatal):
    failure = judge_status(status, body).failure
    assert (failure.reason, failure.fatal) == (reason, fatal)


def test_replies_on_their_way_when_a_fatal_failure_comes_are_handed_over_first():
    with StubServer(script=[None, "status:403"], delay=0.1) as stub:
        kinds = [type(result) for _, result in open_server(stub, concurrency=3).answer(make_requests(30), Decoding())]
    replies = sum(stub.answered.values())
    assert 1 <= replies < 10
    assert kinds == [Reply] * replies + [Failure] * (30 - replies)  # no reply is lost, and all come first


def test_limits_are_read_under_their_own_names_alone(monkeypatch):
    for field in Limits.model_fields:
        monkeypatch.delenv(f"NFQA_{field.upper()}", raising=False)
    monkeypatch.setenv("MAX_TOKENS", "9")  # may be another program's
    assert Limits.from_environment() == Limits()
    monkeypatch.setenv("MAX_COST", "1")
    with pytest.warns(UserWarning, match="MAX_COST caps nothing here; set NFQA_MAX_COST"):
        assert Limits.from_environment() == Limits()
    for name, value in {"CONCURRENCY": "3", "MAX_COST": "1", "PRICE_IN": "2", "PRICE_OUT": "3"}.items():
        monkeypatch.setenv(f"NFQA_{name}", value)
    assert Limits.from_environment() == Limits(concurrency=3, max_cost=1, price_in=2, price_out=3)
    monkeypatch.setenv("NFQA_MAX_COST", "much")
    with pytest.raises(ValueError, match="NFQA_MAX_COST is 'much'"):
        Limits.from_environment()


@pytest.mark.parametrize(
    ("refuses", "left_out", "instead"),
    [
        (["seed"], "", {}),
        (["max_tokens"], "", {"max_completion_tokens": 9}),
        (["temperature", "top_p"], "|without:temperature,top_p", {}),  # a model of fixed sampling
    ],
)
@pytest.mark.filterwarnings("ignore:openai.stub. takes no temperature,top_p")
def test_a_field_that_the_server_refuses_is_left_out_for_good_and_keys_say_so(refuses, left_out, instead, tmp_path):
    with StubServer(refuses=refuses) as stub:
        spec, journal, decoding = RoleSpec("judge", "openai", "stub"), tmp_path / "kept.sqlite", Decoding(max_tokens=9)

        def ask_all() -> Asker:
            asker = Asker(spec, lambda _: open_server(stub, concurrency=1), Journal(journal), decoding)
            verdicts = asker.ask(make_requests(3), lambda *_: Verdict(1.0))
            assert [verdict.value for verdict in verdicts] == [1, 1, 1]
            return asker

        assert ask_all().signature == decoding.signature + left_out
        assert len(stub.bodies) == 3 + len(refuses)
        assert all(instead.items() <= body.items() for body in stub.bodies[len(refuses) :])
        assert ask_all().signature == decoding.signature + left_out  # from the journal, with no model at hand
        assert len(stub.bodies) == 3 + len(refuses)


SAMPLED = ("temperature", "top_p")


ECHOED = "Why does temperature rise, 'temperature' is not supported, and is the model not found?"
EXTRA = {"loc": ["body", "top_p"], "msg": "Extra inputs are not permitted", "input": 1}


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ({"detail": [{"loc": ["body", "messages"], "msg": "Rejected", "input": ECHOED}]}, []),
        ({"detail": [EXTRA]}, ["top_p"]),
        ("Unsupported parameter: 'top_p' isn't supported with this model.", ["top_p"]),
        ("`seed` and `top_p` cannot both be specified for this model.", ["top_p", "seed"]),
        ("Use 'max_completion_tokens' instead of 'max_tokens'", ["max_tokens"]),
    ],
)
def test_a_refused_field_is_read_from_what_the_server_says_and_never_from_an_echo(body, refused):
    error = judge_status(400, body, prompt=f"Judge this:\n{ECHOED}")
    assert ([*error.refused], error.failure.reason, error.failure.fatal) == (refused, "bad_request", False)


def test_the_address_is_the_specs_or_the_environments_or_the_clients(monkeypatch):
    with pytest.raises(ValueError, match=r"openai:stub isn't named.*OPENAI_BASE_URL or OPENAI_API_KEY"):
        open_server()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert open_server().address == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1")
    assert [open_server(url=url).address for url in (None, "http://a:2/v1")] == [
        "http://localhost:1/v1",
        "http://a:2/v1",
    ]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENAI_BASE_URL", "http://me:secret-word@localhost:1/v1"),
        ("OPENAI_BASE_URL", "http://[::1/secret-word"),
        ("OPENAI_API_KEY", "two\nsecret-word"),
        ("OPENAI_CUSTOM_HEADERS", "X-First: 1\nX-Second: \u00fc-secret-word"),
        ("ALL_PROXY", "socks5://me:secret-word@localhost:1"),
        ("HTTP_PROXY", "http://me:secret-word@localhost:port"),
        ("SSL_CERT_FILE", "/no/secret-word"),
    ],
)
def test_an_address_or_key_that_will_not_do_is_refused_without_showing_it(monkeypatch, variable, value):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(variable, value)
    with pytest.raises(ValueError, match=variable) as caught:
        open_server()
    assert "secret-word" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_key_is_nowhere_to_be_seen_and_no_completion_altered(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Priority: 2\nX-Second: a-second-secret")
    caplog.set_level(logging.DEBUG)
    seen: list[object] = []
    for fault in ("status:400", "status:403", "status:500", "drop", *ODD, None):
        with StubServer(script=[fault] * 2) as stub:
            server = open_server(stub, max_retries=1)
            seen += [*collect(server), server, vars(server)]
    with StubServer(key="another") as stub:
        seen += ask(stub)
    text = repr(seen) + caplog.text
    assert "Authorization: Bearer [hidden]" in text  # the server did send it back
    assert KEY not in text
    assert "a-second-secret" not in text
    text = f"[[1]] and [[2]] and {KEY}"
    with StubServer(reply=lambda *_: text) as stub:
        assert ask(stub)[0].text == text


def test_many_requests_are_answered_once_each_and_no_more_than_so_many_at_a_time():
    requests = make_requests(100)
    with StubServer(share=0.1, delay=0.01) as stub:
        server = open_server(stub, concurrency=8)
        replies = collect(server, requests)
    assert [reply.text for reply in replies] == [reply_to(request.prompt, request.seed) for request in requests]
    assert set(stub.answered.values()) == {1}
    assert server.meter.requests_sent == sum(stub.asked.values()) > 100
    assert 1 < stub.most_at_once <= 8


def test_a_cap_on_requests_is_never_passed_and_what_was_answered_is_kept():
    with StubServer(script=["error_500"] * 3, delay=0.005) as stub:
        server = open_server(stub, max_requests=25, used=(5, 0, 0))
        results = collect(server, make_requests(100))
        capped = [result for result in results if isinstance(result, Failure)]
        assert len(stub.bodies) == 20  # the run's other processes sent 5
        assert len(results) - len(capped) == 17  # 20 attempts, 3 of which failed
        assert {(failure.reason, failure.fatal) for failure in capped} == {("capped", True)}
        assert "MAX_REQUESTS=25" in capped[0].detail
        assert collect(server, make_requests(2)) == capped[:2]  # the cap is the run's


def test_a_cap_on_cost_counts_the_usage_that_the_server_reports():
    # each request has 3 words in and 6 out: (3 * 1 + 6 * 2) / 1e6 = 15e-6; the fourth reaches 60e-6 > 50e-6
    limits = {"max_cost": 50e-6, "price_in": 1.0, "price_out": 2.0}
    with StubServer(edit=lambda whole: whole | {"choices": []} if stub.bodies[2:] else whole) as stub:
        server = open_server(stub, **limits, concurrency=1)
        results = collect(server, make_requests(10))
    reasons = [getattr(result, "reason", "") for result in results]
    assert reasons == ["", "", "bad_reply", "bad_reply", *["capped"] * 6]  # what can't be read is paid for as well
    assert "MAX_COST=5e-05" in results[9].detail
    assert (server.meter.prompt_tokens, server.meter.completion_tokens) == (12, 24)


# usage of a reply to 3 words, tokens in and out that are paid for; None where they are unknown
USAGES = [
    ({"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}, (3, 6)),
    # reasoning stands apart: the total has it, or it is more than the completion
    ({"prompt_tokens": 3, "completion_tokens": None, "total_tokens": 109}, (3, 106)),
    ({"prompt_tokens": 3, "completion_tokens": 6, "completion_tokens_details": {"reasoning_tokens": 100}}, (3, 106)),
    # cached tokens are part of the prompt, and count in full; where they are more, they stand apart
    ({"prompt_tokens": 3, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 2}}, (3, 6)),
    ({"prompt_tokens": 3, "completion_tokens": 6, "prompt_tokens_details": {"cached_tokens": 50}}, (53, 6)),
    # no numbers, or none that can be true
    (None, None),
    ({"prompt_tokens": 3, "completion_tokens": None}, None),
    ({"prompt_tokens": "3", "completion_tokens": 6}, None),
    ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, None),
]  # fmt: skip


@pytest.mark.parametrize(("usage", "tokens"), USAGES)
def test_every_token_that_a_server_charges_is_counted(usage, tokens):
    assert read_usage({"usage": usage}) == tokens


def test_what_was_spent_under_other_limits_counts(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("NFQA_MAX_REQUESTS", "1")
    meter = opening._open_meter(Journal(tmp_path / "verdicts.sqlite"))
    meter.reserve()
    monkeypatch.setenv("NFQA_CONCURRENCY", "3")
    again = opening._open_meter(Journal(tmp_path / "verdicts.sqlite"))
    with pytest.raises(RequestError, match="1 requests were sent; raise NFQA_MAX_REQUESTS=1"):
        again.reserve()
    monkeypatch.setenv("NFQA_MAX_REQUESTS", "2")
    opening._open_meter(Journal(tmp_path / "verdicts.sqlite")).reserve()
    assert meter.requests_sent == 2


NOTHING = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}  # for a text of six words


@pytest.mark.parametrize("change", [{"usage": None}, {"usage": NOTHING}, {"usage": None, "choices": [{}]}])
def test_a_cap_on_cost_ends_a_run_whose_server_does_not_say_what_a_reply_used(change):
    limits = {"max_cost": 1.0, "price_in": 1.0, "price_out": 1.0, "concurrency": 1}
    with StubServer(edit=lambda whole: whole | change) as stub:
        _, stopped = ask(stub, make_requests(2), **limits)
    assert (len(stub.bodies), stopped.reason) == (1, "capped")
    assert "no usage, so NFQA_MAX_COST=1" in stopped.detail
    with StubServer(script=["error_inside"]) as stub:  # which brings no completion, and costs nothing
        failure, reply = ask(stub, make_requests(2), **limits)
    assert (failure.reason, reply.finish) == ("server_error", "stop")


def look_after(table: dict[str, dict[str, float]]) -> Any:
    """Likely tokens from probabilities by what stands after `[[`."""
    return lambda begun: [(t, math.log(p)) for t, p in table[begun.partition("[[")[2]].items()]


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
def test_a_logits_reading_takes_the_labels_from_the_next_token(wrapping):
    table = {"": {"1": 0.5, "2": 0.2, " 2": 0.1, "3]]": 0.05, "The": 0.1}}
    with StubServer(top=look_after(table)) as stub:
        request = Request("Rank it.", 3, labels=("1", "2", "3", "4"))
        (reply,) = ask(stub, [request], Decoding(reading="logits", wrapping=wrapping))
    # "2" and " 2" are one verdict: 0.2 + 0.1; "3]]" is 3; 4 is not among the likely tokens
    assert reply.logprobs == pytest.approx((math.log(0.5), math.log(0.3), math.log(0.05), -math.inf))
    assert (reply.text, reply.finish, reply.prompt_tokens) == ("[[1]]", "logits", 2)
    body = stub.bodies[0]
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (1, 1, 1)
    if wrapping == "chat":
        assert body["messages"][1] == {"role": "assistant", "content": "[["}
        assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
        assert (body["add_generation_prompt"], body["continue_final_message"]) == (False, True)
    else:
        assert (body["prompt"], body["logprobs"]) == ("Rank it.[[", 20)


# 0.6 after "1" is split: half closes (1), a quarter goes on to 10, a quarter to 12
DIGITS = {"": {"1": 0.6, "2": 0.3}, "1": {"]]": 0.5, "0": 0.25, "2": 0.25}}
JOINED = {"1": 0.5, "10": 0.2, "11": 0.1, "12": 0.1}


# tokens, labels by hand, what the server is asked; the longer labels of the second are tokens of their own
@pytest.mark.parametrize(
    ("table", "expected", "looks"),
    [(DIGITS, {"1": 0.3, "2": 0.3, "10": 0.15, "12": 0.15}, ["[[", "[[1"]), ({"": JOINED}, JOINED, ["[["])],
)
def test_labels_of_two_digits_are_read_by_a_second_look_only_where_digits_are_tokens(table, expected, looks):
    labels = tuple(str(n) for n in range(1, 13))
    with StubServer(top=look_after(table)) as stub:
        (reply,) = ask(stub, [Request("Rank it.", 3, labels=labels)], LOGITS)
    answers = {label: math.exp(value) for label, value in zip(labels, reply.logprobs, strict=True) if value > -99}
    assert answers == pytest.approx(expected)
    assert [body["messages"][1]["content"] for body in stub.bodies] == looks
    assert reply.prompt_tokens == 2 * len(looks)  # every look is paid for


@pytest.mark.parametrize("refuses", [[], ["continue_final_message"]])
def test_a_server_without_token_probabilities_is_to_be_read_from_the_text(refuses):
    with StubServer(refuses=refuses) as stub:
        failures = ask(stub, [Request(f"Rank {i}.", labels=("1", "2")) for i in range(5)], LOGITS, concurrency=1)
    assert len(stub.bodies) == 1  # the rest was not sent
    assert {(failure.reason, failure.fatal) for failure in failures} == {("no_logprobs", True)}
    assert f"{stub.url} gives no token probabilities" in failures[0].detail
    assert "; use reading=text (" in failures[0].detail


def test_any_text_can_be_sent():
    with StubServer() as stub:
        assert isinstance(ask(stub, [Request("half \ud800 pair\x00")])[0], Reply)
    assert stub.bodies[0]["messages"][0]["content"] == "half \ufffd pair\x00"
