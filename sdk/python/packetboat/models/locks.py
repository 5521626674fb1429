"""Locks, as their holder and as others see them."""

from __future__ import annotations

from datetime import datetime

import msgspec


class Lock(msgspec.Struct, frozen=True):
    """A lock as its holder sees it."""

    name: str
    lock_id: str
    """Of the holding; who knows it can renew and release it."""
    fencing_token: int
    """Higher than that of every holder before, for ever."""
    ttl_seconds: float
    expires_in_seconds: float
    """How long the holder may go on from when this was sent, counted on the safe side."""
    holder: str | None = None
    labels: dict[str, str] = {}


class LockState(msgspec.Struct, frozen=True):
    """A lock as others see it."""

    name: str
    held: bool
    fencing_token: int
    """Of the holder, or of the last one."""
    holder: str | None = None
    ttl_seconds: float | None = None
    expires_in_seconds: float | None = None
    taken_at: datetime | None = None
    waiting: int = 0
    labels: dict[str, str] = {}


class LockVerified(msgspec.Struct, frozen=True):
    """`current`: the token is that of the present holder."""

    name: str
    current: bool
    latest_fencing_token: int
