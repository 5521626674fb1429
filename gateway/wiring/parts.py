"""The parts of a server process, and the things that the roles of one process share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from auth.access_token_verifier import AccessTokenVerifier
from auth.errors import TokenRefused
from auth.policies import PolicyCache
from auth.principal import Principal
from auth.verifier import CachingVerifier, TokenVerifier
from edge.asgi import Route
from edge.load import MachineLoad
from edge.process_pool import ProcessPool
from edge.quota import NO_LIMITS, Quotas, Usage
from edge.sealing import Sealer
from edge.tracing import Tracer
from gateway.admission.admission import Admission
from gateway.configuration.settings import ServerSettings
from gateway.egress_rules import EgressRules
from gateway.quotas.limiter import Limiter
from gateway.quotas.metering import Meter
from gateway.readiness import Readiness
from gateway.stream_tickets import StreamTickets
from gateway.wiring.tokens import Tokens
from metadata.catalog import Catalog
from metadata.database import Database
from metadata.feed import ChangeFeed
from metadata.subscriptions.snapshots import SnapshotRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.quotas import TenantLimit
from metadata.topics.schema_catalog import SchemaCatalog
from metadata.topics.schemas import SchemaRepository
from metadata.topics.topics import TopicRepository
from peering.tls import PeerTls
from store_nodes.client import StoreClient


class NoTokens:
    """Until something can check tokens, none is valid."""

    async def verify(self, token: bytes) -> Principal:
        raise TokenRefused


@dataclass(slots=True)
class Parts:
    """The parts of the application."""

    verifier: TokenVerifier = field(default_factory=NoTokens)
    readiness: Readiness = field(default_factory=Readiness)
    routes: list[Route] = field(default_factory=list)
    drains: list[Callable[[], None]] = field(default_factory=list)
    load: MachineLoad = field(default_factory=MachineLoad)
    admission: Admission | None = None
    """The admission; None lets every request in."""
    tickets: StreamTickets | None = None
    """The tickets of streams that are served here."""
    quotas: Quotas = NO_LIMITS
    usage: Usage = NO_LIMITS

    def drain(self) -> None:
        """Long-polls answer now with what they have; nothing new is delivered."""
        for drain in self.drains:
            drain()


@dataclass(frozen=True, slots=True)
class Identity:
    """All ways to check a token behind one cache, and the parts that they stand on."""

    verifier: CachingVerifier
    tokens: Tokens
    access_tokens: AccessTokenVerifier
    policies: PolicyCache


@dataclass(frozen=True, slots=True)
class Metered:
    """The quotas of tenants and their usage in this process."""

    limiter: Limiter
    meter: Meter
    stored: TenantLimit
    """The limit of bytes stored, to which the scheduler holds tenants."""
    defaults: Mapping[str, float]
    """The platform's limits by name."""


@dataclass(frozen=True, slots=True)
class Shared:
    """Things that the roles of a process share."""

    settings: ServerSettings
    parts: Parts
    stack: AsyncExitStack
    database: Database
    store: StoreClient
    history: StoreClient
    """A client for large answers that no message waits for: other answers on its
    connections come after them. It dials the nodes at its first use.
    """
    peer_tls: PeerTls | None
    feed: ChangeFeed
    catalog: Catalog
    topics: TopicRepository
    subscriptions: SubscriptionRepository
    schemas: SchemaRepository
    schema_catalog: SchemaCatalog
    snapshots: SnapshotRepository
    egress: EgressRules
    sealer: Sealer | None
    """The sealer, if this process has keys to seal with: always in the roles that need it."""
    identity: Identity
    metered: Metered
    process_pool: ProcessPool
    tracer: Tracer | None
    """The tracer; None turns spans off."""
