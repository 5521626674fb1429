"""The answers to webhooks, for every framework."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from packetboat.webhooks.errors import DeliverLater, Outcome, WebhookError

_TEXT = {"Content-Type": "text/plain; charset=utf-8"}


class Answer(NamedTuple):
    """An answer to Packetboat."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Pace:
    """Returned by a handler that took its delivery and wants fewer of them for `for_s`."""

    messages_per_second: float | None = None
    concurrency: int | None = None
    for_s: float = 60.0


TAKEN = Answer(204, {})


def taken(returned: object) -> Answer:
    """Return the answer for a handler's result.

    Raises TypeError where that is neither None nor a Pace: a result that was meant as an answer
    must not ack.
    """
    if returned is None:
        return TAKEN
    if not isinstance(returned, Pace):
        what = type(returned).__name__
        raise TypeError(f"a webhook's handler returns None or a Pace, this one returned {what}")
    headers = {"Packetboat-Throttle-Seconds": f"{returned.for_s:g}"}
    if returned.messages_per_second is not None:
        headers["Packetboat-Max-Rate"] = f"{returned.messages_per_second:g}"
    if returned.concurrency is not None:
        headers["Packetboat-Max-Concurrency"] = str(returned.concurrency)
    return Answer(204, headers)


def challenge(text: str) -> Answer:
    return Answer(200, _TEXT, text.encode())


def refused(error: WebhookError | Outcome) -> Answer:
    headers = dict(_TEXT)
    if isinstance(error, DeliverLater) and error.after_s is not None:
        headers["Retry-After"] = str(max(0, round(error.after_s)))
    return Answer(error.status, headers, str(error).encode())
