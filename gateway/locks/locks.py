"""Locks: what one of many may do at a time, with a lease and a fencing token."""

from __future__ import annotations

import asyncio
import secrets
import time

import msgspec
import structlog

from edge.asgi import Receive, Route, Scope, Send, path_param, respond, tenant_of
from edge.departure import unless_gone
from edge.problem import Problem, invalid
from edge.shares import TooManyWaiting
from gateway.http.decoding import read_json
from gateway.locks.wait_list import LockWaitList
from gateway.names import label_errors, name_errors
from gateway.resources import Call, Resource, Shown, respond_no_content
from metadata.errors import LeaseLost, MetadataError, MetadataUnavailable
from metadata.locks.catalog import LockCatalog, LockState
from metadata.locks.locks import Claim, Held, Lock, LockRepository, TooManyLocks
from metadata.locks.waiters import LockWaiterRepository
from openapi import locks as contract

SWEEP_EVERY_S = 600.0
NO_STORE = [(b"cache-control", b"no-store")]
_log = structlog.get_logger("packetboat.locks")


class LockRoutes:
    """A lock is there as soon as it is acquired, and goes when nobody has held it for a day."""

    def __init__(self, locks: LockRepository, catalog: LockCatalog, line: LockWaitList) -> None:
        self._locks = locks
        self._catalog = catalog
        self._line = line

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        locks = Resource("lock", table["getLock"], _shown)
        return [
            locks.lists(table["listLocks"], self._catalog.page),
            locks.gets(table["getLock"], self._catalog.get),
            locks.deletes(table["deleteLock"], self._delete),
            Route(contract.OPERATIONS["acquireLock"], self.acquire),
            Route(contract.OPERATIONS["renewLock"], self.renew),
            Route(contract.OPERATIONS["releaseLock"], self.release),
            Route(contract.OPERATIONS["verifyLock"], self.verify),
        ]

    async def acquire(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the holding, or 409 with its holder. A caller that goes away while it
        waits gets none."""
        body = await read_json(scope, receive, contract.LockAcquire)
        name = path_param(scope, "name")
        errors = name_errors(name) + label_errors(body.labels)
        if errors:
            raise invalid("The request does not fit.", errors)
        claim = Claim(
            tenant_of(scope),
            name,
            secrets.token_bytes(16),
            body.ttl_seconds,
            body.holder,
            body.request_id or secrets.token_hex(16),
            body.labels,
        )
        repeatable = body.request_id is not None
        acquiring = self._line.acquire(claim, body.wait_seconds, repeatable=repeatable)
        try:
            got = await unless_gone(receive, acquiring, self._undo)
        except TooManyWaiting as error:
            detail = "Too many wait for locks in this process."
            raise Problem.of("too-many-lock-waits", detail, retry_after_s=1.0) from error
        except TooManyLocks as error:
            raise Problem.of("too-many-locks", f"{error}.") from error
        if isinstance(got, Held):
            raise _held(name, got)
        await self._hand_over(send, got)

    def _undo(self, got: Lock | Held) -> None:
        if isinstance(got, Lock):
            self._line.undo(got)

    async def _hand_over(self, send: Send, lock: Lock) -> None:
        now_s = time.monotonic()
        if not lock.held(now_s):
            self._line.undo(lock)
            raise MetadataUnavailable("the lock came too late")
        try:
            await respond(send, 200, _json(_holding(lock, now_s)), headers=NO_STORE)
        except BaseException:
            self._line.undo(lock)
            raise

    async def renew(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 with the holding, or 409 if its lease was over."""
        body = await read_json(scope, receive, contract.LockRenew)
        name, owner = path_param(scope, "name"), bytes.fromhex(body.lock_id)
        try:
            lock = await self._locks.renew_holding(tenant_of(scope), name, owner, body.ttl_seconds)
        except LeaseLost as error:
            detail = f"The lock {name!r} is not held by this lock_id any more; acquire it anew."
            raise Problem.of("lock-lost", detail) from error
        await respond(send, 200, _json(_holding(lock, time.monotonic())), headers=NO_STORE)

    async def release(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 204, also if it was released before or its lease was over."""
        body = await read_json(scope, receive, contract.LockRelease)
        owner = bytes.fromhex(body.lock_id)
        await self._locks.release_holding(tenant_of(scope), path_param(scope, "name"), owner)
        await respond_no_content(send)

    async def verify(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whether the token is of the present holder."""
        body = await read_json(scope, receive, contract.LockVerify)
        state = await self._catalog.get(tenant_of(scope), path_param(scope, "name"))
        current = state.held and state.fence == body.fencing_token
        answer = contract.LockVerified(state.name, current, state.fence)
        await respond(send, 200, _json(answer), headers=NO_STORE)

    async def _delete(self, call: Call) -> None:
        """Delete a lock; its holder has lost it."""
        await self._catalog.delete(call.tenant_id, call.name)


async def sweep(catalog: LockCatalog, places: LockWaiterRepository) -> None:
    """Delete locks that nobody has used for long, for ever. Any process may; fencing tokens never
    go back by it.
    """
    while True:
        try:
            swept = await catalog.sweep()
            await places.sweep()
        except MetadataError as error:
            _log.debug("unused locks stay for now", error=str(error))
        else:
            if swept:
                _log.info("unused locks removed", count=swept)
        await asyncio.sleep(SWEEP_EVERY_S)


def _held(name: str, held: Held) -> Problem:
    by = f"by {held.holder!r}" if held.holder is not None else "or waited for by another"
    return Problem.of(
        "lock-held",
        f"The lock {name!r} is held {by}.",
        retry_after_s=held.free_in_s,
        extra={"holder": held.holder, "expires_in_seconds": round(held.free_in_s, 3)},
    )


def _holding(lock: Lock, now_s: float) -> contract.Lock:
    """Return a holding as its holder sees it; `now_s` is time.monotonic()."""
    return contract.Lock(
        name=lock.name,
        lock_id=lock.owner.hex(),
        fencing_token=lock.fence,
        holder=lock.holder,
        ttl_seconds=lock.ttl_s,
        expires_in_seconds=_seconds(max(0.0, lock.valid_until_s - now_s)),
        labels=dict(lock.labels),
    )


def _shown(state: LockState) -> Shown:
    return Shown(_state(state), state.name)


def _state(state: LockState) -> contract.LockState:
    """Return a lock as everybody sees it."""
    return contract.LockState(
        name=state.name,
        held=state.held,
        fencing_token=state.fence,
        holder=state.holder,
        ttl_seconds=state.ttl_s,
        expires_in_seconds=None if state.remaining_s is None else _seconds(state.remaining_s),
        taken_at=state.taken_at,
        waiting=state.waiting,
        labels=dict(state.labels),
    )


def _seconds(seconds: float) -> float:
    return round(seconds, 3)


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
