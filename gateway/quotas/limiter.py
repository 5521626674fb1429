"""Holds the limits of all tenants in this process: the `edge.quota.Quotas`.

A tenant without limits costs a dictionary look-up. Nothing here waits or reads: limits come by
`follow` (limits.py), shares by `learn` (sharing.py). Until new ones are learned, the last shares
stay in use.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from edge.asgi import Header
from edge.quota import PUBLISH_BYTES, PUBLISH_MESSAGES, PUBLISH_QUOTAS, REQUESTS, QuotaRefusal
from gateway.quotas import metrics
from gateway.quotas.bucket import Bucket
from gateway.quotas.level import Level
from gateway.quotas.shares import NEGLIGIBLE, share_of
from metadata.tenancy.quota_demands import Demand
from metadata.tenancy.quotas import TenantQuota
from metadata.tenancy.tenants import PLATFORM_ID
from openapi.tenants import DEFAULT_WEIGHT
from openapi.usage import QUOTA_NAMES

RATES = frozenset({PUBLISH_MESSAGES, PUBLISH_BYTES, REQUESTS})
PRESENCE = "processes:"
"""Prefix of a platform limit's name; each process that enforces the limit counts one."""

MOVED = 0.05
"""Part of a limit by which shares must change for the next look to come soon."""


class _Tenant:
    """The limits of a tenant that this process enforces."""

    __slots__ = ("buckets", "levels")

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.levels: dict[str, Level] = {}

    def all(self) -> Iterator[tuple[str, Bucket | Level]]:
        yield from self.buckets.items()
        yield from self.levels.items()


class Limiter:
    """Limits of all tenants; one per process, used on one event loop."""

    def __init__(
        self,
        enforced: Iterable[str],
        defaults: Mapping[str, float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare a limiter.

        `enforced` are the names of the limits that this process enforces; `defaults` hold for
        tenants without a limit of their own, 0 for none.
        """
        self._enforced = tuple(enforced)
        assert set(self._enforced) <= set(QUOTA_NAMES)
        self._defaults = {name: defaults.get(name) or 0.0 for name in self._enforced}
        self._by_default = any(self._defaults.values())
        self._clock = clock
        self._weights: dict[bytes, float] = {}
        self._own: dict[bytes, Mapping[str, float | None]] = {}
        self._tenants: dict[bytes, _Tenant] = {}
        self._busy: dict[tuple[bytes, str], Bucket | Level] = {}
        self._processes = dict.fromkeys(self._enforced, 1)
        self.hurry: Callable[[], None] = lambda: None
        """Callback for demand that the other processes should know soon."""

    # Questions of callers.

    def take(self, tenant_id: bytes, quota: str, amount: float) -> QuotaRefusal | None:
        """Take an amount from a tenant's rate; return the refusal if the rate is used up."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None and (tenant := self._met(tenant_id)) is None:
            return None
        bucket = tenant.buckets.get(quota)
        if bucket is None:
            return None
        if not bucket.asked:
            self._busy[tenant_id, quota] = bucket
        bucket.asked += amount
        if bucket.asked > bucket.alarm:
            self._alarm(bucket)
        if bucket.fill(self._clock()) <= 0:
            return self._refuse(bucket, tenant)
        bucket.tokens -= amount
        return None

    def take_publish(self, tenant_id: bytes, messages: int, size_bytes: int) -> QuotaRefusal | None:
        """Take a publish from the rates of messages and of bytes; return a refusal or None."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None and (tenant := self._met(tenant_id)) is None:
            return None
        buckets = tenant.buckets
        by_count, by_size = buckets.get(PUBLISH_MESSAGES), buckets.get(PUBLISH_BYTES)
        if by_count is None and by_size is None:
            return None
        now_s = self._clock()
        refused: Bucket | None = None
        if by_count is not None:
            if not by_count.asked:
                self._busy[tenant_id, PUBLISH_MESSAGES] = by_count
            by_count.asked += messages
            if by_count.asked > by_count.alarm:
                self._alarm(by_count)
            if by_count.fill(now_s) <= 0:
                refused = by_count
        if by_size is not None:
            if not by_size.asked:
                self._busy[tenant_id, PUBLISH_BYTES] = by_size
            by_size.asked += size_bytes
            if by_size.asked > by_size.alarm:
                self._alarm(by_size)
            # If two limits are used up, the answer names the one with the longer wait.
            if by_size.fill(now_s) <= 0 and (
                refused is None or by_size.wait_s() > refused.wait_s()
            ):
                refused = by_size
        if refused is not None:
            return self._refuse(refused, tenant)
        if by_count is not None:
            by_count.tokens -= messages
        if by_size is not None:
            by_size.tokens -= size_bytes
        return None

    def headers(self, tenant_id: bytes, quotas: Sequence[str]) -> Sequence[Header]:
        """Return the response headers that report a tenant's rates."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None or not tenant.buckets:
            return ()
        now_s = self._clock()
        buckets = [bucket for name in quotas if (bucket := tenant.buckets.get(name)) is not None]
        for bucket in buckets:
            bucket.fill(now_s)
        return _headers(buckets)

    def share(self, tenant_id: bytes, quota: str, held: int, wanted: int) -> float | None:
        """Return this process's share of a level, such as leases; None if it has no limit."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None and (tenant := self._met(tenant_id)) is None:
            return None
        level = tenant.levels.get(quota)
        if level is None:
            return None
        asked = held + wanted
        if asked > level.asked:
            if not level.asked:
                self._busy[tenant_id, quota] = level
            level.asked = asked
            if asked > level.share and asked > 2 * level.told:
                self.hurry()
        return level.share

    def weight(self, tenant_id: bytes) -> float:
        """Return a tenant's part where tenants compete, relative to the others."""
        return self._weights.get(tenant_id, DEFAULT_WEIGHT)

    # Facts that are learned.

    def follow(self, quotas: Iterable[TenantQuota], *, all_of_them: bool = False) -> None:
        """Use the present limits of these tenants, or with `all_of_them`, of these alone."""
        told = {quota.tenant_id: quota for quota in quotas}
        # An exempt tenant may have no limit of its own: it costs nothing here.
        found = {
            tenant_id: quota
            for tenant_id, quota in told.items()
            if quota.limits or quota.weight != DEFAULT_WEIGHT
        }
        gone = [one for one in self._own if one not in found and (all_of_them or one in told)]
        for tenant_id in gone:
            del self._own[tenant_id]
            self._weights.pop(tenant_id, None)
            self._set(tenant_id)
        for tenant_id, quota in found.items():
            self._own[tenant_id] = quota.limits
            self._weights[tenant_id] = quota.weight
            self._set(tenant_id)

    def look(self, took_s: float) -> list[Demand]:
        """Return the demands to tell the other processes, `took_s` seconds after the last look."""
        now_s = self._clock()
        demands = []
        for (tenant_id, quota), one in list(self._busy.items()):
            one.look(took_s, now_s)
            if one.demand > NEGLIGIBLE * one.limit:
                one.told = one.demand
            elif one.told:
                one.told = 0.0
                one.follow(one.limit, self._even(quota, one.limit), now_s)
            else:
                if not one.demand:
                    self._rest(tenant_id, quota)
                continue
            demands.append(Demand(tenant_id, quota, one.told))
        if self._tenants or self._by_default:
            demands += [Demand(PLATFORM_ID, PRESENCE + name, 1.0) for name in self._enforced]
        metrics.limited.set(len(self._tenants))
        return demands

    def learn(self, totals: Mapping[tuple[bytes, str], float]) -> bool:
        """Learn the total demands of all processes; return whether the next look should be soon.

        It should if shares have changed much.
        """
        moved = False
        now_s = self._clock()
        before = dict(self._processes)
        for name in self._enforced:
            processes = totals.get((PLATFORM_ID, PRESENCE + name), 1.0)
            self._processes[name] = max(1, round(processes))
        if before != self._processes:
            self._deal_evenly(now_s)
        for (tenant_id, quota), total in totals.items():
            one = self._busy.get((tenant_id, quota))
            if one is not None and one.told:
                share = share_of(one.limit, one.told, total, self._processes[quota])
                moved |= abs(share - one.share) > MOVED * one.limit
                one.follow(one.limit, share, now_s)
        return moved

    # Within.

    def _alarm(self, bucket: Bucket) -> None:
        bucket.alarm = math.inf
        self.hurry()

    def _refuse(self, bucket: Bucket, tenant: _Tenant) -> QuotaRefusal:
        metrics.refused.labels(bucket.quota).inc()
        names = PUBLISH_QUOTAS if bucket.quota in PUBLISH_QUOTAS else (bucket.quota,)
        shown = [tenant.buckets[name] for name in names if name in tenant.buckets]
        return QuotaRefusal(bucket.quota, bucket.limit, bucket.wait_s(), _headers(shown))

    def _met(self, tenant_id: bytes) -> _Tenant | None:
        """Set up a tenant with the platform's limits when it is first seen; None without limits."""
        if not self._by_default or tenant_id == PLATFORM_ID:
            return None
        self._set(tenant_id)
        return self._tenants[tenant_id]

    def _limits_of(self, tenant_id: bytes) -> dict[str, float]:
        own = self._own.get(tenant_id, {})
        defaults = self._defaults if tenant_id != PLATFORM_ID else {}
        found = {name: own.get(name, defaults.get(name)) for name in self._enforced}
        return {name: limit for name, limit in found.items() if limit}

    def _set(self, tenant_id: bytes) -> None:
        """Set up a tenant that was not known, or whose limits have changed."""
        limits = self._limits_of(tenant_id)
        if not limits and not self._by_default:
            self._tenants.pop(tenant_id, None)
            for name in self._enforced:
                self._busy.pop((tenant_id, name), None)
            return
        tenant = self._tenants.setdefault(tenant_id, _Tenant())
        now_s = self._clock()
        for name in self._enforced:
            kept: dict[str, Bucket] | dict[str, Level]
            kept = tenant.buckets if name in RATES else tenant.levels
            limit = limits.get(name)
            one = kept.get(name)
            if limit is None:
                kept.pop(name, None)
                self._busy.pop((tenant_id, name), None)
            elif one is not None:
                one.follow(limit, one.share * limit / one.limit, now_s)
            elif name in RATES:
                even = self._even(name, limit)
                tenant.buckets[name] = Bucket(name, limit, even, now_s)
            else:
                tenant.levels[name] = Level(limit, self._even(name, limit))

    def _even(self, quota: str, limit: float) -> float:
        return limit / self._processes[quota]

    def _deal_evenly(self, now_s: float) -> None:
        """Give even shares of the limits for which this process has told no demand."""
        for tenant in self._tenants.values():
            for name, one in tenant.all():
                if not one.told:
                    one.follow(one.limit, self._even(name, one.limit), now_s)

    def _rest(self, tenant_id: bytes, quota: str) -> None:
        """Stop watching a limit that nothing asks for.

        A tenant without limits of its own is forgotten with its last one.
        """
        del self._busy[tenant_id, quota]
        if tenant_id in self._own or any(
            (tenant_id, name) in self._busy for name in self._enforced
        ):
            return
        del self._tenants[tenant_id]


def _headers(buckets: Sequence[Bucket]) -> Sequence[Header]:
    """Return the headers of draft-ietf-httpapi-ratelimit-headers: policies, and what is left
    here.
    """
    if not buckets:
        return ()
    policies = ", ".join([bucket.policy for bucket in buckets])
    left = ", ".join([bucket.remaining() for bucket in buckets])
    return (
        (b"ratelimit-policy", policies.encode("ascii")),
        (b"ratelimit", left.encode("ascii")),
    )
