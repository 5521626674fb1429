"""API keys between the API and the rows."""

from __future__ import annotations

from datetime import UTC

from auth.policies import parse_scope
from edge.problem import FieldError, invalid
from gateway.names import label_errors
from gateway.tenancy.answers import grant_errors, name_errors_of, secrets_view
from metadata.tenancy.api_keys import ApiKey, ApiKeySpec
from metadata.tenancy.credentials import API_KEY
from openapi import access


def spec_of(body: access.KeyBody, name: str) -> ApiKeySpec:
    """Return the key that a body describes; raise a 422 Problem, or 409 for another name."""
    errors = (
        name_errors_of(body.name, name)
        + grant_errors("scopes", body.scopes, parse_scope)
        + label_errors(body.labels)
    )
    if body.expires_at is not None and body.expires_at.tzinfo is None:
        errors.append(FieldError("expires_at", "a time with its offset from UTC"))
    if errors:
        raise invalid("The body does not fit.", errors)
    ends = None if body.expires_at is None else body.expires_at.astimezone(UTC)
    scopes = tuple(dict.fromkeys(body.scopes))
    return ApiKeySpec(name, scopes, ends, body.state, body.labels)


def view(key: ApiKey) -> access.Key:
    """Return a key as the API shows it, with the beginning of the key and of each secret."""
    return access.Key(
        name=key.name,
        key_id=key.key_id,
        prefix=API_KEY + key.key_id,
        scopes=list(key.scopes),
        state=key.state,
        expires_at=key.expires_at,
        labels=dict(key.labels),
        secrets=secrets_view(key.secrets),
        created_at=key.created_at,
        updated_at=key.updated_at,
        last_used_at=key.last_used_at,
    )
