"""The names of the two roles in which every statement runs; see roles.py."""

from __future__ import annotations

PLATFORM_ROLE = "packetboat_platform"
TENANT_ROLE = "packetboat_tenant"
TENANT_SETTING = "packetboat.tenant"
"""Set in a transaction, never in a session: the tenant's id as a uuid."""
