"""Locks with a lease and a fencing token."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta

from openapi.common import (
    CONFLICT,
    RETRY_AFTER,
    Count,
    Hex128,
    Labels,
    NextPageToken,
    Problem,
    ShownLabels,
    Text,
)
from openapi.contract import Answer, Body, Operation, Refusal, no_content, ok, table

TtlSeconds = Annotated[float, Meta(ge=1, le=3600)]


class LockState(Answer):
    """A lock as others see it."""

    name: str
    """The name of the lock."""
    held: bool
    """Whether a client holds it now."""
    fencing_token: int
    """The fencing token of the holder, or of the last holder."""
    holder: str | None
    """The name that the holder gave itself; null where it gave none, or where nobody holds the
    lock."""
    ttl_seconds: float | None
    """Seconds that each renewal keeps the lock; null where nobody holds it."""
    expires_in_seconds: float | None
    """Seconds until the lock is free, unless it is renewed; null where nobody holds it."""
    taken_at: datetime | None
    """The time at which the holder got the lock; null where nobody holds it."""
    waiting: Count
    """The number of clients that wait for the lock."""
    labels: ShownLabels
    """The labels of this holding; empty where nobody holds the lock."""


class LockPage(Answer):
    """One page of locks."""

    locks: list[LockState]
    """The locks of this page, by name."""
    next_page_token: NextPageToken


class LockAcquire(Body):
    """A request to acquire a lock."""

    ttl_seconds: TtlSeconds = 10.0
    """Seconds that the lock is held without being renewed."""
    wait_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    """Seconds to wait for the lock; clients get it in the order in which they came."""
    holder: Text | None = None
    """A name of the holder that others are shown."""
    request_id: Text | None = None
    """An id that the client chooses anew for each holding. The same request, sent again with the
    same id, gets the same holding, for example after an answer was lost."""
    labels: Labels = {}


class Lock(Answer):
    """A lock as its holder sees it."""

    name: str
    """The name of the lock."""
    lock_id: Hex128
    """The secret of this holding; a client that knows it can renew and release the lock."""
    fencing_token: int
    """A number that is higher than that of every earlier holder, for ever."""
    holder: str | None
    """The name that the holder gave itself; null where it gave none."""
    ttl_seconds: float
    """Seconds that each renewal keeps the lock."""
    expires_in_seconds: Annotated[float, Meta(ge=0)]
    """Seconds that the holder may go on from when this was sent, counted on the safe side."""
    labels: ShownLabels


class LockRenew(Body):
    """A request to renew a lock."""

    lock_id: Hex128
    """The secret of this holding; a client that knows it can renew and release the lock."""
    ttl_seconds: TtlSeconds | None = None
    """Seconds that the lock is held without being renewed."""


class LockRelease(Body):
    """A request to release a lock."""

    lock_id: Hex128
    """The secret of this holding; a client that knows it can renew and release the lock."""


class LockVerify(Body):
    """A question whether a fencing token is current."""

    fencing_token: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    """The fencing token to compare with the latest one."""


class LockVerified(Answer):
    """The answer whether a fencing token is current."""

    name: str
    """The name of the lock."""
    current: bool
    """Whether the token is that of the present holder."""
    latest_fencing_token: int
    """The fencing token of the present holder, or of the last one."""


LOCK_HELD = Refusal(
    "LockHeld",
    409,
    "Another holds it or waited before, or the tenant has as many locks as it may.",
    Problem,
    (RETRY_AFTER,),
)

OPERATIONS = table(
    "locks",
    Operation(
        id="listLocks",
        route="GET /locks",
        needs="read lock:?",
        summary="List locks",
        paged=True,
        answers=(ok(LockPage, "One page, by name."),),
    ),
    Operation(
        id="getLock",
        route="GET /locks/{name}",
        needs="read lock:name",
        summary="Get a lock",
        answers=(ok(LockState, "The lock and who holds it."),),
    ),
    Operation(
        id="deleteLock",
        route="DELETE /locks/{name}",
        needs="manage lock:name",
        summary="Delete a lock",
        answers=(
            no_content(
                "The lock is deleted and not held; the next holder has a higher fencing token."
            ),
        ),
    ),
    Operation(
        id="acquireLock",
        route="POST /locks/{name}:acquire",
        needs="lock lock:name",
        summary="Acquire a lock",
        description=(
            "Those who wait get it in the order in which they came. A lease alone excludes "
            "nobody that was paused. Pass the fencing token on to what the lock protects, and "
            "let that refuse lower ones."
        ),
        body=LockAcquire,
        answers=(ok(Lock, "It is held until its time to live is over, unless it is renewed."),),
        problems=(LOCK_HELD,),
    ),
    Operation(
        id="renewLock",
        route="POST /locks/{name}:renew",
        needs="lock lock:name",
        summary="Renew a lock",
        body=LockRenew,
        answers=(ok(Lock, "It is held for its time to live from now on."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="releaseLock",
        route="POST /locks/{name}:release",
        needs="lock lock:name",
        summary="Release a lock",
        body=LockRelease,
        answers=(no_content("The next one has it at once. Also when it was not held any more."),),
    ),
    Operation(
        id="verifyLock",
        route="POST /locks/{name}:verify",
        needs="read lock:name",
        summary="Ask whether a fencing token is current",
        body=LockVerify,
        answers=(ok(LockVerified, "As it was a moment ago."),),
    ),
)
