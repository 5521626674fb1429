"""The export of all changes in one answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from packetboat.calls.bodies import audit_query
from packetboat.calls.call import StreamCall, get, part
from packetboat.errors import ServerError
from packetboat.models import AuditEntry

_entry = msgspec.json.Decoder(AuditEntry)


def export_own_audit(filters: Mapping[str, Any]) -> StreamCall:
    return StreamCall(get("/audit:export", audit_query(filters)))


def export_audit(tenant: str, filters: Mapping[str, Any]) -> StreamCall:
    return StreamCall(get(f"/tenants/{part(tenant)}/audit:export", audit_query(filters)))


def read_entry(line: bytes) -> AuditEntry:
    """Return the change that a line has. Raise ServerError where it has none."""
    try:
        return _entry.decode(line)
    except msgspec.MsgspecError as error:
        raise ServerError(200, f"unexpected line ({error})") from error
