"""An API key in JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from auth.policies import BadGrant, parse_scope
from edge.problem import FieldError, invalid
from gateway.names import label_errors, name_errors
from gateway.tenancy.answers import same_name, secrets_view, text_errors
from metadata.tenancy.api_keys import ApiKey, ApiKeySpec, KeyState
from metadata.tenancy.credentials import API_KEY

MAX_SCOPES = 100


class KeyBody(msgspec.Struct, forbid_unknown_fields=True):
    """What makes a key, or replaces what it is; the path of a PUT names it."""

    scopes: list[str]
    name: str | UnsetType = UNSET
    expires_at: datetime | None = None
    state: Literal["active", "disabled"] = "active"
    labels: dict[str, str] = {}

    def spec(self, path_name: str | None = None) -> ApiKeySpec:
        """Raises a 422 Problem, or 409 where it names another."""
        if path_name is not None:
            same_name(self.name, path_name)
        name = path_name if path_name is not None else self.name or ""
        errors = name_errors(name) + _scope_errors(self.scopes) + label_errors(self.labels)
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            errors.append(FieldError("expires_at", "a time with its offset from UTC"))
        if errors:
            raise invalid("The body does not fit.", errors)
        ends = None if self.expires_at is None else self.expires_at.astimezone(UTC)
        scopes = tuple(dict.fromkeys(self.scopes))
        return ApiKeySpec(name, scopes, ends, KeyState(self.state), self.labels)


def _scope_errors(scopes: list[str]) -> list[FieldError]:
    if not 1 <= len(scopes) <= MAX_SCOPES:
        return [FieldError("scopes", f"1 to {MAX_SCOPES} of them; there are {len(scopes)}")]
    errors = []
    for at, scope in enumerate(scopes):
        field = f"scopes[{at}]"
        try:
            parse_scope(scope)
        except BadGrant as error:
            errors.append(FieldError(field, str(error)))
        else:
            errors += text_errors(scope, field)
    return errors


def view(key: ApiKey) -> dict[str, object]:
    """As the API shows it: what every use of it begins with, never the rest."""
    return {
        "name": key.name,
        "key_id": key.key_id,
        "prefix": API_KEY + key.key_id,
        "scopes": key.scopes,
        "state": key.state.value,
        "expires_at": key.expires_at,
        "labels": key.labels,
        "secrets": secrets_view(key.secrets),
        "created_at": key.created_at,
        "updated_at": key.updated_at,
        "last_used_at": key.last_used_at,
    }
