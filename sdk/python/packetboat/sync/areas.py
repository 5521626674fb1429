"""The areas of the API, as attributes of a client."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from packetboat.sync.sender import Sender

if TYPE_CHECKING:
    from packetboat.sync.resources.audit import Audit
    from packetboat.sync.resources.clients import Clients
    from packetboat.sync.resources.dead_letters import DeadLetters
    from packetboat.sync.resources.export_runs import ExportRuns
    from packetboat.sync.resources.exports import Exports
    from packetboat.sync.resources.issuers import Issuers
    from packetboat.sync.resources.jobs import Jobs
    from packetboat.sync.resources.keys import Keys
    from packetboat.sync.resources.locks import Locks
    from packetboat.sync.resources.messages import Messages
    from packetboat.sync.resources.parked_keys import ParkedKeys
    from packetboat.sync.resources.policies import Policies
    from packetboat.sync.resources.pools import Pools
    from packetboat.sync.resources.quotas import Quotas
    from packetboat.sync.resources.schedules import Schedules
    from packetboat.sync.resources.schemas import Schemas
    from packetboat.sync.resources.server import Server
    from packetboat.sync.resources.snapshots import Snapshots
    from packetboat.sync.resources.subscriptions import Subscriptions
    from packetboat.sync.resources.tenants import Tenants
    from packetboat.sync.resources.tokens import Tokens
    from packetboat.sync.resources.topics import Topics
    from packetboat.sync.resources.usage import Usage
    from packetboat.sync.resources.webhooks import Webhooks


class Areas:
    """The areas of a client. Each is imported when it is first used: no program needs them all."""

    _sender: Sender
    topics: Topics
    subscriptions: Subscriptions
    messages: Messages
    snapshots: Snapshots
    dead_letters: DeadLetters
    parked_keys: ParkedKeys
    webhooks: Webhooks
    schedules: Schedules
    schemas: Schemas
    exports: Exports
    export_runs: ExportRuns
    locks: Locks
    jobs: Jobs
    pools: Pools
    tenants: Tenants
    clients: Clients
    keys: Keys
    tokens: Tokens
    policies: Policies
    issuers: Issuers
    quotas: Quotas
    usage: Usage
    audit: Audit
    server: Server

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            kind = _KINDS.get(name)
            if kind is None:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            home = import_module(f"packetboat.sync.resources.{name}")
            area = getattr(home, kind)(self._sender)
            setattr(self, name, area)
            return area

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_KINDS})


_KINDS = {name: kind for name, kind in Areas.__annotations__.items() if not name.startswith("_")}
