# generated from aio/resources/locks.py by generate_sync.py; do not edit
"""Locks: what one of many may do at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from packetboat.calls import locks as calls
from packetboat.models import Lock, LockState, LockVerified, Page
from packetboat.sync.holding import Holding
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Locks:
    """Locks: what one of many may do at a time."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def hold(
        self,
        name: str,
        *,
        ttl_s: float = 30.0,
        wait_s: float | None = 0.0,
        holder: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Holding:
        """Holds the lock for as long as the block goes on, renewed in the background.

            with client.locks.hold("nightly", ttl_s=30) as lock:
                write(fence=lock.fence)

        Waits up to `wait_s` for it, None: for ever; then raises Conflict, `lock-held`. When it is
        lost, `lock.lost` is true, and `lock.check()` and the end of the block raise LeaseLost.
        """
        return Holding(self._sender, name, ttl_s, wait_s, holder, labels)

    def acquire(
        self,
        name: str,
        *,
        ttl_seconds: float | None = None,
        wait_seconds: float = 0,
        holder: str | None = None,
        request_id: str | None = None,
        labels: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> Lock:
        """Waits up to `wait_seconds` (at most 60), first come first served; then raises Conflict,
        `lock-held`. `request_id`, anew for each holding, makes it safe to send again."""
        call = calls.acquire_lock(name, ttl_seconds, wait_seconds, holder, request_id, labels)
        return self._sender.send(call, timeout_s)

    def renew(
        self,
        name: str,
        lock_id: str,
        *,
        ttl_seconds: float | None = None,
        timeout_s: float | None = None,
    ) -> Lock:
        """Raises Conflict, `lock-lost`, once the lease is over: stop."""
        return self._sender.send(calls.renew_lock(name, lock_id, ttl_seconds), timeout_s)

    def release(self, name: str, lock_id: str, *, timeout_s: float | None = None) -> None:
        """The next in line gets it at once."""
        self._sender.send(calls.release_lock(name, lock_id), timeout_s)

    def verify(
        self, name: str, fencing_token: int, *, timeout_s: float | None = None
    ) -> LockVerified:
        """Whether the token was that of the holder when it was asked; comparing is better."""
        return self._sender.send(calls.verify_lock(name, fencing_token), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> LockState:
        """Raises NotFound."""
        return self._sender.send(calls.get_lock(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[LockState]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_locks(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[LockState]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_locks(page_size, page_token), timeout_s)

    def delete(self, name: str, *, timeout_s: float | None = None) -> None:
        """Takes it away from whoever holds it."""
        self._sender.send(calls.delete_lock(name), timeout_s)
