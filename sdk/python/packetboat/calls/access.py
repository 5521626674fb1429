# Generated from openapi/: `make generate`. Do not edit.
"""Calls of clients, keys, policies, issuers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    page,
    part,
    put,
    with_query,
)
from packetboat.models import Issuer, Key, OAuthClient, Page, Policy, Role


def create_client(name: str, settings: Mapping[str, Any]) -> Call[OAuthClient]:
    body: dict[str, Any] = {"name": name, **settings}
    return change("POST", "/clients", body, OAuthClient, tagged=True)


def get_client(name: str) -> Call[OAuthClient]:
    return fetch(f"/clients/{part(name)}", OAuthClient, tagged=True)


def list_clients(page_size: int, page_token: str | None) -> Call[Page[OAuthClient]]:
    return page("/clients", "clients", OAuthClient, page_size, page_token)


def put_client(
    name: str, settings: Mapping[str, Any], if_match: str | None, force: bool
) -> Call[OAuthClient]:
    body: dict[str, Any] = {**settings}
    return change(
        "PUT",
        with_query(f"/clients/{part(name)}", {"force": force or None}),
        body,
        OAuthClient,
        if_match=if_match,
        tagged=True,
    )


def delete_client(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/clients/{part(name)}", force=force, if_match=if_match)


def add_client_secret(
    name: str, old_expires_in_seconds: int | None, if_match: str | None
) -> Call[OAuthClient]:
    body: dict[str, Any] = {}
    put(body, old_expires_in_seconds=old_expires_in_seconds)
    return change(
        "POST", f"/clients/{part(name)}/secrets", body, OAuthClient, if_match=if_match, tagged=True
    )


def remove_client_secret(name: str, prefix: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/clients/{part(name)}/secrets/{part(prefix)}", force=force, if_match=if_match)


def revoke_client_tokens(name: str) -> Call[OAuthClient]:
    return change(
        "POST", f"/clients/{part(name)}:revoke_tokens", None, OAuthClient, safe=True, tagged=True
    )


def create_key(name: str, scopes: Sequence[str], settings: Mapping[str, Any]) -> Call[Key]:
    body: dict[str, Any] = {"name": name, "scopes": scopes, **settings}
    return change("POST", "/keys", body, Key, tagged=True)


def get_key(name: str) -> Call[Key]:
    return fetch(f"/keys/{part(name)}", Key, tagged=True)


def list_keys(page_size: int, page_token: str | None) -> Call[Page[Key]]:
    return page("/keys", "keys", Key, page_size, page_token)


def put_key(
    name: str, scopes: Sequence[str], settings: Mapping[str, Any], if_match: str | None, force: bool
) -> Call[Key]:
    body: dict[str, Any] = {"scopes": scopes, **settings}
    return change(
        "PUT",
        with_query(f"/keys/{part(name)}", {"force": force or None}),
        body,
        Key,
        if_match=if_match,
        tagged=True,
    )


def delete_key(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/keys/{part(name)}", force=force, if_match=if_match)


def rotate_key(name: str, old_expires_in_seconds: int | None, if_match: str | None) -> Call[Key]:
    body: dict[str, Any] = {}
    put(body, old_expires_in_seconds=old_expires_in_seconds)
    return change("POST", f"/keys/{part(name)}:rotate", body, Key, if_match=if_match, tagged=True)


def create_policy(
    name: str,
    role: Role,
    members: Sequence[str],
    resources: Sequence[str],
    labels: Mapping[str, str] | None,
) -> Call[Policy]:
    body: dict[str, Any] = {"name": name, "role": role, "members": members, "resources": resources}
    put(body, labels=labels)
    return change("POST", "/policies", body, Policy, tagged=True)


def get_policy(name: str) -> Call[Policy]:
    return fetch(f"/policies/{part(name)}", Policy, tagged=True)


def list_policies(page_size: int, page_token: str | None) -> Call[Page[Policy]]:
    return page("/policies", "policies", Policy, page_size, page_token)


def put_policy(
    name: str,
    role: Role,
    members: Sequence[str],
    resources: Sequence[str],
    labels: Mapping[str, str] | None,
    if_match: str | None,
    force: bool,
) -> Call[Policy]:
    body: dict[str, Any] = {"role": role, "members": members, "resources": resources}
    put(body, labels=labels)
    return change(
        "PUT",
        with_query(f"/policies/{part(name)}", {"force": force or None}),
        body,
        Policy,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def delete_policy(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/policies/{part(name)}", force=force, if_match=if_match)


def create_issuer(
    name: str, issuer: str, settings: Mapping[str, Any], audience: str | None
) -> Call[Issuer]:
    body: dict[str, Any] = {"name": name, "issuer": issuer, **settings}
    put(body, audience=audience)
    return change("POST", "/issuers", body, Issuer, tagged=True)


def get_issuer(name: str) -> Call[Issuer]:
    return fetch(f"/issuers/{part(name)}", Issuer, tagged=True)


def list_issuers(page_size: int, page_token: str | None) -> Call[Page[Issuer]]:
    return page("/issuers", "issuers", Issuer, page_size, page_token)


def put_issuer(
    name: str, issuer: str, settings: Mapping[str, Any], audience: str | None, if_match: str | None
) -> Call[Issuer]:
    body: dict[str, Any] = {"issuer": issuer, **settings}
    put(body, audience=audience)
    return change(
        "PUT", f"/issuers/{part(name)}", body, Issuer, safe=True, if_match=if_match, tagged=True
    )


def delete_issuer(name: str, if_match: str | None, force: bool) -> Call[None]:
    return delete(f"/issuers/{part(name)}", force=force, if_match=if_match)
