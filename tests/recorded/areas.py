"""The scenarios by area. Each sends its requests in a tenant of its own, in any order of areas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.recorded.client import Client
from tests.recorded.scenarios import (
    consume,
    exports,
    jobs,
    locks,
    publish,
    push,
    schedules,
    schemas,
    server,
    subscriptions,
    tenancy,
    topics,
)

SCENARIOS: Mapping[str, Callable[[Client], None]] = {
    "audit": tenancy.audit,
    "clients": tenancy.clients,
    "consume": consume.consume,
    "dead_letters": consume.dead_letters,
    "exports": exports.exports,
    "flow": subscriptions.flow,
    "issuers": tenancy.issuers,
    "jobs": jobs.jobs,
    "keys": tenancy.keys,
    "locks": locks.locks,
    "oauth": server.oauth,
    "policies": tenancy.policies,
    "pools": jobs.pools,
    "positions": subscriptions.positions,
    "publish": publish.publish,
    "push": push.push,
    "quotas": tenancy.quotas,
    "schedules": schedules.schedules,
    "schemas": schemas.schemas,
    "server": server.server,
    "subscriptions": subscriptions.subscriptions,
    "tenants": tenancy.tenants,
    "topics": topics.topics,
    "usage": tenancy.usage,
}
