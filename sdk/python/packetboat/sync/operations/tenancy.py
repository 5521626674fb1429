# Generated from aio/operations/tenancy.py: `make generate`. Do not edit.
"""Bases of resources: locks, audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Unpack

from packetboat.calls import tenancy as calls
from packetboat.models import AuditEntry, AuditFilter, Lock, LockState, LockVerified, Page
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class LocksOperations:
    """Locks: one client holds each at a time."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

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
        """Wait up to `wait_seconds` (at most 60) for the lock; clients get it in the order in which
        they came. Raise Conflict, `lock-held`, when the time is over. A `request_id` that you
        choose anew for each holding makes it safe to send the request again."""
        return self._sender.send(
            calls.acquire_lock(name, ttl_seconds, wait_seconds, holder, request_id, labels),
            timeout_s,
        )

    def renew(
        self,
        name: str,
        lock_id: str,
        *,
        ttl_seconds: float | None = None,
        timeout_s: float | None = None,
    ) -> Lock:
        """Hold the lock for longer. Raise Conflict, `lock-lost`, once the lease is over: stop."""
        return self._sender.send(calls.renew_lock(name, lock_id, ttl_seconds), timeout_s)

    def release(self, name: str, lock_id: str, *, timeout_s: float | None = None) -> None:
        """Give the lock to the next client at once."""
        self._sender.send(calls.release_lock(name, lock_id), timeout_s)

    def verify(
        self, name: str, fencing_token: int, *, timeout_s: float | None = None
    ) -> LockVerified:
        """Ask whether the token was that of the holder a moment ago. It is better to let the
        resource that the lock protects compare tokens."""
        return self._sender.send(calls.verify_lock(name, fencing_token), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> LockState:
        """Return the lock and its holder. Raise NotFound where there is none of this name."""
        return self._sender.send(calls.get_lock(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[LockState]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_locks(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[LockState]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_locks(page_size, page_token), timeout_s)

    def delete(self, name: str, *, timeout_s: float | None = None) -> None:
        """Take the lock away from its holder."""
        self._sender.send(calls.delete_lock(name), timeout_s)


class AuditOperations:
    """The changes of a tenant, and their authors."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        tenant: str | None = None,
        *,
        page_size: int = 100,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> Iterator[AuditEntry]:
        """Iterate over the changes of a tenant, for operators, or of the own one, the newest first
        unless `order` says otherwise."""
        return every(
            self._sender,
            lambda token: (
                calls.get_own_audit(filters, page_size, token)
                if tenant is None
                else calls.get_audit(tenant, filters, page_size, token)
            ),
            timeout_s,
        )

    def page(
        self,
        tenant: str | None = None,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
        **filters: Unpack[AuditFilter],
    ) -> Page[AuditEntry]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.get_own_audit(filters, page_size, page_token)
            if tenant is None
            else calls.get_audit(tenant, filters, page_size, page_token),
            timeout_s,
        )
