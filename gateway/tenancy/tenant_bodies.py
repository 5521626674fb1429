"""A tenant in JSON."""

from __future__ import annotations

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
    owner: OwnerBody | None = None

    def spec(self, path_name: str | None = None) -> TenantSpec:
        """Raises a 422 Problem, or 409 where it names another."""
        if path_name is not None:
            same_name(self.name, path_name)
        name = path_name if path_name is not None else self.name or ""
        errors = name_errors(name) + text_errors(self.display_name, "display_name")
        errors += label_errors(self.labels) + _egress_errors(self.egress_allowed)
        if self.owner is not None:
            errors += name_errors(self.owner.name, "owner.name")
            errors += text_errors(self.owner.display_name, "owner.display_name")
        if errors:
            raise invalid("The body does not fit.", errors)
        allowed = tuple(dict.fromkeys(self.egress_allowed))
        return TenantSpec(name, self.display_name, TenantState(self.state), self.labels, allowed)

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


def view(tenant: Tenant) -> dict[str, object]:
    return {
        "name": tenant.name,
        "display_name": tenant.display_name,
        "state": tenant.state.value,
        "labels": tenant.labels,
        "egress_allowed": tenant.egress_allowed,
        "created_at": tenant.created_at,
        "updated_at": tenant.updated_at,
    }
