"""A tenant's limits in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from edge.problem import FieldError, invalid
from metadata.tenancy.quota_names import QUOTA_NAMES
from metadata.tenancy.quotas import TenantQuota

MAX_LIMIT = 2**53
MAX_WEIGHT = 1000
Weight = Annotated[float, msgspec.Meta(gt=0, le=MAX_WEIGHT)]
COUNTED = frozenset({"stored_bytes", "topics", "subscriptions", "in_flight", "push_concurrency"})
"""Limits that are whole numbers; the others are per second."""


class QuotaBody(msgspec.Struct, forbid_unknown_fields=True):
    """All limits of a tenant: what is not named has the platform's default, null and 0 are no
    limit."""

    limits: dict[str, float | None] = {}
    weight: Weight = 1.0

    def checked(self) -> Mapping[str, float | None]:
        """The limits; raises a 422 Problem."""
        errors = []
        for name, limit in self.limits.items():
            field = f"limits.{name[:80]}"
            if name not in QUOTA_NAMES:
                errors.append(FieldError(field, f"one of {', '.join(QUOTA_NAMES)}"))
            elif limit is not None and not 0 <= limit <= MAX_LIMIT:
                errors.append(FieldError(field, f"from 0 (no limit) to {MAX_LIMIT}, or null"))
            elif limit is not None and name in COUNTED and not float(limit).is_integer():
                errors.append(FieldError(field, "a whole number"))
        if errors:
            raise invalid("The body does not fit.", errors)
        return self.limits


def view(quota: TenantQuota, defaults: Mapping[str, float]) -> dict[str, object]:
    """`limits` are those in force, null where there is none; `own` those that the tenant has of its
    own."""
    limits = {name: quota.limits.get(name, defaults.get(name, 0)) or None for name in QUOTA_NAMES}
    return {
        "limits": limits,
        "own": quota.limits,
        "weight": quota.weight,
        "updated_at": quota.updated_at,
    }
