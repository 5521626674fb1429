"""Test how long a try may take, and the outcome of a call after its last try."""

from __future__ import annotations

import pytest
from packetboat.errors import (
    Conflict,
    ConnectionFailed,
    NotFound,
    Overloaded,
    PacketboatError,
    Problem,
    ServerError,
    UnknownOutcome,
    UntrustedServer,
)
from packetboat.options import Options
from packetboat.transport import Request
from packetboat.tries import Tries

POST = Request("POST", "/topics/orders/messages")
GET = Request("GET", "/topics/orders")
GONE = ConnectionFailed("refused")
CUT = UnknownOutcome("cut")


def tries(request: Request = POST, deadline_s: float | None = None, **options: float) -> Tries:
    told = Options(**options)  # type: ignore[arg-type]
    return Tries(request, told, 100.0, safe=True, idempotency_key="key", deadline_s=deadline_s)


def test_a_try_ends_with_the_deadline() -> None:
    assert tries(deadline_s=8).request(101.0).timeout_s == 7
    assert tries(deadline_s=8).request(200.0).timeout_s > 0
    assert tries(deadline_s=800).request(101.0).timeout_s == 30


def test_a_deadline_bounds_the_beginning_of_a_stream_and_not_its_silences() -> None:
    stream = Request("GET", "/subscriptions/s/messages:stream", timeout_s=80.0)
    first = tries(stream, deadline_s=8).request(101.0)
    assert (first.timeout_s, first.silence_s) == (7, 80)
    later = first.within(2)
    assert (later.timeout_s, later.silence_s) == (2, 80)


def test_without_a_deadline_each_try_has_its_time() -> None:
    assert tries().request(109.0).timeout_s == 30


def test_the_timeout_is_beside_what_the_server_is_asked_to_wait() -> None:
    pull = Request("GET", "/subscriptions/s/messages?wait_seconds=60", timeout_s=90.0)
    assert tries(pull, timeout_s=5).request(100.0).timeout_s == 65


def test_no_try_begins_after_the_deadline() -> None:
    assert tries(deadline_s=5).pause_s(GONE, 105.0) is None
    assert tries(deadline_s=50).pause_s(GONE, 105.0) is not None
    assert tries(retry_for_s=5).pause_s(GONE, 105.0) is None


LATER: dict[str, PacketboatError] = {
    "not-reached": GONE,
    "refused": Overloaded(Problem(status=429)),
    "conflict": Conflict(Problem(status=409)),
}


@pytest.mark.parametrize("later", LATER)
def test_what_an_earlier_try_may_have_done_is_not_not_done(later: str) -> None:
    call = tries()
    call.pause_s(CUT, 100.0)
    call.pause_s(LATER[later], 101.0)
    outcome = call.outcome(LATER[later], 102.0, None)
    assert isinstance(outcome, UnknownOutcome)
    assert outcome.idempotency_key == "key"
    assert outcome.__cause__ is LATER[later]
    assert outcome.problem == getattr(LATER[later], "problem", None)


def test_reading_does_nothing_so_its_last_error_is_true() -> None:
    call = tries(GET)
    call.pause_s(CUT, 100.0)
    error = NotFound(Problem(status=404))
    assert call.outcome(error, 102.0, None) is error


def test_an_error_that_says_nothing_of_the_effect_stays() -> None:
    call = tries()
    call.pause_s(CUT, 100.0)
    error = ServerError(500, "oops")
    assert call.outcome(error, 102.0, None) is error


def test_who_is_not_trusted_is_not_asked_again() -> None:
    assert tries().pause_s(UntrustedServer("self-signed"), 100.0) is None
