"""The parts of tenants and what belongs to them."""

from __future__ import annotations

from edge.lifetime import own
from gateway.issuer_documents import IssuerDocuments
from gateway.tenancy.audit import AuditRoutes
from gateway.tenancy.clients import ClientRoutes
from gateway.tenancy.heard import heard
from gateway.tenancy.issuer_trust import IssuerTrust
from gateway.tenancy.issuers import IssuerRoutes
from gateway.tenancy.keys import KeyRoutes
from gateway.tenancy.policies import PolicyRoutes
from gateway.tenancy.quotas import QuotaRoutes
from gateway.tenancy.tenant_deletion import TenantDeletion
from gateway.tenancy.tenants import TenantRoutes
from gateway.tenancy.usage import UsageRoutes
from gateway.topics.lifecycle import TopicLifecycle
from gateway.wiring.parts import Shared
from metadata.tenancy.api_keys import ApiKeyRepository
from metadata.tenancy.audit import AuditLog
from metadata.tenancy.clients import ClientRepository
from metadata.tenancy.issuers import IssuerRepository
from metadata.tenancy.policies import PolicyRepository
from metadata.tenancy.quotas import QuotaRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.tenancy.usage_hours import UsageHours


def open_tenancy(shared: Shared, lifecycle: TopicLifecycle) -> None:
    """Tenants go with their topics, which are `lifecycle`'s to remove."""
    database, parts = shared.database, shared.parts
    tenants = TenantRepository(database)
    deletion = TenantDeletion(tenants, shared.topics, lifecycle)
    own(shared.stack, deletion.run)
    defaults = shared.metered.defaults
    proxy = shared.settings.egress_proxy or None
    trust = IssuerTrust(tenants, IssuerDocuments(shared.egress.guard_of, proxy=proxy).fetch)
    access = [
        *TenantRoutes(tenants, deletion).routes(),
        *ClientRoutes(ClientRepository(database, defaults)).routes(),
        *KeyRoutes(ApiKeyRepository(database, defaults)).routes(),
        *PolicyRoutes(PolicyRepository(database, defaults)).routes(),
        *IssuerRoutes(IssuerRepository(database, defaults), trust.prove).routes(),
    ]
    parts.routes += heard(access, shared.feed.catch_up)
    parts.routes += QuotaRoutes(QuotaRepository(database), tenants, defaults).routes()
    parts.routes += UsageRoutes(UsageHours(database), tenants).routes()
    parts.routes += AuditRoutes(AuditLog(database), tenants).routes()
