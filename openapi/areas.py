"""All operations of the API, area by area."""

from __future__ import annotations

from openapi import (
    access,
    consume,
    dead_letters,
    export_runners,
    export_runs,
    exports,
    flow,
    forwarders,
    identity,
    jobs,
    locks,
    positions,
    publish,
    push,
    schedules,
    schemas,
    server,
    subscriptions,
    tenants,
    topics,
    usage,
    webhooks,
)
from openapi.contract import Table

AREAS = (
    publish,
    consume,
    topics,
    subscriptions,
    positions,
    webhooks,
    push,
    dead_letters,
    flow,
    schemas,
    schedules,
    jobs,
    exports,
    export_runs,
    export_runners,
    locks,
    access,
    tenants,
    usage,
    identity,
    forwarders,
    server,
)
OPERATIONS: Table = {}
for _area in AREAS:
    assert not OPERATIONS.keys() & _area.OPERATIONS.keys(), "two operations have the same id"
    OPERATIONS |= _area.OPERATIONS
