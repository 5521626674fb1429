# Generated from openapi/: `make generate`. Do not edit.
"""Locks, as their holder and as others see them."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Lock(msgspec.Struct, frozen=True):
    """A lock as its holder sees it."""

    name: str
    lock_id: str
    """The secret of this holding; a client that knows it can renew and release the lock."""
    fencing_token: int
    """A number that is higher than that of every earlier holder, for ever."""
    ttl_seconds: float
    expires_in_seconds: float
    """Seconds that the holder may go on from when this was sent, counted on the safe side."""
    holder: str | None = None
    labels: dict[str, str] = {}


class LockState(msgspec.Struct, frozen=True):
    """A lock as others see it."""

    name: str
    held: bool
    fencing_token: int
    """The fencing token of the holder, or of the last holder."""
    holder: str | None = None
    ttl_seconds: float | None = None
    expires_in_seconds: float | None = None
    taken_at: datetime | None = None
    waiting: int = 0
    """The number of clients that wait for the lock."""
    labels: dict[str, str] = {}


class LockVerified(msgspec.Struct, frozen=True):
    """The answer whether a fencing token is current."""

    name: str
    current: bool
    """Whether the token is that of the present holder."""
    latest_fencing_token: int
