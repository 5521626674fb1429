"""Counts the leased messages of a tenant, over all its subscriptions here, and limits them.

They are counted a few times a second, and deliveries in between are added. So the end of a lease
shows a moment later. Deliveries exceed this process's share of the tenant's limit at most by the
messages of another process, until the shares have followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet

from edge.quota import IN_FLIGHT, Quotas
from openapi.flow import Throttle
from subscribe_forwarder.delivery.state.rate import SharedLimit

COUNT_EVERY_S = 0.05
LOOK_AGAIN_S = 0.1
"""Seconds after which a caller that waits for room looks again: acks of another
subscription may make room.
"""
MAX_WANTED = 1_000
"""The highest number that one pull may take."""


class Leasing(Protocol):
    """A `delivery.hub.Hub`."""

    def leased(self) -> int:
        """Return the number of leased messages, after expired leases are ended."""
        ...


class TenantInFlight:
    """The messages of one tenant in flight; a `SharedLimit`."""

    def __init__(self, tenant_id: bytes, levels: Quotas, clock: Callable[[], float]) -> None:
        self._tenant_id = tenant_id
        self._levels = levels
        self._clock = clock
        self._hubs: WeakSet[Leasing] = WeakSet()
        self._held = 0
        self._counted_s = float("-inf")

    def add(self, hub: Leasing) -> None:
        """Add a hub of the tenant, for as long as anybody holds it."""
        self._hubs.add(hub)

    @property
    def active(self) -> bool:
        """Whether the tenant has a limit."""
        return self._levels.share(self._tenant_id, IN_FLIGHT, 0, 0) is not None

    def room(self, wanted: int, now_s: float) -> int:
        """Return how many of `wanted` messages may be leased now."""
        held = self._count(now_s)
        share = self._levels.share(self._tenant_id, IN_FLIGHT, held, 0)
        if share is None:
            return wanted
        room = max(1, int(share)) - held
        if room <= 0:
            self._levels.share(self._tenant_id, IN_FLIGHT, held, min(wanted, MAX_WANTED))
            return 0
        return min(wanted, room)

    def took(self, count: int, now_s: float) -> None:
        """Count delivered messages as leased."""
        self._held += count

    def give_back(self, count: int, now_s: float) -> None:
        self._counted_s = float("-inf")

    def due_s(self, wanted: int, now_s: float) -> float | None:
        """Return when to look again; None if there is room."""
        return None if self.room(1, now_s) else now_s + LOOK_AGAIN_S

    def restraints(self) -> list[Throttle]:
        """Return the limit for display if it holds deliveries back."""
        if self.room(1, self._clock()):
            return []
        share = self._levels.share(self._tenant_id, IN_FLIGHT, 0, 0)
        reason = "the tenant has as many messages in flight as it may"
        return [Throttle("tenant_in_flight", reason, share, None)]

    def _count(self, now_s: float) -> int:
        if now_s - self._counted_s >= COUNT_EVERY_S:
            self._counted_s = now_s
            self._held = sum([hub.leased() for hub in self._hubs])
        return self._held


class InFlight:
    """All tenants of a process."""

    def __init__(self, levels: Quotas, clock: Callable[[], float]) -> None:
        self._levels = levels
        self._clock = clock
        self._tenants: dict[bytes, TenantInFlight] = {}

    def of(self, tenant_id: bytes) -> TenantInFlight:
        known = self._tenants.get(tenant_id)
        if known is None:
            made = TenantInFlight(tenant_id, self._levels, self._clock)
            known = self._tenants[tenant_id] = made
        return known


class Both:
    """The limit of the process, then the limit of the tenant; a `SharedLimit`."""

    def __init__(self, process: SharedLimit, tenant: TenantInFlight) -> None:
        self._process = process
        self._tenant = tenant

    @property
    def active(self) -> bool:
        """Whether the process or the tenant has a limit."""
        return self._process.active or self._tenant.active

    def room(self, wanted: int, now_s: float) -> int:
        room = self._tenant.room(wanted, now_s)
        return self._process.room(room, now_s) if room else 0

    def took(self, count: int, now_s: float) -> None:
        """Count delivered messages in both limits."""
        self._process.took(count, now_s)
        self._tenant.took(count, now_s)

    def give_back(self, count: int, now_s: float) -> None:
        self._process.give_back(count, now_s)
        self._tenant.give_back(count, now_s)

    def due_s(self, wanted: int, now_s: float) -> float | None:
        """Return the time at which `room` will not be 0; None if nothing is held back."""
        due_s = [self._process.due_s(wanted, now_s), self._tenant.due_s(wanted, now_s)]
        return max([one for one in due_s if one is not None], default=None)
