"""The settings of a client's `publish`, in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Overflow = Literal["block", "raise", "drop_oldest"]
OnKeyFailure = Literal["fail_queued", "pause"]

MAX_BATCH_MESSAGES = 1000
MAX_BATCH_BYTES = 10 * 1024 * 1024
"""The server's limits of the messages and the bytes of one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherSettings:
    """The settings by which `publish` gathers messages into batches and handles a full buffer."""

    linger_s: float = 0.0
    """Seconds that a message waits for others; with 0 the messages that gather while a
    batch is out are sent next.
    """
    max_batch_messages: int = MAX_BATCH_MESSAGES
    max_batch_bytes: int = 2 * 1024 * 1024
    """A message that is larger goes alone."""
    max_batches_in_flight: int = 4
    """The limit of batches in flight for each topic; each key has one at most."""
    max_buffered_messages: int = 100_000
    """The limit of messages that wait or are in flight, over all topics.

    A buffer holds at least one message, whatever this limit and the next one say.
    """
    max_buffered_bytes: int = 64 * 1024 * 1024
    overflow: Overflow = "block"
    """A full buffer makes `publish` wait, raise BufferFull, or fail the oldest with Dropped."""
    on_key_failure: OnKeyFailure = "fail_queued"
    """The effect on a key when one of its messages fails for good.

    With "fail_queued" the waiting messages of the key fail, too, and later ones are published; with
    "pause" later ones fail as well until `resume_key`.
    """
    deadline_s: float = 60.0
    """Seconds for which a message is tried in all, from when `publish` accepts it."""
    close_timeout_s: float = 30.0
    """Seconds that `close`, and the end of the interpreter, wait for messages that are not
    stored yet.
    """

    def __post_init__(self) -> None:
        for name in ("max_batches_in_flight", "max_buffered_messages", "max_buffered_bytes"):
            _check(getattr(self, name) >= 1, f"{name} must be at least 1")
        _check(
            1 <= self.max_batch_messages <= MAX_BATCH_MESSAGES,
            f"max_batch_messages must be 1 to {MAX_BATCH_MESSAGES}",
        )
        _check(
            1 <= self.max_batch_bytes <= MAX_BATCH_BYTES,
            f"max_batch_bytes must be 1 to {MAX_BATCH_BYTES}",
        )
        _check(self.linger_s >= 0, "linger_s must not be negative")
        _check(self.deadline_s > 0, "deadline_s must be more than 0")
        _check(self.close_timeout_s >= 0, "close_timeout_s must not be negative")
        for name, kind in (("overflow", Overflow), ("on_key_failure", OnKeyFailure)):
            _check(getattr(self, name) in get_args(kind), f"{name} must be one of {get_args(kind)}")


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise ValueError(text)
