"""Decides whether a request is served or refused at once. Pure but for its metrics.

Two things refuse. *Bounds* limit the requests that run, the requests that wait, and the bytes of
their bodies, so memory stays flat whatever comes; while publishes queue behind the loop, a bound
also limits how many of them run (publish_limit.py). The *pace* (edge/pace.py) holds while the loop
is late: SETTLING requests may take four fifths of what it lets through, NORMAL ones nearly all of
what is left, DEFERRABLE ones the rest, at least a twentieth.

Refusing does not help a loop that is late because another program has the processor: lateness
counts only if this process works hard, or many requests run. Publishes do not queue for a process
that does next to nothing: they wait for a store that elects a leader.

Between tenants both are fair by weight. Under the pace, a tenant that asks for no more than its
part is not limited, and the rest of its part is for the others; a tenant that asks for more has a
rate. A tenant within its part may fill a bound to the last; the others must stop before.

Invariants: without load, a request costs a dictionary look-up and some additions; each `enter` that
returned None is followed by one `leave` with the same arguments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import structlog

from edge.pace import Pace
from edge.problem import Problem
from edge.shares import CROWDED, FULL, Shares
from gateway.admission import metrics
from gateway.admission.kinds import Kind, Urgency
from gateway.admission.publish_limit import PublishLimit
from gateway.admission.queue_delay import MANY, QueueDelay
from gateway.admission.sharing import water_level

ANONYMOUS = b""
"""The tenant of requests whose token has not been checked yet."""
UNIT_BYTES = 8 * 1024
"""Bytes of a body that cost one unit; a request itself costs one unit, too."""
ALONE = 0.9
"""The part of a bound that one tenant gets when nobody else is there."""
SETTLING_PART = 0.8
DEFERRABLE_PART = 0.05
LITTLE = 0.25
"""The part of its fair share of the demand below which a tenant counts as one that
publishes little.
"""
BUSY_CPU = 0.7
"""The part of a core above which this process works hard."""
IDLE_CPU = 0.25
"""The part of a core below which nothing is refused for a late loop or for queued publishes."""
BURST_S = 0.2
DEMAND_S = 0.3
PUBLISHES_S = 5.0
"""The time over which the publishes of each tenant are averaged, to find the ones that publish
little: a publish now and then does not limit the others.
"""
FORGET_S = 5.0
RETRY_AFTER_S = (1, 2, 3)
_NEGLIGIBLE = 0.01
_log = structlog.get_logger("packetboat.admission")


def overloaded(retry_after_s: int) -> Problem:
    """Return the 503 of an overloaded server."""
    return Problem.of(
        "overloaded",
        "The server is overloaded. Nothing was done; retry after Retry-After seconds.",
        retry_after_s=retry_after_s,
    )


OVERLOADED = tuple(overloaded(seconds) for seconds in RETRY_AFTER_S)
"""The refusals with different Retry-After, so that refused callers do not return all at once."""


class Limits(NamedTuple):
    """The bounds, of one process."""

    requests: int = 1_000
    waiting: int = 20_000
    body_bytes: int = 512 * 1024 * 1024


class _Tenant:
    __slots__ = (
        "asked",
        "asked_publishes",
        "demand",
        "publish_demand",
        "publishing",
        "quiet_s",
        "rate",
        "tokens",
        "weight",
    )

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.publishing = 0
        """The number of publishes of the tenant that run."""
        self.asked = [0.0, 0.0, 0.0]
        """Units since the last tick, by urgency."""
        self.demand = [0.0, 0.0, 0.0]
        """Units a second, by urgency."""
        self.asked_publishes = 0.0
        """Units of publishes that are not deferrable, since the last tick."""
        self.publish_demand = 0.0
        """Units of those publishes a second."""
        self.rate: list[float | None] = [None, None, None]
        """Units a second it is held to, by urgency."""
        self.tokens = [0.0, 0.0, 0.0]
        self.quiet_s = 0.0

    def ask(self, kind: Kind, units: float) -> None:
        """Count a request, admitted or refused."""
        self.asked[kind.urgency] += units
        if kind.timed and kind.urgency < Urgency.DEFERRABLE:
            self.asked_publishes += units


class Admission:
    """Admits and refuses the requests of one process; `tick` it some times a second."""

    def __init__(
        self, limits: Limits | None = None, weight_of: Callable[[bytes], float] = lambda _: 1.0
    ) -> None:
        self._limits = limits or Limits()
        self._weight_of = weight_of
        self._pace = Pace()
        self._queue_delay = QueueDelay()
        self._publish_limit = PublishLimit()
        self._crowded = False
        """A publish was refused for it since the last tick."""
        self._tenants: dict[bytes, _Tenant] = {}
        of = self._weight_of
        self._requests = Shares(self._limits.requests, ALONE, of)
        self._waits = Shares(self._limits.waiting, ALONE, of)
        self._bodies = Shares(self._limits.body_bytes, ALONE, of)
        self.publishing = 0
        self._went = [0.0, 0.0, 0.0]
        self._admitted = [0, 0, 0]
        self._refused: Counter[tuple[Urgency, str]] = Counter()
        self._next = 0
        self._shed = 0

    @property
    def running(self) -> int:
        """Requests that run."""
        return int(self._requests.held)

    @property
    def waiting(self) -> int:
        """Long-polls and streams."""
        return int(self._waits.held)

    @property
    def body_bytes(self) -> int:
        """Bytes of the bodies of requests that run."""
        return int(self._bodies.held)

    @property
    def pacing(self) -> bool:
        """Whether a pace or a publish limit is in force."""
        return self._pace.per_second is not None or self._publish_limit.limit is not None

    @property
    def pressed(self) -> bool:
        """Whether `enter` might refuse a request now."""
        return self.pacing or self._requests.held >= self._requests.crowded

    def enter(self, tenant_id: bytes, kind: Kind, body_bytes: int = 0) -> Problem | None:
        """Admit a request and return None, or return the 503 Problem that refuses it.

        A `leave` with the same arguments must follow each None.
        """
        tenant = self._tenants.get(tenant_id) or self._met(tenant_id)
        units = 1.0 + body_bytes / UNIT_BYTES
        urgency = kind.urgency
        tenant.ask(kind, units)
        reason = self._reason(tenant_id, tenant, kind, body_bytes)
        if reason is not None:
            return self._refuse(urgency, reason)
        if tenant.rate[urgency] is not None:
            tenant.tokens[urgency] -= units
        self._went[urgency] += units
        self._admitted[urgency] += 1
        if kind.waits:
            self._waits.add(tenant_id)
        else:
            self._requests.add(tenant_id)
            if kind.timed:
                tenant.publishing += 1
                self.publishing += 1
        if body_bytes:
            self._bodies.add(tenant_id, body_bytes)
        return None

    def leave(
        self, tenant_id: bytes, kind: Kind, body_bytes: int = 0, seconds: float | None = None
    ) -> None:
        """Note the end of an admitted request, and its duration if it was carried out."""
        if kind.timed and seconds is not None:
            self._queue_delay.note(seconds)
        if kind.waits:
            self._waits.release(tenant_id)
        else:
            self._requests.release(tenant_id)
            if kind.timed:
                self._tenants[tenant_id].publishing -= 1
                self.publishing -= 1
        if body_bytes:
            self._bodies.release(tenant_id, body_bytes)

    def refuses(self, tenant_id: bytes, kind: Kind, body_bytes: int = 0) -> Problem | None:
        """Return the refusal that `enter` would answer, and count it; return None, and
        count nothing, where `enter` has to be asked.
        """
        tenant = self._tenants.get(tenant_id) or self._met(tenant_id)
        reason = self._reason(tenant_id, tenant, kind, body_bytes)
        if reason is None:
            return None
        tenant.ask(kind, 1.0 + body_bytes / UNIT_BYTES)
        return self._refuse(kind.urgency, reason)

    def tick(self, took_s: float, late: float, cpu: float = 1.0) -> None:
        """Update the pace, `took_s` seconds after the last tick.

        `late` is from 0 (the loop is on time) to 1; `cpu` is the part of a core that this process
        uses.
        """
        wanted = went = 0.0
        share = min(1.0, took_s / DEMAND_S)
        for tenant in self._tenants.values():
            for urgency in Urgency:
                asked = tenant.asked[urgency]
                wanted += asked
                tenant.demand[urgency] += share * (asked / took_s - tenant.demand[urgency])
                tenant.asked[urgency] = 0.0
            lately = min(1.0, took_s / PUBLISHES_S)
            tenant.publish_demand += lately * (
                tenant.asked_publishes / took_s - tenant.publish_demand
            )
            tenant.asked_publishes = 0.0
        went = sum(self._went)
        self._went = [0.0, 0.0, 0.0]
        before = self._pace.per_second
        self._tick_publish_limit(took_s, idle=cpu < IDLE_CPU)
        if cpu < IDLE_CPU or (cpu < BUSY_CPU and self.running < MANY):
            late = 0.0
        self._pace.tick(went=went, wanted=wanted, took_s=took_s, overloaded=late)
        self._note_change(before)
        if self._pace.per_second is not None:
            self._deal(self._pace.per_second, took_s)
        elif before is not None:
            for tenant in self._tenants.values():
                tenant.rate = [None, None, None]
        self._forget(took_s)
        self._tell()

    def follow_weights(self) -> None:
        """Read the weights again, which may have changed."""
        for tenant_id, tenant in self._tenants.items():
            tenant.weight = self._weight_of(tenant_id)
        for shares in (self._requests, self._waits, self._bodies):
            shares.follow_weights()

    # Within.

    def _met(self, tenant_id: bytes) -> _Tenant:
        tenant = self._tenants[tenant_id] = _Tenant(self._weight_of(tenant_id))
        return tenant

    def _refuse(self, urgency: Urgency, reason: str) -> Problem:
        self._refused[urgency, reason] += 1
        self._shed += 1
        self._next = (self._next + 1) % len(OVERLOADED)
        return OVERLOADED[self._next]

    def _tick_publish_limit(self, took_s: float, *, idle: bool) -> None:
        before = self._publish_limit.limit
        shared = self._shared()
        queued = self._queue_delay.tick(
            took_s, self.publishing, shared=shared, limited=before is not None
        )
        self._publish_limit.tick(
            running=self.publishing,
            queued=0.0 if idle else queued,
            held=self._crowded,
            shared=shared,
            took_s=took_s,
        )
        self._crowded = False
        now = self._publish_limit.limit
        if before is None and now is not None:
            metrics.changes.labels("crowded").inc()
            _log.warning("publishes queue", at_once=round(now))
        elif before is not None and now is None:
            metrics.changes.labels("uncrowded").inc()
            _log.info("publishes queue no more")
        metrics.crowd.set(now or 0)

    def _reason(self, tenant_id: bytes, tenant: _Tenant, kind: Kind, body_bytes: int) -> str | None:
        """Return the reason to refuse the request; None admits it."""
        urgency = kind.urgency
        if tenant.rate[urgency] is not None and tenant.tokens[urgency] <= 0:
            return "delay"
        reason = _bound(self._waits if kind.waits else self._requests, tenant_id, 1, urgency)
        limit = self._publish_limit.limit
        if limit is not None and kind.timed and reason is None:
            crowded = self._exceeds_limit(tenant_id, tenant, urgency, limit)
            self._crowded |= crowded
            reason = "crowd" if crowded else None
        if reason is None and body_bytes:
            reason = _bound(self._bodies, tenant_id, body_bytes, urgency)
        return reason

    def _shared(self) -> bool:
        """Somebody publishes little beside others who publish much, and must not wait for them."""
        demands = [
            (tenant.publish_demand, tenant.weight)
            for tenant_id, tenant in self._tenants.items()
            if tenant_id != ANONYMOUS
            and min(tenant.publish_demand, tenant.demand[Urgency.NORMAL]) > 1.0
        ]
        if len(demands) < 2:
            return False
        level = sum(demand for demand, _ in demands) / sum(weight for _, weight in demands)
        return any(demand < LITTLE * level * weight for demand, weight in demands)

    def _exceeds_limit(
        self, tenant_id: bytes, tenant: _Tenant, urgency: Urgency, limit: float
    ) -> bool:
        """Return whether one more publish of a tenant exceeds the publish limit; a tenant within
        its fair share never does.
        """
        if tenant.publishing + 1 <= limit * self._requests.fraction(tenant_id):
            return False
        return self.publishing >= limit * (1.0 if urgency < Urgency.DEFERRABLE else CROWDED)

    def _deal(self, units_per_s: float, took_s: float) -> None:
        """Set the rates of the tenants that want more than their part."""
        settling = self._hold(Urgency.SETTLING, SETTLING_PART * units_per_s, took_s)
        room = max(1.0, units_per_s - settling)
        least = DEFERRABLE_PART * room
        deferred = sum(tenant.demand[Urgency.DEFERRABLE] for tenant in self._tenants.values())
        taken = self._hold(Urgency.NORMAL, room - min(least, deferred), took_s)
        self._hold(Urgency.DEFERRABLE, max(least, room - taken), took_s)

    def _hold(self, urgency: Urgency, room: float, took_s: float) -> float:
        """Limit the tenants to `room`; return the units a second that go to all of them
        together.
        """
        tenants = self._tenants.values()
        level = water_level(
            [(tenant.demand[urgency], tenant.weight) for tenant in tenants], max(1.0, room)
        )
        taken = 0.0
        for tenant in tenants:
            part = None if level is None else level * tenant.weight
            demand = tenant.demand[urgency]
            if part is None or demand <= part:
                tenant.rate[urgency] = None
                taken += demand
                continue
            if tenant.rate[urgency] is None:
                tenant.tokens[urgency] = 0.0
            tenant.rate[urgency] = part
            filled = tenant.tokens[urgency] + part * took_s
            tenant.tokens[urgency] = min(filled, max(1.0, part * BURST_S))
            taken += part
        return taken

    def _forget(self, took_s: float) -> None:
        """Forget tenants that have been away."""
        gone = []
        for tenant_id, tenant in self._tenants.items():
            here = self._requests.of(tenant_id) or self._waits.of(tenant_id)
            if here or max(tenant.demand) > _NEGLIGIBLE:
                tenant.quiet_s = 0.0
                continue
            tenant.quiet_s += took_s
            if tenant.quiet_s >= FORGET_S:
                gone.append(tenant_id)
        for tenant_id in gone:
            del self._tenants[tenant_id]

    def _note_change(self, before: float | None) -> None:
        now = self._pace.per_second
        if before is None and now is None:
            return
        if before is None:
            self._shed = 0
            metrics.changes.labels("began").inc()
            _log.warning("overloaded", pace_per_second=round(now or 0.0))
        elif now is None:
            metrics.changes.labels("ended").inc()
            _log.info("no more overloaded", refused=self._shed)
        elif now < before:
            metrics.changes.labels("cut").inc()

    def _tell(self) -> None:
        for urgency in Urgency:
            if self._admitted[urgency]:
                metrics.admitted.labels(urgency.name.lower()).inc(self._admitted[urgency])
                self._admitted[urgency] = 0
        for (urgency, reason), count in self._refused.items():
            metrics.refused.labels(urgency.name.lower(), reason).inc(count)
        self._refused.clear()
        metrics.pace.set(self._pace.per_second or 0.0)
        metrics.held.labels("requests").set(self.running)
        metrics.held.labels("waiting").set(self.waiting)
        metrics.held_bytes.set(self.body_bytes)
        metrics.tenants.labels("here").set(len(self._tenants))
        held = sum(1 for tenant in self._tenants.values() if tenant.rate[Urgency.NORMAL])
        metrics.tenants.labels("held").set(held)


def _bound(shares: Shares, tenant_id: bytes, more: int, urgency: Urgency) -> str | None:
    """Return the reason for which a bound refuses `more` of a tenant, or None.

    Deferrable requests stop where a bound is crowded; settling ones may exceed the part of their
    tenant, up to the most that one tenant may have.
    """
    after = shares.held + more
    if after <= shares.crowded:
        return None
    if urgency is Urgency.DEFERRABLE:
        return FULL
    if urgency is Urgency.SETTLING and after <= shares.most:
        return None
    return shares.refusal(tenant_id, more)
