"""The areas of the API, as attributes of a client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from packetboat.aio.sender import AsyncSender

if TYPE_CHECKING:
    from packetboat.aio.resources.audit import AsyncAudit
    from packetboat.aio.resources.clients import AsyncClients
    from packetboat.aio.resources.dead_letters import AsyncDeadLetters
    from packetboat.aio.resources.export_runs import AsyncExportRuns
    from packetboat.aio.resources.exports import AsyncExports
    from packetboat.aio.resources.issuers import AsyncIssuers
    from packetboat.aio.resources.jobs import AsyncJobs
    from packetboat.aio.resources.keys import AsyncKeys
    from packetboat.aio.resources.locks import AsyncLocks
    from packetboat.aio.resources.messages import AsyncMessages
    from packetboat.aio.resources.parked_keys import AsyncParkedKeys
    from packetboat.aio.resources.policies import AsyncPolicies
    from packetboat.aio.resources.pools import AsyncPools
    from packetboat.aio.resources.quotas import AsyncQuotas
    from packetboat.aio.resources.schedules import AsyncSchedules
    from packetboat.aio.resources.schemas import AsyncSchemas
    from packetboat.aio.resources.server import AsyncServer
    from packetboat.aio.resources.snapshots import AsyncSnapshots
    from packetboat.aio.resources.subscriptions import AsyncSubscriptions
    from packetboat.aio.resources.tenants import AsyncTenants
    from packetboat.aio.resources.tokens import AsyncTokens
    from packetboat.aio.resources.topics import AsyncTopics
    from packetboat.aio.resources.usage import AsyncUsage
    from packetboat.aio.resources.webhooks import AsyncWebhooks


class AsyncAreas:
    """The areas of a client. Each is imported when it is first used: no program needs them all."""

    _sender: AsyncSender
    topics: AsyncTopics
    subscriptions: AsyncSubscriptions
    messages: AsyncMessages
    snapshots: AsyncSnapshots
    dead_letters: AsyncDeadLetters
    parked_keys: AsyncParkedKeys
    webhooks: AsyncWebhooks
    schedules: AsyncSchedules
    schemas: AsyncSchemas
    exports: AsyncExports
    export_runs: AsyncExportRuns
    locks: AsyncLocks
    jobs: AsyncJobs
    pools: AsyncPools
    tenants: AsyncTenants
    clients: AsyncClients
    keys: AsyncKeys
    tokens: AsyncTokens
    policies: AsyncPolicies
    issuers: AsyncIssuers
    quotas: AsyncQuotas
    usage: AsyncUsage
    audit: AsyncAudit
    server: AsyncServer

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            kind = _KINDS.get(name)
            if kind is None:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            home = import_module(f"packetboat.aio.resources.{name}")
            area = getattr(home, kind)(self._sender)
            setattr(self, name, area)
            return area

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_KINDS})


_KINDS = {
    name: kind for name, kind in AsyncAreas.__annotations__.items() if not name.startswith("_")
}
