"""What the lock operations take and show."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from metadata.locks.catalog import LockState
from metadata.locks.locks import Lock

MAX_TEXT_CHARS = 128
MAX_TTL_S = 3600
MAX_WAIT_S = 60
Ttl = Annotated[float, msgspec.Meta(ge=1, le=MAX_TTL_S)]
Text = Annotated[
    str, msgspec.Meta(min_length=1, max_length=MAX_TEXT_CHARS, pattern=r"^[^\x00-\x1f\x7f]*$")
]
LockId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}\Z")]


class LockAcquire(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /locks/{name}:acquire` takes."""

    ttl_seconds: Ttl = 10.0
    wait_seconds: Annotated[float, msgspec.Meta(ge=0, le=MAX_WAIT_S)] = 0.0
    holder: Text | None = None
    request_id: Text | None = None
    labels: dict[str, str] = {}


class LockRenew(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /locks/{name}:renew` takes."""

    lock_id: LockId
    ttl_seconds: Ttl | None = None


class LockRelease(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /locks/{name}:release` takes."""

    lock_id: LockId


class LockVerify(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /locks/{name}:verify` takes."""

    fencing_token: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def holding_view(lock: Lock, now_s: float) -> dict[str, Any]:
    """A holding as its holder sees it; `now_s` is time.monotonic()."""
    return {
        "name": lock.name,
        "lock_id": lock.owner.hex(),
        "fencing_token": lock.fence,
        "holder": lock.holder,
        "ttl_seconds": lock.ttl_s,
        "expires_in_seconds": _seconds(max(0.0, lock.valid_until_s - now_s)),
        "labels": dict(lock.labels),
    }


def view(state: LockState) -> dict[str, Any]:
    """A lock as everybody sees it."""
    return {
        "name": state.name,
        "held": state.held,
        "fencing_token": state.fence,
        "holder": state.holder,
        "ttl_seconds": state.ttl_s,
        "expires_in_seconds": None if state.remaining_s is None else _seconds(state.remaining_s),
        "taken_at": state.taken_at,
        "waiting": state.waiting,
        "labels": dict(state.labels),
    }


def _seconds(seconds: float) -> float:
    return round(seconds, 3)
