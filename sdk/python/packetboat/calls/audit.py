"""Who changed what. No tenant: the own one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from packetboat.calls.call import Call, StreamCall, get, page, part
from packetboat.errors import ServerError
from packetboat.models import AuditEntry, Page

_entry = msgspec.json.Decoder(AuditEntry)


def get_own_audit(
    filters: Mapping[str, Any], page_size: int, page_token: str | None
) -> Call[Page[AuditEntry]]:
    return page("/audit", "entries", AuditEntry, page_size, page_token, _query(filters))


def get_audit(
    tenant: str, filters: Mapping[str, Any], page_size: int, page_token: str | None
) -> Call[Page[AuditEntry]]:
    path = f"/tenants/{part(tenant)}/audit"
    return page(path, "entries", AuditEntry, page_size, page_token, _query(filters))


def export_own_audit(filters: Mapping[str, Any]) -> StreamCall:
    return StreamCall(get("/audit:export", _query(filters)))


def export_audit(tenant: str, filters: Mapping[str, Any]) -> StreamCall:
    return StreamCall(get(f"/tenants/{part(tenant)}/audit:export", _query(filters)))


def read_entry(line: bytes) -> AuditEntry:
    """Of an export; raises ServerError where it is none."""
    try:
        return _entry.decode(line)
    except msgspec.MsgspecError as error:
        raise ServerError(200, f"unexpected line ({error})") from error


def _query(filters: Mapping[str, Any]) -> dict[str, Any]:
    names = {"since": "from", "until": "to"}
    return {names.get(name, name): value for name, value in filters.items()}
