"""Counts the bytes of answers that clients have not taken yet, and bounds them.

An answer leaves memory when its client reads it. For a client that reads nothing, or sets the
window of HTTP/2 to nothing, the process would keep answers for ever. So bytes that are unsent, here
and in the kernel, are counted for each connection, for the tenant whose answers they are, and for
the process, and each has a bound:

- a connection beyond its bound is ended;
- of a tenant beyond its bound, the connection ends that has gone without progress for longest;
- where the process is beyond its bound, that one of the tenant that has the most.

And a connection that takes less than LEAST_BYTES of what waits for it within the timeout is ended.
Ended means aborted: closing would wait until the rest is taken.
"""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import Gauge

LEAST_BYTES = 16 * 1024
UNSENT = Gauge(
    "packetboat_gateway_unsent_bytes",
    "Bytes of answers that clients have not taken yet, without those below 64 KiB a connection "
    "that were written within the last second.",
    multiprocess_mode="livesum",
)


def _nothing(_: str) -> None: ...


def unsent_of(transport: asyncio.WriteTransport) -> int:
    """Return how many bytes that were written its client has not taken.

    The kernel takes some too for a client that reads nothing, so its bytes count like ours.
    """
    unsent_bytes = transport.get_write_buffer_size()
    connected = transport.get_extra_info("socket")
    if connected is not None and not transport.is_closing():
        found = fcntl.ioctl(connected.fileno(), termios.TIOCOUTQ, bytes(4))
        unsent_bytes += int.from_bytes(found, sys.byteorder)
    return unsent_bytes


@dataclass(frozen=True, slots=True)
class UnsentLimits:
    """Bounds of the bytes that clients have not taken, and of the time in which they take none."""

    connection_bytes: int = 64 * 1024 * 1024
    tenant_bytes: int = 128 * 1024 * 1024
    process_bytes: int = 512 * 1024 * 1024
    timeout_s: float = 30.0


class Account:
    """The unsent bytes of one connection. `end` aborts it, and is told why."""

    __slots__ = (
        "_end",
        "ended",
        "given_bytes",
        "since_s",
        "taken_bytes",
        "tenant_id",
        "unsent_bytes",
    )

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self.ended = False
        self.tenant_id = b""
        self.unsent_bytes = 0
        self.since_s = 0.0
        """The last moment at which its client had taken enough."""
        self.taken_bytes = 0
        """Bytes that it had taken then."""
        self.given_bytes = 0
        """Bytes that had been given to be sent then."""

    def end(self, why: str) -> None:
        if not self.ended:
            self.ended = True
            self._end(why)

    def lost(self) -> None:
        """Forget the connection: it and its account would keep each other in memory."""
        self.ended = True
        self._end = _nothing


class UnsentBytes:
    """Counts the unsent bytes of the connections of one process."""

    def __init__(self, limits: UnsentLimits, now_s: Callable[[], float]) -> None:
        self._limits = limits
        self._now_s = now_s
        self.total_bytes = 0
        self._of_tenant: defaultdict[bytes, int] = defaultdict(int)
        self._accounts: dict[Account, None] = {}
        """Accounts that have unsent bytes."""

    def note(self, account: Account, tenant_id: bytes, unsent_bytes: int, given_bytes: int) -> None:
        """So much is unsent there now, of answers to that tenant, out of all that was ever given
        to be sent. May end connections."""
        if account.ended:
            return
        taken_bytes = given_bytes - unsent_bytes
        enough_bytes = min(account.taken_bytes + LEAST_BYTES, account.given_bytes)
        if not account.unsent_bytes or taken_bytes >= enough_bytes:
            account.since_s, account.taken_bytes = self._now_s(), taken_bytes
            account.given_bytes = given_bytes
        grown = unsent_bytes > account.unsent_bytes
        self._move(account, tenant_id, unsent_bytes)
        if grown:
            self._hold_to_limits(account)

    def sweep(self, account: Account, now_s: float) -> None:
        """Ends a connection whose client has taken too little for too long."""
        if account.unsent_bytes and now_s - account.since_s > self._limits.timeout_s:
            self.end(account, "stalled")

    def end(self, account: Account, why: str) -> None:
        """End the connection; its unsent bytes go with it."""
        self._move(account, account.tenant_id, 0)
        account.end(why)

    def forget(self, account: Account) -> None:
        """Drop the account of a connection that is lost."""
        self._move(account, account.tenant_id, 0)
        account.lost()

    def _move(self, account: Account, tenant_id: bytes, unsent_bytes: int) -> None:
        self._add(account.tenant_id, -account.unsent_bytes)
        self._add(tenant_id, unsent_bytes)
        account.tenant_id, account.unsent_bytes = tenant_id, unsent_bytes
        if unsent_bytes:
            self._accounts[account] = None
        else:
            self._accounts.pop(account, None)

    def _add(self, tenant_id: bytes, count: int) -> None:
        self.total_bytes += count
        self._of_tenant[tenant_id] += count
        if not self._of_tenant[tenant_id]:
            del self._of_tenant[tenant_id]

    def _hold_to_limits(self, account: Account) -> None:
        limits = self._limits
        if account.unsent_bytes > limits.connection_bytes:
            self.end(account, "unsent")
        while self._of_tenant.get(account.tenant_id, 0) > limits.tenant_bytes:
            self._end_one_of(account.tenant_id)
        while self.total_bytes > limits.process_bytes:
            self._end_one_of(max(self._of_tenant, key=self._of_tenant.__getitem__))

    def _end_one_of(self, tenant_id: bytes) -> None:
        ours = (each for each in self._accounts if each.tenant_id == tenant_id)
        self.end(min(ours, key=lambda each: each.since_s), "unsent")
