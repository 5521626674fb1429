"""The part of the contract that the Terraform provider has built in.

From it the provider takes names, types, defaults, limits and descriptions of its attributes, so
that none of them is typed twice.
"""

from __future__ import annotations

import json
from typing import Any

from openapi.json_schema import PREFIX

ROOTS = (
    *("TenantBody", "Tenant", "TenantMade", "ClientBody", "Client", "ClientMade"),
    *("KeyBody", "Key", "KeyMade", "PolicyBody", "Policy", "IssuerBody", "Issuer"),
    *("QuotaBody", "Quotas", "Rotation", "PoolPut", "Pool"),
    *("TopicCreate", "TopicPut", "Topic", "SubscriptionCreate", "SubscriptionPut", "Subscription"),
    "SigningSecretCreate",
    *("ScheduleCreate", "SchedulePut", "Schedule", "ExportCreate", "ExportPut", "Export"),
    *("SchemaCreate", "SchemaPatch", "SchemaDefinition", "Schema"),
)
"""Bodies that are sent and answers that are read, with all that they refer to."""


def provider_contract(schemas: dict[str, Any]) -> str:
    """Return the schemas that the provider needs as JSON, the same for the same contract."""
    found: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = schemas[name]
            waiting += _references(schemas[name])
    return json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in _references(item)]
    if not isinstance(schema, dict):
        return []
    found = [name for value in schema.values() for name in _references(value)]
    reference = schema.get("$ref")
    return [*found, reference.removeprefix(PREFIX)] if isinstance(reference, str) else found
