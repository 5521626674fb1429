"""The settings of a worker: one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict

SourceKind = Literal["pull", "stream"]


class WorkerOptions(TypedDict, total=False):
    """The keyword arguments of a worker; `WorkerSettings` says what they mean."""

    concurrency: int
    batch_size: int
    batch_wait_s: float
    prefetch: int | None
    max_bytes: int
    messages_per_second: float | None
    order_by_key: bool
    max_attempts: int | None
    handler_timeout_s: float | None
    max_lease_s: float
    cancel_lost: bool
    drain_s: float
    source: SourceKind
    wait_if_refused: bool
    consumer: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker. Raises ValueError for numbers out of range."""

    concurrency: int = 8
    """Handlers that run at once: tasks of async handlers, threads of others."""
    batch_size: int = 1
    """Messages a handler is given at once; it gets a list where this is over 1."""
    batch_wait_s: float = 0.0
    """Seconds that a batch that is not full waits for more messages."""
    prefetch: int | None = None
    """Messages leased beside those that handlers work on. None: what they do in a tenth of a
    second, 1,000 at most, none while they take seconds."""
    max_bytes: int = 64 * 1024 * 1024
    """The limit of bytes of all leased messages; one message may exceed it."""
    messages_per_second: float | None = None
    """The limit of messages per second that the handler may begin with."""
    order_by_key: bool = False
    """One message of a key at a time, in the order they came. Only an ordered subscription keeps
    that also over workers and failed attempts."""
    max_attempts: int | None = None
    """The attempts after which a message is rejected, whatever the subscription's policy."""
    handler_timeout_s: float | None = None
    """Seconds after which an attempt fails.

    A thread can't be stopped: it occupies its place until it ends.
    """
    max_lease_s: float = 3600.0
    """Seconds for which a message is kept from other workers; then its lease is left to run out."""
    cancel_lost: bool = False
    """Cancel an async handler whose lease was lost."""
    drain_s: float = 30.0
    """Seconds that handlers may continue after the worker is told to stop."""
    source: SourceKind = "pull"
    """The source of messages: pulls that wait, or one stream."""
    wait_if_refused: bool = False
    """Go on asking for a subscription that is not there, or not for us, instead of ending."""
    consumer: str | None = None
    """The name for rate limits by consumer; None: host and process."""

    def __post_init__(self) -> None:
        for name in ("concurrency", "batch_size", "max_bytes", "max_lease_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be over 0")
        for name in ("prefetch", "batch_wait_s", "drain_s"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must be 0 or more")
        for name in ("messages_per_second", "max_attempts", "handler_timeout_s"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be over 0")

    @property
    def slots(self) -> int:
        """Messages that handlers can work on at once."""
        return self.concurrency * self.batch_size
