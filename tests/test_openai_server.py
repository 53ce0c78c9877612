"""A model server that fails in every way that servers do."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stub_server import FINAL, PASSING, StubServer, reply_to

from nfqa.judge import server_client
from nfqa.judge.openai_server import Limits, OpenAIServer
from nfqa.judge.server_errors import judge_status, read_retry_after
from nfqa.judge.server_replies import mend_text, spread_labels
from nfqa.models.chat import Decoding, Failure, Reply, Request
from nfqa.models.roles import RoleSpec

KEY = "sk-made-up-for-this-test-0123456789"
LOGITS = Decoding(reading="logits")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OPENAI_")]:
        monkeypatch.delenv(name)
    for name in ("MAX_REQUESTS", "MAX_COST", "PRICE_IN", "PRICE_OUT"):
        monkeypatch.delenv(name, raising=False)


def open_server(stub: StubServer, **options: Any) -> OpenAIServer:
    return OpenAIServer(RoleSpec("judge", "openai", "stub", None, stub.url), **{"backoff": 0.005, **options})


def ask(
    stub: StubServer,
    requests: Sequence[Request] = (Request("Rank it.", 3),),
    decoding: Decoding = Decoding(),  # noqa: B008
    **options: Any,
) -> list[Reply | Failure]:
    server = open_server(stub, **options)
    try:
        return order(server.answer(requests, decoding), len(requests))
    finally:
        server.close()


def order(results: Iterator[tuple[int, Reply | Failure]], count: int) -> list[Reply | Failure]:
    found = list(results)
    assert sorted(number for number, _ in found) == list(range(count))
    return [result for _, result in sorted(found, key=lambda pair: pair[0])]


def make_requests(count: int) -> list[Request]:
    return [Request(f"Rank answer {i}.", seed=i % 7) for i in range(count)]


def test_a_chat_reply_comes_with_its_usage_and_the_request_says_how_to_decode():
    with StubServer() as stub:
        (reply,) = ask(stub, [Request("Rank it.", 3)], Decoding(temperature=0.5, top_p=0.9, max_tokens=17))
        assert isinstance(reply, Reply)
        assert reply.text == reply_to("Rank it.", 3)
        # "Rank it." is two words; the reply is "It is fair but thin. [[n]]", six
        assert (reply.prompt_tokens, reply.completion_tokens, reply.finish) == (2, 6, "stop")
        assert 0 < reply.seconds < 5
        assert stub.paths == ["/v1/chat/completions"]
        assert stub.bodies == [
            {
                "model": "stub",
                "messages": [{"role": "user", "content": "Rank it."}],
                "temperature": 0.5,
                "top_p": 0.9,
                "max_tokens": 17,
                "seed": 3,
            }
        ]


def test_a_plain_prompt_goes_to_completions_as_it_is():
    with StubServer() as stub:
        (reply,) = ask(stub, decoding=Decoding(wrapping="plain"))
        assert isinstance(reply, Reply)
        assert reply.text == reply_to("Rank it.", 3)
        assert stub.paths == ["/v1/completions"]
        assert stub.bodies[0]["prompt"] == "Rank it."
        assert "messages" not in stub.bodies[0]


def test_the_identity_is_model_and_tag_and_never_the_address():
    with StubServer() as stub:
        plain = open_server(stub)
        tagged = OpenAIServer(RoleSpec("judge", "openai", "org/model", "gguf", stub.url))
        assert (plain.identity, plain.template) == ("openai:stub", "server")
        assert tagged.identity == "openai:org/model#gguf"
        plain.close()
        tagged.close()


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_tried_again_and_the_reply_is_the_same(fault):
    with StubServer(script=[fault, fault]) as stub:
        (reply,) = ask(stub)
        assert isinstance(reply, Reply)
        assert reply.text == reply_to("Rank it.", 3)
        assert sum(stub.asked.values()) == 3
        assert sum(stub.answered.values()) == 1


@pytest.mark.parametrize(
    ("fault", "reason", "words"),
    [
        ("rate_limit", "rate_limited", "the server answered 429: Rate limit reached"),
        ("status:408", "timeout", "the server answered 408"),
        ("status:409", "server_error", "the server answered 409"),
        ("status:503", "server_error", "the server answered 503"),
        ("error_500", "server_error", "the server answered 500: <html><body>Internal Server Error"),
        ("drop", "connection", "RemoteProtocolError|ReadError"),
        ("cut_body", "connection", "RemoteProtocolError|ReadError"),
        ("truncated", "bad_reply", "the server's reply is broken JSON"),
        ("no_choices", "bad_reply", "the server's reply holds no choices"),
        ("error_inside", "server_error", "the server answered 500: overloaded"),
        ("error_inside:429", "rate_limited", "the server answered 429: overloaded"),
        ("hang", "timeout", "was silent for 0.3 seconds"),
    ],
)
def test_a_fault_that_stays_ends_in_its_reason_after_the_attempts(fault, reason, words):
    with StubServer(script=[fault] * 9) as stub:
        (failure,) = ask(stub, attempts=2, timeout=0.3)
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.fatal) == (reason, False)
        assert any(word in failure.detail for word in words.split("|"))
        assert failure.detail.endswith("(attempt 2 failed too)")
        assert sum(stub.asked.values()) == 2


def test_an_unreachable_server_is_a_lost_connection():
    with StubServer() as stub:
        pass
    (failure,) = ask(stub, attempts=2)
    assert isinstance(failure, Failure)
    assert (failure.reason, failure.fatal) == ("connection", False)
    assert stub.url in failure.detail


@pytest.mark.parametrize(("status", "reason"), [("400", "bad_request"), ("422", "bad_request"), ("413", "too_long")])
def test_a_request_that_the_server_cannot_take_is_not_sent_again(status, reason):
    with StubServer(script=[f"status:{status}"]) as stub:
        refused, reply = ask(stub, make_requests(2), concurrency=1)
        assert isinstance(refused, Failure)
        assert (refused.reason, refused.fatal) == (reason, False)
        assert isinstance(reply, Reply)
        assert sum(stub.asked.values()) == 2


def test_a_prompt_over_the_context_is_too_long_and_the_next_is_asked():
    with StubServer(script=["too_long"]) as stub:
        failure, reply = ask(stub, make_requests(2), concurrency=1)
        assert failure == Failure(
            "too_long",
            "the server answered 400: This model's maximum context length is 2048 tokens. However, you requested 9000"
            " tokens.",
        )
        assert isinstance(reply, Reply)


def test_a_refusal_is_a_reply_that_says_so():
    with StubServer(script=["refusal"]) as stub:
        (reply,) = ask(stub)
        assert isinstance(reply, Reply)
        assert (reply.text, reply.finish) == ("I would rather not.", "refused")


@pytest.mark.parametrize(
    ("change", "text", "finish"),
    [
        ({"finish_reason": "content_filter"}, "It", "refused"),
        ({"finish_reason": "length"}, "It", "length"),
        ({"finish_reason": "length", "message": {"content": None}}, "", "length"),  # thinking took every token
        ({"message": {"content": [{"type": "text", "text": "[["}, {"type": "text", "text": "2]]"}]}}, "[[2]]", "stop"),
        ({"message": {"content": "half \ud83d pair"}}, "half \ufffd pair", "stop"),
    ],
)
def test_how_a_completion_ended_and_its_text_are_read(change, text, finish):
    def edit(whole: dict[str, Any]) -> dict[str, Any]:
        whole["choices"][0] |= change
        return whole

    with StubServer(edit=edit) as stub:
        (reply,) = ask(stub)
        assert isinstance(reply, Reply)
        assert reply.finish == finish
        assert reply.text.startswith(text)


@pytest.mark.parametrize(
    "body",
    ["words", [1], None, {}, {"choices": [None]}, {"choices": {"0": 1}}, {"choices": [{}]},
     {"choices": [{"message": {"content": 5}}]}, {"choices": [{"message": {}}]}],
)  # fmt: skip
def test_a_reply_of_another_shape_is_bad_and_no_crash(body):
    with StubServer(edit=lambda _: body) as stub:
        (failure,) = ask(stub, attempts=2)
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.fatal) == ("bad_reply", False)
        assert sum(stub.answered.values()) == 2  # it was tried again


def test_a_completion_that_ended_in_an_error_is_tried_again():
    with StubServer(edit=lambda _: {"choices": [{"finish_reason": "error", "message": {"content": "It is"}}]}) as stub:
        (failure,) = ask(stub, attempts=2)
        assert isinstance(failure, Failure)
        assert failure.reason == "server_error"
        assert "the completion ended in an error" in failure.detail


def test_an_unknown_model_stops_the_run_and_the_message_names_what_there_is():
    with StubServer(model="good-model") as stub:
        failures = ask(stub, make_requests(50), concurrency=4)
        assert {f.reason for f in failures if isinstance(f, Failure) and f.fatal} == {"unknown_model"}
        assert len(failures) == 50
        assert isinstance(failures[-1], Failure)
        assert f"{stub.url} has no model 'stub'" in failures[-1].detail
        assert "it offers good-model, other-model" in failures[-1].detail
        assert len(stub.bodies) <= 4  # those on their way, and none after


def test_a_wrong_address_is_told_from_a_wrong_model():
    with StubServer() as stub:
        server = OpenAIServer(RoleSpec("judge", "openai", "stub", None, f"{stub.url}/nowhere"))
        (failure,) = order(server.answer([Request("a")], Decoding()), 1)
        assert isinstance(failure, Failure)
        assert (failure.reason, failure.fatal) == ("unknown_model", True)
        assert failure.detail.endswith("could not be listed: check the address, which mostly ends in /v1")
        server.close()


def test_no_access_stops_the_run_and_says_which_variable(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with StubServer(key="another") as stub:
        failures = ask(stub, make_requests(50), concurrency=4)
        detail = "the server answered 401: it wants a key, or another one; set OPENAI_API_KEY"
        assert failures == [Failure("no_access", detail, fatal=True)] * 50
        assert len(stub.bodies) <= 4


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (403, {"error": {"message": "not in your country"}}, "no_access"),
        (402, "pay first", "no_access"),
        (429, {"error": {"message": "quota exceeded", "code": "insufficient_quota"}}, "no_access"),
        (403, {"error": {"message": "no access to it", "code": "model_not_found"}}, "unknown_model"),
        (400, {"detail": "Server is pinned to 'a'; requested 'b'."}, "unknown_model"),
        (400, {"message": "Unsupported value: 'temperature' does not support 0.8 with this model"}, "bad_request"),
    ],
)
def test_what_every_further_request_would_meet_is_fatal(status, body, reason):
    failure = judge_status(status, body, clean=str).failure
    assert (failure.reason, failure.fatal) == (reason, True)


@pytest.mark.parametrize(
    ("status", "message", "reason"),
    [
        (400, "The input (61709 tokens) is longer than the model's context length (40960 tokens).", "too_long"),
        (400, "the request exceeds the available context size. try increasing it", "too_long"),
        (422, "Please reduce the length of the messages", "too_long"),
        (400, "top_k must be an integer", "bad_request"),
        (500, "maximum context length exceeded", "server_error"),
    ],
)
def test_one_prompt_s_trouble_is_not_fatal(status, message, reason):
    failure = judge_status(status, {"error": {"message": message}}, clean=str).failure
    assert (failure.reason, failure.fatal) == (reason, False)


def test_every_shape_of_error_body_gives_words():
    for body, words in [
        (None, "no message"),
        ("", "no message"),
        ({}, "{}"),
        ({"error": "flat"}, "flat"),
        ({"detail": [{"loc": ["body", "n"]}]}, '[{"loc": ["body", "n"]}]'),
        ("x" * 400, "x" * 300 + "…"),
        ([1], "[1]"),
    ]:
        assert judge_status(400, body, clean=str).failure.detail == f"the server answered 400: {words}"


def test_replies_on_their_way_when_a_fatal_failure_comes_are_handed_over_first():
    with StubServer(script=[None, "status:403"], delay=0.1) as stub:
        server = open_server(stub, concurrency=3)
        kinds = [type(result) for _, result in server.answer(make_requests(30), Decoding())]
        replies = sum(stub.answered.values())
        assert 1 <= replies < 10
        assert kinds == [Reply] * replies + [Failure] * (30 - replies)  # no reply is lost, and all come first
        server.close()


@pytest.mark.parametrize("how", ["seconds", "date"])
def test_retry_after_is_honoured(how):
    # An HTTP date has whole seconds, so one 2 s ahead is 1 to 2 s away.
    ahead = "1" if how == "seconds" else format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    with StubServer(script=[f"rate_limit:{ahead}"]) as stub:
        (reply,) = ask(stub)
        assert isinstance(reply, Reply)
        assert 0.9 < stub.times[1] - stub.times[0] < 6


def test_retry_after_is_not_obeyed_beyond_a_limit(monkeypatch):
    monkeypatch.setattr(server_client, "LONGEST_WAIT", 0.2)
    with StubServer(script=["rate_limit:3600"]) as stub:
        (reply,) = ask(stub)
        assert isinstance(reply, Reply)
        assert 0.15 < stub.times[1] - stub.times[0] < 2


def test_retry_after_is_read_in_either_form():
    now = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
    assert read_retry_after("7", now=now) == 7
    assert read_retry_after(" 0.5 ", now=now) == 0.5
    assert read_retry_after("Thu, 01 Jan 2026 12:00:30 GMT", now=now) == 30
    assert read_retry_after("Thu, 01 Jan 2026 11:00:00 GMT", now=now) == 0  # in the past
    assert [read_retry_after(value, now=now) for value in (None, "", "soon", "-3", "nan", "inf")] == [None] * 6


def test_pauses_grow_and_differ():
    with StubServer(script=["error_500"] * 4) as stub:
        (reply,) = ask(stub, backoff=0.05)
        assert isinstance(reply, Reply)
        pauses = [later - earlier for earlier, later in zip(stub.times, stub.times[1:], strict=False)]
        # 0.05, 0.1, 0.2, 0.4 seconds, and up to 0.05 on top of each
        assert all(pause > 0.05 * 2**i for i, pause in enumerate(pauses))
        assert len({round(pause - 0.05 * 2**i, 5) for i, pause in enumerate(pauses)}) > 1


def test_a_server_that_takes_no_seed_is_asked_without_and_that_is_remembered():
    with StubServer(refuses=["seed"]) as stub:
        server = open_server(stub, concurrency=1)
        assert server.refused_fields == frozenset()
        results = order(server.answer(make_requests(3), Decoding()), 3)
        assert all(isinstance(result, Reply) for result in results)
        assert server.refused_fields == {"seed"}
        assert ["seed" in body for body in stub.bodies] == [True, False, False, False]
        assert server.requests_sent == 4
        server.close()


def test_a_model_that_wants_max_completion_tokens_gets_that():
    with StubServer(refuses=["max_tokens"]) as stub:
        server = open_server(stub)
        (reply,) = order(server.answer([Request("a")], Decoding(max_tokens=9)), 1)
        assert isinstance(reply, Reply)
        assert server.refused_fields == {"max_tokens"}
        assert [(body.get("max_tokens"), body.get("max_completion_tokens")) for body in stub.bodies] == [
            (9, None),
            (None, 9),
        ]
        server.close()


def test_a_bad_request_that_only_speaks_of_seeds_does_not_make_the_server_seedless():
    with StubServer(refuses=["temperature"]) as stub:
        server = open_server(stub)
        (failure,) = order(server.answer([Request("a")], Decoding()), 1)
        assert isinstance(failure, Failure)
        assert failure.fatal
        assert server.refused_fields == frozenset()
        server.close()
    with StubServer(script=["status:400"] * 3) as stub:
        server = open_server(stub)
        server._client.clean = lambda text: text + " a seed needs soil"
        (failure,) = order(server.answer([Request("a")], Decoding()), 1)
        assert isinstance(failure, Failure)
        assert server.refused_fields == frozenset()  # it failed without the seed as well
        assert len(stub.bodies) == 2
        server.close()


def test_neither_address_nor_key_is_refused_with_what_to_set():
    spec = RoleSpec("judge", "openai", "some-model")
    with pytest.raises(ValueError, match=r"openai:some-model has neither a server nor a key: name the server, as in"):
        OpenAIServer(spec)


def test_the_address_comes_from_the_spec_then_from_the_environment(monkeypatch):
    with StubServer() as stub, StubServer() as other:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.url)
        for spec_url, expected in ((None, stub), (other.url, other)):
            server = OpenAIServer(RoleSpec("judge", "openai", "stub", None, spec_url))
            (reply,) = order(server.answer([Request("a")], Decoding()), 1)
            assert isinstance(reply, Reply)
            assert len(expected.bodies) == 1
            server.close()


def test_a_key_alone_is_enough_and_asks_the_client_s_own_address(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = OpenAIServer(RoleSpec("judge", "openai", "some-model"))
    assert server._client.address == "https://api.openai.com/v1"
    server.close()


@pytest.mark.parametrize(
    "url", ["http://me:secret-word@localhost:1/v1", "localhost:1", "ftp://localhost/v1", "http://"]
)
def test_an_address_with_a_login_or_of_another_kind_is_refused_without_showing_it(monkeypatch, url):
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    with pytest.raises(ValueError, match="must be like http://localhost:8000/v1, with no login inside") as caught:
        OpenAIServer(RoleSpec("judge", "openai", "some-model"))
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-…copied-badly", "two\nlines"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(ValueError, match="OPENAI_API_KEY holds a character that can't be sent") as caught:
        OpenAIServer(RoleSpec("judge", "openai", "some-model"))
    assert "copied" not in str(caught.value)
    assert "lines" not in str(caught.value)


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"attempts": 0}, {"timeout": 0}])
def test_numbers_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match="expected 1 or more, 1 or more, and above 0 seconds"):
        OpenAIServer(RoleSpec("judge", "openai", "m", None, "http://localhost:1/v1"), **options)


def test_the_key_is_nowhere_to_be_seen(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Second: a-second-secret")
    caplog.set_level(logging.DEBUG)
    seen: list[object] = []
    for fault in ("status:400", "status:403", "status:500", "status:418", "drop", "truncated", "error_inside", None):
        with StubServer(script=[fault] * 2, reply=lambda *_: f"your key is {KEY}") as stub:
            server = open_server(stub, attempts=2)
            seen += [*order(server.answer([Request("a")], Decoding()), 1), server, vars(server), vars(server._client)]
            server.close()
    with StubServer(key="another") as stub:
        seen += ask(stub)
    text = repr(seen) + caplog.text
    assert "Authorization: Bearer [hidden]" in text  # the server did send it back
    assert "your key is [hidden]" in text
    assert KEY not in text
    assert "a-second-secret" not in text


def test_a_key_that_a_service_quotes_half_is_not_repeated():
    failure = judge_status(403, "Incorrect API key provided: sk-ab**************yz9.", clean=str).failure
    assert failure.detail == "the server answered 403: Incorrect API key provided: [hidden]"


def test_a_key_cut_by_the_end_of_a_long_message_is_not_left_in_half():
    clean = server_client.make_cleaner([KEY])
    detail = judge_status(400, "x" * 290 + KEY, clean=clean).failure.detail
    assert "sk-" not in detail
    assert detail.endswith("x[hidden]")  # 290 and 8 are under 300


def test_a_thousand_requests_with_faults_all_end_once():
    requests = make_requests(1000)
    with StubServer(share=0.1, faults=[*PASSING, *FINAL]) as stub:
        server = open_server(stub, concurrency=16, backoff=0.001)
        results = order(server.answer(requests, Decoding()), 1000)
        for request, result in zip(requests, results, strict=True):
            expected = reply_to(request.prompt, request.seed)
            if isinstance(result, Reply) and result.finish == "stop":
                assert result.text == expected
                assert stub.answered[request.prompt, request.seed] == 1  # none twice
            elif isinstance(result, Reply):
                assert result.finish == "refused"
            else:
                assert result.reason in {"too_long", "rate_limited", "server_error", "connection", "bad_reply"}
                assert stub.answered[request.prompt, request.seed] == 0
        # 2 of 9 faults are final: 1000 * 0.1 * 2 / 9 is 22 of them on average
        unanswered = sum(not isinstance(result, Reply) or result.finish == "refused" for result in results)
        assert 5 < unanswered < 60
        assert server.requests_sent == sum(stub.asked.values()) > 1000
        assert 1 < stub.most_at_once <= 16
        server.close()


def test_no_more_are_on_their_way_than_replies_were_taken():
    with StubServer() as stub:
        server = open_server(stub, concurrency=4)
        answers = server.answer(make_requests(40), Decoding())
        for taken in range(1, 6):
            next(answers)
            time.sleep(0.02)
            assert len(stub.bodies) <= taken + 3  # this one, and three more that may be on their way
        answers.close()
        time.sleep(0.05)
        assert len(stub.bodies) <= 9  # nothing is sent after the last was taken
        server.close()


def test_no_requests_give_no_answers():
    with StubServer() as stub:
        assert ask(stub, []) == []


def test_a_cap_on_requests_is_never_passed_and_what_was_answered_is_kept():
    with StubServer(script=["error_500"] * 3, delay=0.005) as stub:
        server = open_server(stub, limits=Limits(max_requests=20), backoff=0.001)
        results = order(server.answer(make_requests(100), Decoding()), 100)
        replies = [result for result in results if isinstance(result, Reply)]
        capped = [result for result in results if isinstance(result, Failure)]
        assert server.requests_sent == len(stub.bodies) == 20
        assert len(replies) == 17  # 20 attempts, 3 of which failed
        detail = "stopped at 20 requests (MAX_REQUESTS=20); what was answered is kept; raise MAX_REQUESTS and run again"
        assert set(capped) == {Failure("capped", detail, fatal=True)}
        assert order(server.answer(make_requests(2), Decoding()), 2) == capped[:2]  # the cap is the run's
        server.close()


def test_a_cap_on_cost_counts_the_usage_that_the_server_reports():
    # each request has 3 words in and 6 out: (3 * 1 + 6 * 2) / 1e6 = 15e-6; the fourth reaches 60e-6 > 50e-6
    limits = Limits(max_cost=50e-6, price_in=1.0, price_out=2.0)
    with StubServer() as stub:
        server = open_server(stub, limits=limits, concurrency=1)
        results = order(server.answer(make_requests(10), Decoding()), 10)
        assert [type(result) for result in results] == [Reply] * 4 + [Failure] * 6
        assert isinstance(results[9], Failure)
        assert results[9].detail.startswith("stopped at a cost of 0.0001 (MAX_COST=5e-05); what was answered is kept;")
        assert (server.prompt_tokens, server.completion_tokens) == (12, 24)
        assert server.cost == pytest.approx(60e-6)
        server.close()


def test_a_cap_on_cost_stops_where_the_server_counts_nothing():
    limits = Limits(max_cost=1.0, price_in=1.0, price_out=2.0)
    with StubServer(edit=lambda whole: {"choices": whole["choices"]}) as stub:
        replied, stopped = ask(stub, make_requests(2), limits=limits, concurrency=1)
        assert isinstance(replied, Reply)
        assert isinstance(stopped, Failure)
        assert "the server reports no usage, so MAX_COST=1 can't be held to" in stopped.detail


def test_without_prices_there_is_no_cost():
    with StubServer() as stub:
        server = open_server(stub)
        assert server.cost is None
        server.close()


def test_limits_are_read_from_the_environment(monkeypatch):
    assert Limits.from_environment() == Limits()
    for name, value in {"MAX_REQUESTS": "5", "MAX_COST": " 2.5", "PRICE_IN": "0.1", "PRICE_OUT": "0"}.items():
        monkeypatch.setenv(name, value)
    assert Limits.from_environment() == Limits(5, 2.5, 0.1, 0.0)
    assert Limits.from_environment({"MAX_REQUESTS": ""}) == Limits()


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("MAX_REQUESTS", "many", "a whole number"),
        ("MAX_REQUESTS", "2.5", "a whole number"),
        ("MAX_REQUESTS", "-1", "a whole number"),
        ("MAX_COST", "nan", "a number"),
        ("PRICE_IN", "inf", "a number"),
        ("PRICE_OUT", "1,5", "a number"),
    ],
)
def test_a_limit_that_cannot_be_read_is_refused(name, value, kind):
    with pytest.raises(ValueError, match=rf"{name} is '{value}'; expected {kind} of 0 or more"):
        Limits.from_environment({name: value})


def test_a_cost_without_prices_is_refused():
    with pytest.raises(ValueError, match="MAX_COST is 2, but it can't be held to without prices; set PRICE_IN and"):
        Limits.from_environment({"MAX_COST": "2", "PRICE_IN": "1"})


def look_after(table: dict[str, dict[str, float]]) -> Any:
    """Likely tokens from probabilities by what stands after `[[`."""
    return lambda begun: [(t, math.log(p)) for t, p in table[begun.partition("[[")[2]].items()]


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
def test_a_logits_reading_takes_the_labels_from_the_next_token(wrapping):
    table = {"": {"1": 0.5, "2": 0.2, " 2": 0.1, "3]]": 0.05, "The": 0.1}}
    with StubServer(top=look_after(table)) as stub:
        request = Request("Rank it.", 3, labels=("1", "2", "3", "4"))
        (reply,) = ask(stub, [request], Decoding(reading="logits", wrapping=wrapping))
        assert isinstance(reply, Reply)
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


def test_labels_of_two_digits_are_read_by_a_second_look_only_where_digits_are_tokens():
    labels = tuple(str(n) for n in range(1, 13))
    table = {"": {"1": 0.6, "2": 0.3}, "1": {"]]": 0.5, "0": 0.25, "2": 0.25}}
    with StubServer(top=look_after(table)) as stub:
        (reply,) = ask(stub, [Request("Rank it.", 3, labels=labels)], LOGITS)
        assert isinstance(reply, Reply)
        assert reply.logprobs is not None
        found = {label: math.exp(value) for label, value in zip(labels, reply.logprobs, strict=True) if value > -99}
        # 0.6 after "1" is split: half closes (1), a quarter goes on to 10, a quarter to 12
        assert found == pytest.approx({"1": 0.3, "2": 0.3, "10": 0.15, "12": 0.15})
        assert [body["messages"][1]["content"] for body in stub.bodies] == ["[[", "[[1"]
        assert reply.prompt_tokens == 4  # both looks were paid for
    whole = {"": {"1": 0.5, "10": 0.2, "11": 0.1, "12": 0.1}}
    with StubServer(top=look_after(whole)) as stub:
        (reply,) = ask(stub, [Request("Rank it.", 3, labels=labels)], LOGITS)
        assert isinstance(reply, Reply)
        assert reply.logprobs is not None
        assert math.exp(reply.logprobs[0]) == pytest.approx(0.5)
        assert len(stub.bodies) == 1  # the longer labels are tokens of their own


@settings(deadline=None)
@given(
    st.lists(st.floats(0.01, 1), min_size=12, max_size=12),
    st.booleans(),
)
def test_spreading_labels_gives_back_the_distribution_that_made_the_tokens(weights, joined):
    labels = [str(n) for n in range(1, 13)]
    p = {label: weight / sum(weights) for label, weight in zip(labels, weights, strict=True)}
    if joined:  # a vocabulary with 10, 11 and 12
        table = {"": p}
    else:
        first = {d: sum(v for label, v in p.items() if label[0] == d) for d in "123456789"}
        table = {"": first, "1": {t: p["1" + t.strip("]")] / first["1"] for t in ("]]", "0", "1", "2")}}
    found = spread_labels(labels, lambda written: look_after(table)("[[" + written))
    assert [math.exp(value) for value in found] == pytest.approx([p[label] for label in labels])


def test_a_token_of_nothing_or_noise_moves_no_mass():
    table = {"": {" ": 0.4, "\n": 0.1, "1": 0.2, "]]": 0.1, "12": 0.1}}
    found = spread_labels(("1", "2"), lambda written: look_after(table)("[[" + written))
    assert found == pytest.approx((math.log(0.2), -math.inf))


@pytest.mark.parametrize("wrapping", ["chat", "plain"])
@pytest.mark.parametrize("way", ["silent", "refuses"])
def test_a_server_without_token_probabilities_is_told_to_be_read_from_the_text(wrapping, way):
    refuses = ["continue_final_message" if wrapping == "chat" else "logprobs"] if way == "refuses" else []
    with StubServer(refuses=refuses) as stub:
        requests = [Request(f"Rank {i}.", labels=("1", "2")) for i in range(5)]
        failures = ask(stub, requests, Decoding(reading="logits", wrapping=wrapping), concurrency=1)
        assert len(stub.bodies) == 1  # the rest was not sent
        for failure in failures:
            assert isinstance(failure, Failure)
            assert (failure.reason, failure.fatal) == ("no_logprobs", True)
            assert f"{stub.url} gives no token probabilities after a forced `[[`" in failure.detail
            assert failure.detail.endswith("; use reading=text")


def test_a_server_that_begins_anew_puts_no_mass_on_labels_and_gives_no_verdict():
    with StubServer(top=look_after({"": {"The": 0.7, "It": 0.3}})) as stub:
        (reply,) = ask(stub, [Request("Rank it.", labels=("1", "2"))], LOGITS)
        assert isinstance(reply, Reply)
        assert (reply.text, reply.logprobs) == ("", (-math.inf, -math.inf))


def test_a_logits_reading_without_labels_is_refused():
    with StubServer() as stub, pytest.raises(ValueError, match='request 1 has no labels; a "logits" reading needs'):
        ask(stub, [Request("a", labels=("1",)), Request("b")], LOGITS)


@pytest.mark.parametrize("prompt", ["half \ud800 pair", "a\x00b\x1b[2J\x7f\u2028", "\ufeff", "word " * 100_000, ""])
def test_any_text_can_be_sent(prompt):
    with StubServer(reply=lambda *_: "[[1]]") as stub:
        (reply,) = ask(stub, [Request(prompt)])
        assert isinstance(reply, Reply)
        assert stub.bodies[0]["messages"][0]["content"] == prompt.replace("\ud800", "\ufffd")


def test_surrogates_are_joined_where_they_pair_and_replaced_where_not():
    assert mend_text("a\ud83d\ude00b\ud83d") == "a😀b\ufffd"
    assert mend_text("\ufeffx\ude00") == "\ufeffx\ufffd"


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_whole_text_is_left_as_it_is(text):
    assert mend_text(text) == text


INTERRUPTED = """
import sys, threading, signal, os, time
from nfqa.models.chat import Decoding, Request
from nfqa.judge.openai_server import OpenAIServer
from nfqa.models.roles import RoleSpec
server = OpenAIServer(RoleSpec("judge", "openai", "stub", None, sys.argv[1]))
print("asking", flush=True)
list(server.answer([Request(str(i)) for i in range(100)], Decoding()))
"""


def test_an_interrupt_ends_the_process_though_the_server_hangs():
    with StubServer(script=["hang"] * 100) as stub:
        source = str(Path(__file__).parents[1] / "src")
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, stub.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": source},
        )
        deadline = time.monotonic() + 30
        while stub.at_once < 16 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert stub.at_once == 16
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        _, errors = process.communicate(timeout=30)
        assert time.monotonic() - began < 5  # the time-out would be 120 s
        assert "KeyboardInterrupt" in errors
        assert process.returncode != 0


def test_a_fatal_failure_ends_the_pauses_of_those_that_wait():
    with StubServer(script=["rate_limit:60", "status:403"]) as stub:
        began = time.monotonic()
        failures = ask(stub, make_requests(2), concurrency=2)
        assert time.monotonic() - began < 10
        # the one that was told to wait 60 s ends with the run's failure, or its own if it came after that
        reasons = {failure.reason for failure in failures if isinstance(failure, Failure)}
        assert "no_access" in reasons
        assert reasons <= {"no_access", "rate_limited"}
        assert len(stub.bodies) == 2


def test_an_answer_that_is_dropped_sends_no_more_of_those_that_wait():
    with StubServer(script=[None] + ["rate_limit:1"] * 9) as stub:
        server = open_server(stub, concurrency=3)
        answers = server.answer(make_requests(9), Decoding())
        next(answers)
        began = time.monotonic()
        answers.close()
        assert time.monotonic() - began < 0.9  # it does not wait for the pauses
        time.sleep(1.3)
        assert len(stub.bodies) == 3  # those first sent; after their pause nothing went out again
        server.close()


def test_a_mistake_of_our_own_is_raised_and_not_waited_for(monkeypatch):
    def stumble(*_: object) -> None:
        raise RuntimeError("a mistake")

    with StubServer() as stub:
        server = open_server(stub)
        monkeypatch.setattr(server, "_write", stumble)
        with pytest.raises(RuntimeError, match="a mistake"):
            list(server.answer(make_requests(3), Decoding()))
        server.close()


def test_progress_is_shown_when_asked_for(capsys):
    with StubServer() as stub:
        ask(stub, make_requests(3), progress=True)
    assert "asking stub" in capsys.readouterr().err


def test_the_stub_runs_as_a_script_and_keeps_its_rule(tmp_path):
    port_file = tmp_path / "port"
    script = Path(__file__).parent / "stub_server.py"
    process = subprocess.Popen([sys.executable, str(script), "--port-file", str(port_file), "--delay", "0.001"])
    try:
        deadline = time.monotonic() + 20
        while not port_file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        server = OpenAIServer(RoleSpec("judge", "openai", "any", None, port_file.read_text()))
        prompts = ["Rank it.", "Say [[A]], [[B]] or [[C]].", "Write an answer."]
        replies = order(server.answer([Request(prompt, 1) for prompt in prompts], Decoding()), 3)
        assert [reply.text for reply in replies if isinstance(reply, Reply)] == [reply_to(p, 1) for p in prompts]
        server.close()
    finally:
        process.kill()
        process.wait()
    assert json.dumps([reply_to(p, 1) for p in prompts]).count("[[") == 2  # two verdicts and a sentence
