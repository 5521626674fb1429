"""A tenant in JSON."""

from __future__ import annotations

import re
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from edge.egress.guard import parse_allowance
from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from gateway.tenancy.answers import DisplayName, same_name, text_errors
from metadata.tenancy.clients import ClientSpec
from metadata.types import Tenant, TenantSpec, TenantState

MAX_EGRESS_ALLOWED = 100
MAX_ALLOWANCE_CHARS = 255
MAX_ISSUERS_ALLOWED = 100
MAX_ISSUER_ENTRY_CHARS = 768
_ISSUER_ENTRY = re.compile(r"https?://[^\s#]+#[^\x00-\x1f\x7f]+")


class OwnerBody(msgspec.Struct, forbid_unknown_fields=True):
    """The first client of a tenant."""

    name: str = "owner"
    display_name: DisplayName = ""


class TenantBody(msgspec.Struct, forbid_unknown_fields=True):
    """What makes a tenant, or replaces what it is; the path of a PUT names it. `owner` counts only
    when the tenant is made."""

    name: str | UnsetType = UNSET
    display_name: DisplayName = ""
    state: Literal["active", "suspended"] = "active"
    labels: dict[str, str] = {}
    egress_allowed: list[str] = []
    issuers_allowed: list[str] = []
    owner: OwnerBody | None = None

    def spec(self, path_name: str | None = None) -> TenantSpec:
        """Raises a 422 Problem, or 409 where it names another."""
        if path_name is not None:
            same_name(self.name, path_name)
        name = path_name if path_name is not None else self.name or ""
        errors = name_errors(name) + text_errors(self.display_name, "display_name")
        errors += label_errors(self.labels) + _egress_errors(self.egress_allowed)
        errors += _issuer_errors(self.issuers_allowed)
        if self.owner is not None:
            errors += name_errors(self.owner.name, "owner.name")
            errors += text_errors(self.owner.display_name, "owner.display_name")
        if errors:
            raise invalid("The body does not fit.", errors)
        allowed = tuple(dict.fromkeys(self.egress_allowed))
        issuers = tuple(dict.fromkeys(self.issuers_allowed))
        return TenantSpec(
            name, self.display_name, TenantState(self.state), self.labels, allowed, issuers
        )

    def first_client(self) -> ClientSpec | None:
        if self.owner is None:
            return None
        return ClientSpec(self.owner.name, self.owner.display_name)


def _egress_errors(allowed: list[str]) -> list[FieldError]:
    if len(allowed) > MAX_EGRESS_ALLOWED:
        return [FieldError("egress_allowed", f"at most {MAX_EGRESS_ALLOWED} entries")]
    errors = []
    for at, entry in enumerate(allowed):
        field = f"egress_allowed[{at}]"
        if len(entry) > MAX_ALLOWANCE_CHARS:
            errors.append(FieldError(field, f"at most {MAX_ALLOWANCE_CHARS} characters"))
            continue
        try:
            parse_allowance(entry)
        except ValueError as error:
            errors.append(FieldError(field, str(error)))
    return errors


def _issuer_errors(allowed: list[str]) -> list[FieldError]:
    if len(allowed) > MAX_ISSUERS_ALLOWED:
        return [FieldError("issuers_allowed", f"at most {MAX_ISSUERS_ALLOWED} entries")]
    rule = "ISSUER#AUDIENCE: the iss and an aud of its tokens"
    return [
        FieldError(f"issuers_allowed[{at}]", rule)
        for at, entry in enumerate(allowed)
        if not _ISSUER_ENTRY.fullmatch(entry) or len(entry) > MAX_ISSUER_ENTRY_CHARS
    ]


def view(tenant: Tenant) -> dict[str, object]:
    return {
        "name": tenant.name,
        "display_name": tenant.display_name,
        "state": tenant.state.value,
        "labels": tenant.labels,
        "egress_allowed": tenant.egress_allowed,
        "issuers_allowed": tenant.issuers_allowed,
        "token_audience": tenant.token_audience,
        "created_at": tenant.created_at,
        "updated_at": tenant.updated_at,
    }
