"""A tenant's limits in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from edge.problem import FieldError, invalid
from metadata.counts import BUILT_IN_LIMITS, limit_of
from metadata.tenancy.quota_names import QUOTA_NAMES
from metadata.tenancy.quotas import TenantQuota

MAX_LIMIT = 2**53
MAX_WEIGHT = 1000
Weight = Annotated[float, msgspec.Meta(gt=0, le=MAX_WEIGHT)]
COUNTED = frozenset({"stored_bytes", "topics", "subscriptions", "in_flight", "push_concurrency"})
"""Limits that are whole numbers; the others are per second."""


class QuotaBody(msgspec.Struct, forbid_unknown_fields=True):
    """All limits of a tenant: one that is left out has the platform's default, null and 0 are no
    limit."""

    limits: dict[str, float | None] = {}
    weight: Weight = 1.0

    def checked(self) -> Mapping[str, float | None]:
        """Return the limits; raises a 422 Problem."""
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
    """Return a tenant's limits as the API shows them.

    `limits` are those in force, null where there is none; `own` those that the tenant has of its
    own; `exempt` names the built-in limits that do not hold for it.
    """

    def default(name: str) -> float:
        return limit_of(name, defaults, exempt=quota.exempt)

    untouched = [name for name in BUILT_IN_LIMITS if name not in {**quota.limits, **defaults}]
    return {
        "limits": {name: quota.limits.get(name, default(name)) or None for name in QUOTA_NAMES},
        "own": quota.limits,
        "exempt": untouched if quota.exempt else [],
        "weight": quota.weight,
        "updated_at": quota.updated_at,
    }
