"""Who may do what: clients, API keys, policies and issuers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from packetboat.calls.call import Call, change, delete, fetch, page, part, put, with_query
from packetboat.models import Issuer, Key, OAuthClient, Page, Policy

T = TypeVar("T")


def list_clients(page_size: int, page_token: str | None) -> Call[Page[OAuthClient]]:
    return page("/clients", "clients", OAuthClient, page_size, page_token)


def create_client(name: str, settings: Mapping[str, Any]) -> Call[OAuthClient]:
    return _create("/clients", name, settings, OAuthClient)


def get_client(name: str) -> Call[OAuthClient]:
    return fetch(f"/clients/{part(name)}", OAuthClient, tagged=True)


def put_client(
    name: str, settings: Mapping[str, Any], if_match: str | None, force: bool
) -> Call[OAuthClient]:
    return _put(f"/clients/{part(name)}", settings, OAuthClient, if_match, force)


def delete_client(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/clients/{part(name)}", force, if_match)


def add_client_secret(
    name: str, old_expires_in_seconds: int | None, if_match: str | None
) -> Call[OAuthClient]:
    path = f"/clients/{part(name)}/secrets"
    return _rotate(path, old_expires_in_seconds, OAuthClient, if_match)


def remove_client_secret(name: str, prefix: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/clients/{part(name)}/secrets/{part(prefix)}", force, if_match)


def revoke_client_tokens(name: str) -> Call[OAuthClient]:
    path = f"/clients/{part(name)}:revoke_tokens"
    return change("POST", path, None, OAuthClient, safe=True, tagged=True)


def list_keys(page_size: int, page_token: str | None) -> Call[Page[Key]]:
    return page("/keys", "keys", Key, page_size, page_token)


def create_key(name: str, settings: Mapping[str, Any]) -> Call[Key]:
    return _create("/keys", name, settings, Key)


def get_key(name: str) -> Call[Key]:
    return fetch(f"/keys/{part(name)}", Key, tagged=True)


def put_key(name: str, settings: Mapping[str, Any], if_match: str | None, force: bool) -> Call[Key]:
    return _put(f"/keys/{part(name)}", settings, Key, if_match, force)


def delete_key(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/keys/{part(name)}", force, if_match)


def rotate_key(name: str, old_expires_in_seconds: int | None, if_match: str | None) -> Call[Key]:
    return _rotate(f"/keys/{part(name)}:rotate", old_expires_in_seconds, Key, if_match)


def list_policies(page_size: int, page_token: str | None) -> Call[Page[Policy]]:
    return page("/policies", "policies", Policy, page_size, page_token)


def create_policy(name: str, settings: Mapping[str, Any]) -> Call[Policy]:
    return _create("/policies", name, settings, Policy)


def get_policy(name: str) -> Call[Policy]:
    return fetch(f"/policies/{part(name)}", Policy, tagged=True)


def put_policy(
    name: str, settings: Mapping[str, Any], if_match: str | None, force: bool
) -> Call[Policy]:
    return _put(f"/policies/{part(name)}", settings, Policy, if_match, force, safe=True)


def delete_policy(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/policies/{part(name)}", force, if_match)


def list_issuers(page_size: int, page_token: str | None) -> Call[Page[Issuer]]:
    return page("/issuers", "issuers", Issuer, page_size, page_token)


def create_issuer(
    name: str, issuer: str, audience: str | None, settings: Mapping[str, Any]
) -> Call[Issuer]:
    return _create("/issuers", name, _trusted(issuer, audience, settings), Issuer)


def get_issuer(name: str) -> Call[Issuer]:
    return fetch(f"/issuers/{part(name)}", Issuer, tagged=True)


def put_issuer(
    name: str,
    issuer: str,
    audience: str | None,
    settings: Mapping[str, Any],
    if_match: str | None,
) -> Call[Issuer]:
    body = _trusted(issuer, audience, settings)
    return _put(f"/issuers/{part(name)}", body, Issuer, if_match, False, safe=True)


def _trusted(issuer: str, audience: str | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without an audience the tenant's own counts."""
    named = {} if audience is None else {"audience": audience}
    return {"issuer": issuer, **named, **settings}


def delete_issuer(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/issuers/{part(name)}", force, if_match)


def _create(path: str, name: str, settings: Mapping[str, Any], kind: type[T]) -> Call[T]:
    return change("POST", path, {"name": name, **settings}, kind, tagged=True)


def _put(
    path: str,
    settings: Mapping[str, Any],
    kind: type[T],
    if_match: str | None,
    force: bool,
    *,
    safe: bool = False,
) -> Call[T]:
    """Not safe where the answer may have a secret, which is told once."""
    target = with_query(path, {"force": force or None})
    return change("PUT", target, settings, kind, safe=safe, if_match=if_match, tagged=True)


def _rotate(
    path: str, old_expires_in_seconds: int | None, kind: type[T], if_match: str | None
) -> Call[T]:
    body: dict[str, Any] = {}
    put(body, old_expires_in_seconds=old_expires_in_seconds)
    return change("POST", path, body, kind, if_match=if_match, tagged=True)
