"""The settlement of a message once its handler has ended.

A handler that returns has its message acked, one that raises has it delivered again; it raises one
of the exceptions here to say more.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

from packetboat.worker.emit import Emit, check_outputs

REASON_CHARS = 1024
"""The limit of characters of a reason that the server keeps."""


class RetryLater(Exception):
    """Raised to get the message again: after `delay_s`, or after the subscription's back-off."""

    def __init__(self, reason: str = "", *, delay_s: float | None = None) -> None:
        super().__init__(reason)
        self.delay_s = delay_s


class Reject(Exception):
    """Raised to make a dead letter at once, with this reason: another try would not help."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)


class Release(Exception):
    """Raised by a handler that did no work: the message is delivered again at once, to any
    worker, and the attempt does not count.
    """


class Verb(enum.Enum):
    """The ways to settle a message, as the server's routes name them."""

    ACK = "ack"
    NACK = "nack"
    REJECT = "reject"
    RELEASE = "release"


class Settlement(NamedTuple):
    """The settlement of one message. Equal settlements without outputs are sent together."""

    verb: Verb
    reason: str | None = None
    delay_s: float | None = None
    outputs: tuple[Emit, ...] = ()


ACK = Settlement(Verb.ACK)
RELEASE = Settlement(Verb.RELEASE)


def of_value(value: Any) -> Settlement:
    """Return the settlement for a handler's value: an ack with the emitted messages.

    Raises ValueError if there are more than an ack may publish, TypeError if only some values are
    `Emit`.
    """
    if value is None:
        return ACK
    if isinstance(value, Emit):
        return Settlement(Verb.ACK, outputs=check_outputs((value,)))
    if isinstance(value, list | tuple) and any(isinstance(each, Emit) for each in value):
        return Settlement(Verb.ACK, outputs=check_outputs(value))
    return ACK


def of_error(error: BaseException, attempt: int, max_attempts: int | None) -> Settlement:
    """Return the settlement for a handler's exception.

    The last allowed attempt makes a dead letter.
    """
    if isinstance(error, Release):
        return RELEASE
    if isinstance(error, Reject):
        return Settlement(Verb.REJECT, reason_of(error))
    if max_attempts is not None and attempt >= max_attempts:
        return Settlement(Verb.REJECT, reason_of(error))
    if isinstance(error, RetryLater):
        return Settlement(Verb.NACK, reason_of(error), error.delay_s)
    return Settlement(Verb.NACK, reason_of(error))


def exhausted(attempt: int, max_attempts: int) -> Settlement:
    """Return the settlement of a message whose workers died in each attempt."""
    reason = f"attempt {attempt} of at most {max_attempts}: earlier ones ended without an answer"
    return Settlement(Verb.REJECT, reason)


def reason_of(error: BaseException) -> str | None:
    text = str(error)
    if isinstance(error, RetryLater | Reject):
        return text[:REASON_CHARS] or None
    return f"{type(error).__name__}: {text}"[:REASON_CHARS]


def of_batch(value: Any, count: int) -> list[Any]:
    """Return a batch handler's outcome for each message: None for all, or one for each."""
    if value is None:
        return [None] * count
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise TypeError(f"a batch handler returns None or an outcome a message, not {value!r}")
    outcomes = list(value)
    if len(outcomes) != count:
        raise ValueError(f"a batch handler was given {count} messages and told of {len(outcomes)}")
    return outcomes
