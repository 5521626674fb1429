"""Converts quotas between the API and the metadata store."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import UNSET

from metadata.counts import BUILT_IN_LIMITS, limit_of
from metadata.tenancy.quotas import TenantQuota
from openapi.tenants import QuotaBody
from openapi.usage import QUOTA_NAMES, Limits, Quotas


def limits_of(body: QuotaBody) -> Mapping[str, float | None]:
    """Return the limits that a body names; None is no limit."""
    named = {name: getattr(body.limits, name, UNSET) for name in QUOTA_NAMES}
    return {
        name: None if limit is None else float(limit)
        for name, limit in named.items()
        if limit is not UNSET
    }


def view(quota: TenantQuota, defaults: Mapping[str, float]) -> Quotas:
    """Return a tenant's limits as the API shows them; `defaults` are the platform's."""

    def in_force(name: str) -> float | None:
        return quota.limits.get(name, limit_of(name, defaults, exempt=quota.exempt)) or None

    untouched = [name for name in BUILT_IN_LIMITS if name not in {**quota.limits, **defaults}]
    return Quotas(
        limits=Limits(**{name: in_force(name) for name in QUOTA_NAMES}),
        own=dict(quota.limits),
        exempt=untouched if quota.exempt else [],
        weight=quota.weight,
        updated_at=quota.updated_at,
    )
