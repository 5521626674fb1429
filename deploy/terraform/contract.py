"""Writes the part of the HTTP contract that the provider has built in: `make terraform-contract`.

From it the provider takes names, types, defaults, limits and descriptions of its attributes, so
that none of them is typed twice. Held in step by tests/tidy/test_terraform.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import openapi

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
TARGET = Path(__file__).parent / "provider/internal/contract/contract.json"
_PREFIX = "#/components/schemas/"


def contract() -> str:
    """As JSON, the same for the same contract."""
    schemas: dict[str, Any] = openapi.document()["components"]["schemas"]
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
    return [*found, reference.removeprefix(_PREFIX)] if isinstance(reference, str) else found


if __name__ == "__main__":
    TARGET.write_text(contract(), encoding="utf-8")
    sys.stdout.write(f"{TARGET}\n")
