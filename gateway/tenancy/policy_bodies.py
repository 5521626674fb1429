"""A policy in JSON: a role, for whom, on what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from auth.policies import BadGrant, check_member, parse_resource
from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from gateway.tenancy.answers import same_name, text_errors
from metadata.tenancy.policies import Policy, PolicySpec

MAX_MEMBERS = 500
MAX_RESOURCES = 100
_KEY = "key:"


class PolicyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What makes a policy, or replaces what it is; the path of a PUT names it."""

    role: Literal["owner", "admin", "publisher", "subscriber", "viewer"]
    members: list[str]
    resources: list[str] = msgspec.field(default_factory=lambda: ["*"])
    name: str | UnsetType = UNSET
    labels: dict[str, str] = {}

    def spec(self, path_name: str | None = None) -> PolicySpec:
        """Raises a 422 Problem, or 409 where it names another."""
        if path_name is not None:
            same_name(self.name, path_name)
        name = path_name if path_name is not None else self.name or ""
        errors = name_errors(name) + label_errors(self.labels)
        errors += _each("members", self.members, MAX_MEMBERS, _check_member)
        errors += _each("resources", self.resources, MAX_RESOURCES, parse_resource)
        if errors:
            raise invalid("The body does not fit.", errors)
        members = tuple(dict.fromkeys(self.members))
        return PolicySpec(
            name, self.role, members, tuple(dict.fromkeys(self.resources)), self.labels
        )


def _each(
    field: str, values: list[str], most: int, check: Callable[[str], object]
) -> list[FieldError]:
    if not 1 <= len(values) <= most:
        return [FieldError(field, f"1 to {most} of them; there are {len(values)}")]
    errors = []
    for at, value in enumerate(values):
        try:
            check(value)
        except BadGrant as error:
            errors.append(FieldError(f"{field}[{at}]", str(error)))
        else:
            errors += text_errors(value, f"{field}[{at}]")
    return errors


def _check_member(text: str) -> None:
    if text.startswith(_KEY):
        raise BadGrant("a key may do what its scopes say, and no policy adds to them")
    check_member(text)


def view(policy: Policy) -> dict[str, object]:
    return {
        "name": policy.name,
        "role": policy.role,
        "members": policy.members,
        "resources": policy.resources,
        "labels": policy.labels,
        "created_at": policy.created_at,
        "updated_at": policy.updated_at,
    }
