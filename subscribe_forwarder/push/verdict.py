"""Decides what an endpoint's answer means, for its message and for the endpoint. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from openapi.push import AttemptOutcome
from subscribe_forwarder.push.limiter import Load

MAX_RETRY_AFTER_S = 3_600.0
DEFAULT_THROTTLE_S = 60.0
MAX_THROTTLE_S = 3_600.0
MAX_RATE = 1e6


class Throttle(NamedTuple):
    """The flow that an endpoint asked for, for `for_s`."""

    messages_per_second: float | None
    concurrency: int | None
    for_s: float


class Verdict(NamedTuple):
    """The verdict on one request."""

    outcome: AttemptOutcome
    load: Load
    well: bool | None
    """Whether the endpoint works, for its breaker; None: that is not told. 429 is no outage."""
    detail: str
    """The detail, for people; empty where it was delivered."""
    retry_after_s: float | None
    throttle: Throttle | None


class Answer(NamedTuple):
    """The answer of an endpoint. It has the message when `delivered`."""

    status: int | None
    """None where no whole head of a response came."""
    headers: Mapping[str, str]
    """The headers, of any case; empty without a status."""
    excerpt: bytes
    """The first bytes of the body, at most 1 KiB."""
    latency_s: float
    failure: str
    """Empty, or: timeout, denied, tls, refused, closed, garbage, too_long. One that came after the
    status leaves it there."""
    detail: str = ""
    """The detail, for people."""

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300 and not self.failure


def judge(answer: Answer, wall_s: float) -> Verdict:
    """Return the verdict on an answer; a failed exchange is a failure whatever its status was."""
    status, headers = answer.status, answer.headers
    if answer.failure or status is None:
        load = Load.TOO_MUCH if answer.failure == "timeout" else Load.NOTHING
        detail = ": ".join(part for part in (answer.failure, answer.detail) if part)
        return Verdict("failed", load, False, detail or "no answer", None, None)
    throttle = throttle_of(headers)
    if 200 <= status < 300:
        return Verdict("delivered", Load.TAKEN, True, "", None, throttle)
    detail = f"answered {status}"
    after_s = retry_after(headers.get("retry-after"), wall_s)
    if status in (429, 503):
        well = None if status == 429 else False
        return Verdict("busy", Load.TOO_MUCH, well, detail, after_s, throttle)
    if status == 410:
        return Verdict("gone", Load.NOTHING, None, detail, None, None)
    if 400 <= status < 500 and status != 408:
        return Verdict("refused", Load.NOTHING, True, detail, None, throttle)
    load = Load.TOO_MUCH if status in (408, 504) else Load.NOTHING
    return Verdict("failed", load, False, detail, after_s, throttle)


def retry_after(text: str | None, wall_s: float) -> float | None:
    """Return seconds from now, of seconds or a date (RFC 9110 §10.2.3).

    Returns None for a text that cannot be understood.
    """
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(MAX_RETRY_AFTER_S, float(text[:12]))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    left_s = (moment - datetime.fromtimestamp(wall_s, UTC)).total_seconds()
    return min(MAX_RETRY_AFTER_S, max(0.0, left_s))


def throttle_of(headers: Mapping[str, str]) -> Throttle | None:
    """Return the throttle that the `Packetboat-…` headers of an answer ask for.

    A value that is no positive number is ignored.
    """
    rate = _number(headers.get("packetboat-max-rate"))
    concurrency = _number(headers.get("packetboat-max-concurrency"))
    if rate is None and concurrency is None:
        return None
    for_s = _number(headers.get("packetboat-throttle-seconds"))
    return Throttle(
        None if rate is None else min(MAX_RATE, rate),
        None if concurrency is None else max(1, int(min(MAX_RATE, concurrency))),
        DEFAULT_THROTTLE_S if for_s is None else min(MAX_THROTTLE_S, for_s),
    )


def _number(text: str | None) -> float | None:
    """Return a positive number from a header, or None."""
    if text is None or len(text) > 32:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and number > 0 else None
