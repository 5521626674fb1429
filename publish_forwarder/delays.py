"""The due time of a message, in seconds from now or as a moment, from headers and items.

Examples are `Packetboat-Delay: 1.5`, `Packetboat-Deliver-At: 2026-01-31T12:00:00Z`, or
`delay_seconds` and `deliver_at`. A message whose time is not in the future is published at once.
"""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import NamedTuple

from edge.problem import refuse
from openapi.publish import MAX_DELAY_S

_SECONDS = re.compile(r"[+-]?\d{1,12}(\.\d{1,20})?([eE][+-]?\d{1,2})?")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,12})?([Zz]|[+-]\d\d:\d\d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = datetime.resolution


class Delay(NamedTuple):
    """A delay as the publisher asked for it: µs from now, or (`absolute`) µs since 1970 UTC."""

    absolute: bool
    time_us: int

    def due_us(self, now_us: int) -> int:
        """Return the due time in µs since 1970; a time up to `now_us` means at once."""
        return self.time_us if self.absolute else now_us + self.time_us


def now_us() -> int:
    """Return the wall-clock time, from which due times are made; the log uses a majority's
    median.
    """
    return time.time_ns() // 1000


def after(name: str, seconds: float) -> Delay | None:
    """Return a delay of some seconds, None if that is none; raises a 422 Problem that names
    `name`.
    """
    if not seconds <= MAX_DELAY_S:
        refuse(name, f"at most {MAX_DELAY_S} seconds (365 days).")
    return Delay(False, round(seconds * 1e6)) if seconds > 0 else None


def after_text(name: str, text: str) -> Delay | None:
    return after(name, seconds_of(name, text))


def seconds_of(name: str, text: str) -> float:
    """Return the number of seconds in a header; raises a 422 Problem."""
    if not _SECONDS.fullmatch(text):
        refuse(name, "must be a number of seconds, such as 90 or 0.5.")
    return float(text)


def at(name: str, text: str, now_us: int) -> Delay:
    """Return the delay until an RFC 3339 time with a zone; raises a 422 Problem that names
    `name`.
    """
    try:
        if not _RFC3339.fullmatch(text):
            raise ValueError(text)
        time_us = (datetime.fromisoformat(text.upper()) - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        refuse(name, "must be an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z.")
    if time_us > now_us + MAX_DELAY_S * 1_000_000:
        refuse(name, "at most 365 days from now.")
    return Delay(True, time_us)
