"""Bytes of answers that clients have not taken yet: who has how many, and when that is too much.

An answer leaves memory when its client reads it. Whoever reads nothing, or sets the window of
HTTP/2 to nothing, would have the process keep answers for ever. So what is unsent is counted for
each connection, for the tenant whose answers they are, and for the process, and each has a bound:

- a connection beyond its bound is ended;
- of a tenant beyond its bound, the connection ends that has gone without progress for longest;
- where the process is beyond its bound, that one of the tenant that has the most.

And a connection that takes less than LEAST_BYTES of what waits for it within the timeout is ended.
Ended means aborted: closing would wait until the rest is taken.
"""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class UnsentLimits:
    """Of bytes that clients have not taken; `timeout_s` is how long they may take none."""

    connection_bytes: int = 64 * 1024 * 1024
    tenant_bytes: int = 128 * 1024 * 1024
    process_bytes: int = 512 * 1024 * 1024
    timeout_s: float = 30.0


class Account:
    """What one connection has unsent. `end` aborts it, and is told why."""

    __slots__ = ("_end", "ended", "since_s", "taken_bytes", "tenant_id", "unsent_bytes")

    def __init__(self, end: Callable[[str], None]) -> None:
        self._end = end
        self.ended = False
        self.tenant_id = b""
        self.unsent_bytes = 0
        self.since_s = 0.0
        """When its client had taken all, or enough of it, last."""
        self.taken_bytes = 0
        """How much it had taken then."""

    def end(self, why: str) -> None:
        if not self.ended:
            self.ended = True
            self._end(why)


class UnsentBytes:
    """One per process: who has how much unsent."""

    def __init__(self, limits: UnsentLimits, now_s: Callable[[], float]) -> None:
        self._limits = limits
        self._now_s = now_s
        self.total_bytes = 0
        self._of_tenant: defaultdict[bytes, int] = defaultdict(int)
        self._accounts: dict[Account, None] = {}
        """Those that have any."""

    def note(self, account: Account, tenant_id: bytes, unsent_bytes: int, given_bytes: int) -> None:
        """So much is unsent there now, of answers to that tenant, out of all that was ever given
        to be sent. May end connections."""
        if account.ended:
            return
        taken_bytes = given_bytes - unsent_bytes
        if not account.unsent_bytes or taken_bytes - account.taken_bytes >= LEAST_BYTES:
            account.since_s, account.taken_bytes = self._now_s(), taken_bytes
        grown = unsent_bytes > account.unsent_bytes
        self._move(account, tenant_id, unsent_bytes)
        if grown:
            self._hold_to_limits(account)

    def sweep(self, account: Account, now_s: float) -> None:
        """Ends a connection whose client has taken too little for too long."""
        if account.unsent_bytes and now_s - account.since_s > self._limits.timeout_s:
            self.end(account, "stalled")

    def end(self, account: Account, why: str) -> None:
        """What it had unsent goes with it."""
        self._move(account, account.tenant_id, 0)
        account.end(why)

    def forget(self, account: Account) -> None:
        """Its connection is lost."""
        self._move(account, account.tenant_id, 0)
        account.ended = True

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
