"""Who is calling: made from a verified token, never from anything else in the request."""

from __future__ import annotations

from dataclasses import dataclass

from auth.permissions import Permission


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller of one tenant. `tenant_id` is 16 bytes; `subject` names the client in logs."""

    tenant_id: bytes
    subject: str
    permissions: frozenset[Permission]

    def may(self, permission: Permission) -> bool:
        return permission in self.permissions
