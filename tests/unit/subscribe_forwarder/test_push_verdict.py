"""Test the meaning of answers, and what an endpoint may ask for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edge.breaker import State
from openapi.push import AttemptOutcome, PushStatus
from subscribe_forwarder.push.endpoint import Endpoint, endpoint_key
from subscribe_forwarder.push.limiter import Load
from subscribe_forwarder.push.status import merged
from subscribe_forwarder.push.verdict import (
    MAX_RETRY_AFTER_S,
    Answer,
    judge,
    retry_after,
    throttle_of,
)
from tests.unit.subscribe_forwarder.push_model import made

NOW_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def of(status: int | None, failure: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, b"", 0.1, failure)


@pytest.mark.parametrize(
    ("answer", "outcome", "load", "well"),
    [
        (of(200), "delivered", Load.TAKEN, True),
        (of(204), "delivered", Load.TAKEN, True),
        (of(200, "too_long"), "failed", Load.NOTHING, False),
        (of(302), "failed", Load.NOTHING, False),
        (of(400), "refused", Load.NOTHING, True),
        (of(404), "refused", Load.NOTHING, True),
        (of(408), "failed", Load.TOO_MUCH, False),
        (of(410), "gone", Load.NOTHING, None),
        (of(429), "busy", Load.TOO_MUCH, None),
        (of(500), "failed", Load.NOTHING, False),
        (of(503), "busy", Load.TOO_MUCH, False),
        (of(504), "failed", Load.TOO_MUCH, False),
        (of(None, "timeout"), "failed", Load.TOO_MUCH, False),
        (of(None, "refused"), "failed", Load.NOTHING, False),
        (of(None, "denied"), "failed", Load.NOTHING, False),
    ],
)
def test_answers(answer: Answer, outcome: AttemptOutcome, load: Load, well: bool | None) -> None:
    verdict = judge(answer, NOW_S)
    assert (verdict.outcome, verdict.load, verdict.well) == (outcome, load, well)
    assert bool(verdict.detail) is (outcome != "delivered")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("99999999999999999999", MAX_RETRY_AFTER_S),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 2026 00:00:30", 30.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", MAX_RETRY_AFTER_S),
        ("-1", None),
        ("soon", None),
        ("1.5", None),
        ("٣", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after(text: str | None, seconds: float | None) -> None:
    assert retry_after(text, NOW_S) == seconds


@given(st.text(max_size=80))
def test_no_header_breaks_it(text: str) -> None:
    seconds = retry_after(text, NOW_S)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER_S
    asked = throttle_of({"packetboat-max-rate": text, "packetboat-max-concurrency": text})
    assert asked is None or (asked.messages_per_second or 1) > 0


@pytest.mark.parametrize("text", ["0", "-5", "nan", "inf", "x", "1e400", ""])
def test_what_is_no_positive_number_is_not_heard(text: str) -> None:
    assert throttle_of({"packetboat-max-rate": text}) is None


def test_a_pause_holds_for_the_endpoint_and_ends() -> None:
    endpoint = made()
    endpoint.begin(1, 0.0)
    endpoint.ended(0.0, judge(of(429, retry_after="30"), NOW_S), 0.1)
    assert (endpoint.room(1.0), endpoint.shut(1.0), endpoint.ahead(1.0)) == (0, True, 0)
    assert endpoint.due_s(1.0) == pytest.approx(30.1)
    assert endpoint.room(30.2) >= 1
    assert endpoint.breaker.state is State.CLOSED


def test_what_it_asks_for_is_kept_until_it_expires() -> None:
    endpoint = made()
    asked = of(
        200,
        packetboat_max_rate="10",
        packetboat_max_concurrency="2",
        packetboat_throttle_seconds="60",
    )
    endpoint.begin(1, 0.0)
    endpoint.ended(0.0, judge(asked, NOW_S), 0.0)
    now_s, sent = 0.0, 0
    while now_s < 50.0:
        while endpoint.room(now_s):
            assert endpoint.limiter.in_flight < 2
            endpoint.begin(1, now_s)
            sent += 1
            endpoint.ended(now_s, judge(of(200), NOW_S), now_s)
        now_s += 0.01
    assert 0.9 * 500 <= sent <= 500 + 10
    assert told(endpoint, 50.0).max_rate == 10
    assert told(endpoint, 61.0).max_rate is None


def test_half_open_carries_one_message() -> None:
    endpoint = made()
    now_s = 0.0
    while endpoint.breaker.state is State.CLOSED:
        endpoint.begin(1, now_s)
        endpoint.ended(now_s, judge(of(None, "refused"), NOW_S), now_s)
    assert endpoint.room(now_s) == 0
    due_s = endpoint.due_s(now_s)
    assert due_s is not None
    assert (endpoint.room(due_s), endpoint.messages(100, due_s)) == (1, 1)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.com/a?b", "https://example.com:443"),
        ("http://example.com:8080/", "http://example.com:8080"),
        ("https://[::1]:8443/x", "https://::1:8443"),
    ],
)
def test_an_endpoint_is_an_origin(url: str, origin: str) -> None:
    assert endpoint_key(bytes(16), url).origin == origin


def test_owners_are_shown_together() -> None:
    one = pushing()
    other = replace(one, breaker="open", breaker_reason="why", last_error="an error")
    assert merged([]) is None
    assert merged([one]) == one
    both = merged([one, other])
    assert both is not None
    assert (both.breaker, both.breaker_reason) == ("open", "why")
    assert (both.delivered, both.limit, both.last_error) == (8, 8.0, "an error")


def test_the_strictest_of_all_owners_is_shown() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    one = replace(pushing(), failing_since=late, max_rate=9.0, paused_seconds=1.0)
    other = replace(one, failing_since=early, max_rate=2.5, max_concurrency=3, paused_seconds=2.0)
    idle = PushStatus("enabled", None, None)
    shown = merged([one, other, idle])
    assert shown is not None
    assert (shown.failing_since, shown.paused_seconds) == (early, 2.0)
    assert (shown.max_rate, shown.max_concurrency, shown.last_error) == (2.5, 3, None)
    assert merged([idle, idle]) == idle


def pushing() -> PushStatus:
    """Return the status of a push that is going on."""
    shown = told(made(), 0.0)
    return replace(shown, requests_in_flight=1, leased_ahead=2, uncommitted=3, delivered=4)


def told(endpoint: Endpoint, now_s: float) -> PushStatus:
    """Return the status of a push into which the endpoint has written its state."""
    shown = PushStatus("enabled", None, None)
    endpoint.tell(shown, now_s)
    return shown
