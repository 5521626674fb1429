"""Limits of tenants, shared with the other processes, and metering."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from edge.lifetime import own
from edge.quota import IN_FLIGHT, PUBLISH_QUOTAS, PUSH_CONCURRENCY, REQUESTS, STORED_BYTES
from gateway.configuration.settings import Role
from gateway.quotas import settings as quota_settings
from gateway.quotas.limiter import Limiter
from gateway.quotas.limits import LimitCache
from gateway.quotas.metering import Meter
from gateway.quotas.sharing import Sharing
from gateway.wiring.parts import Metered
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.tenancy.quota_demands import QuotaDemands
from metadata.tenancy.quotas import QuotaRepository, TenantLimit, TenantQuota
from metadata.tenancy.usage_reports import UsageReports


def open_quotas(role: Role, database: Database, feed: ChangeFeed, stack: AsyncExitStack) -> Metered:
    """Open the quotas, before the roles: their last counts are reported after they are closed."""
    settings = quota_settings.load()
    meter = Meter(UsageReports(database), settings.usage_every_s)
    stack.push_async_callback(meter.close)
    own(stack, meter.run)
    limiter = Limiter(enforced(role), settings.defaults)
    stored = TenantLimit(STORED_BYTES, settings.defaults)

    def follow(quotas: Sequence[TenantQuota], *, all_of_them: bool = False) -> None:
        for follower in (limiter.follow, stored.follow):
            follower(quotas, all_of_them=all_of_them)

    book = LimitCache(QuotaRepository(database), follow)
    feed.add_listener(book.on_changes)
    own(stack, book.run)
    sharing = Sharing(limiter, QuotaDemands(database), settings.tell_every_s)
    stack.push_async_callback(sharing.leave)
    own(stack, sharing.run)
    return Metered(limiter, meter, stored, settings.defaults)


def enforced(role: Role) -> tuple[str, ...]:
    """Return the limits that a process of that role enforces by itself."""
    names = [REQUESTS]
    if role.publishes or role.subscribes:
        names += PUBLISH_QUOTAS  # acks publish too
    if role.subscribes:
        names += [IN_FLIGHT, PUSH_CONCURRENCY]
    return tuple(names)
