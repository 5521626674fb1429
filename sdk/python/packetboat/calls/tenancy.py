# Generated from openapi/: `make generate`. Do not edit.
"""Calls of locks, schemas, tenants, clients, keys, policies, issuers, quotas, usage, audit,
server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from packetboat.calls.bodies import audit_query, body_to_validate
from packetboat.calls.call import (
    Call,
    change,
    delete,
    fetch,
    get,
    member,
    nothing,
    page,
    part,
    put,
    send_json,
    waiting,
    with_query,
)
from packetboat.models import (
    AuditEntry,
    Compatibility,
    Fleet,
    Issuer,
    Key,
    Limits,
    Lock,
    LockState,
    LockVerified,
    OAuthClient,
    Page,
    Policy,
    Quotas,
    Role,
    Schema,
    SchemaChecked,
    SchemaType,
    SchemaValidated,
    SchemaVersion,
    Tenant,
    UsageHour,
    WhoAmI,
)


def acquire_lock(
    name: str,
    ttl_seconds: float | None,
    wait_seconds: float,
    holder: str | None,
    request_id: str | None,
    labels: Mapping[str, str] | None,
) -> Call[Lock]:
    body: dict[str, Any] = {"wait_seconds": wait_seconds}
    put(body, ttl_seconds=ttl_seconds, holder=holder, request_id=request_id, labels=labels)
    return waiting(
        change("POST", f"/locks/{part(name)}:acquire", body, Lock, safe=request_id is not None),
        wait_seconds,
    )


def renew_lock(name: str, lock_id: str, ttl_seconds: float | None) -> Call[Lock]:
    body: dict[str, Any] = {"lock_id": lock_id}
    put(body, ttl_seconds=ttl_seconds)
    return change("POST", f"/locks/{part(name)}:renew", body, Lock, safe=True)


def release_lock(name: str, lock_id: str) -> Call[None]:
    body: dict[str, Any] = {"lock_id": lock_id}
    return Call(send_json("POST", f"/locks/{part(name)}:release", body), nothing, safe=True)


def verify_lock(name: str, fencing_token: int) -> Call[LockVerified]:
    body: dict[str, Any] = {"fencing_token": fencing_token}
    return change("POST", f"/locks/{part(name)}:verify", body, LockVerified, safe=True)


def get_lock(name: str) -> Call[LockState]:
    return fetch(f"/locks/{part(name)}", LockState)


def list_locks(page_size: int, page_token: str | None) -> Call[Page[LockState]]:
    return page("/locks", "locks", LockState, page_size, page_token)


def delete_lock(name: str) -> Call[None]:
    return delete(f"/locks/{part(name)}")


def create_schema(
    name: str, type: SchemaType, definition: Any, compatibility: Compatibility | None
) -> Call[Schema]:
    body: dict[str, Any] = {"name": name, "type": type, "definition": definition}
    put(body, compatibility=compatibility)
    return change("POST", "/schemas", body, Schema, tagged=True)


def get_schema(name: str) -> Call[Schema]:
    return fetch(f"/schemas/{part(name)}", Schema, tagged=True)


def list_schemas(page_size: int, page_token: str | None) -> Call[Page[Schema]]:
    return page("/schemas", "schemas", Schema, page_size, page_token)


def change_schema(name: str, compatibility: Compatibility, if_match: str | None) -> Call[Schema]:
    body: dict[str, Any] = {"compatibility": compatibility}
    return change(
        "PATCH", f"/schemas/{part(name)}", body, Schema, safe=True, if_match=if_match, tagged=True
    )


def delete_schema(name: str, if_match: str | None) -> Call[None]:
    return delete(f"/schemas/{part(name)}", if_match=if_match)


def list_schema_versions(name: str) -> Call[tuple[SchemaVersion, ...]]:
    return Call(
        get(f"/schemas/{part(name)}/versions"),
        member("versions", tuple[SchemaVersion, ...]),
        safe=True,
    )


def add_schema_version(name: str, definition: Any) -> Call[int]:
    body: dict[str, Any] = {"definition": definition}
    return Call(
        send_json("POST", f"/schemas/{part(name)}/versions", body), member("number", int), safe=True
    )


def get_schema_version(name: str, number: int) -> Call[SchemaVersion]:
    return fetch(f"/schemas/{part(name)}/versions/{number}", SchemaVersion)


def check_schema(name: str, definition: Any) -> Call[SchemaChecked]:
    body: dict[str, Any] = {"definition": definition}
    return change("POST", f"/schemas/{part(name)}:check", body, SchemaChecked, safe=True)


def validate_body(
    name: str, data: Any, content_type: str | None, number: int | None
) -> Call[SchemaValidated]:
    body: dict[str, Any] = {"data": data}
    put(body, content_type=content_type, number=number)
    body = body_to_validate(body)
    return change("POST", f"/schemas/{part(name)}:validate", body, SchemaValidated, safe=True)


def create_tenant(name: str, settings: Mapping[str, Any]) -> Call[Tenant]:
    body: dict[str, Any] = {"name": name, **settings}
    return change("POST", "/tenants", body, Tenant, tagged=True)


def get_tenant(name: str) -> Call[Tenant]:
    return fetch(f"/tenants/{part(name)}", Tenant, tagged=True)


def list_tenants(page_size: int, page_token: str | None) -> Call[Page[Tenant]]:
    return page("/tenants", "tenants", Tenant, page_size, page_token)


def put_tenant(name: str, settings: Mapping[str, Any], if_match: str | None) -> Call[Tenant]:
    body: dict[str, Any] = {**settings}
    return change(
        "PUT",
        f"/tenants/{part(name)}",
        body,
        Tenant,
        safe=settings.get("owner") is None,
        if_match=if_match,
        tagged=True,
    )


def delete_tenant(name: str, if_match: str | None, force: bool) -> Call[Tenant]:
    return change(
        "DELETE",
        with_query(f"/tenants/{part(name)}", {"force": force or None}),
        None,
        Tenant,
        if_match=if_match,
        tagged=True,
    )


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


def get_quotas(tenant: str) -> Call[Quotas]:
    return fetch(f"/tenants/{part(tenant)}/quotas", Quotas, tagged=True)


def get_own_quotas() -> Call[Quotas]:
    return fetch("/quotas", Quotas, tagged=True)


def put_quotas(
    tenant: str, limits: Limits, weight: float | None, if_match: str | None
) -> Call[Quotas]:
    body: dict[str, Any] = {"limits": limits}
    put(body, weight=weight)
    return change(
        "PUT",
        f"/tenants/{part(tenant)}/quotas",
        body,
        Quotas,
        safe=True,
        if_match=if_match,
        tagged=True,
    )


def get_usage(
    tenant: str,
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[UsageHour]]:
    return page(
        f"/tenants/{part(tenant)}/usage",
        "usage",
        UsageHour,
        page_size,
        page_token,
        {"from": since, "to": until, "metric": metric},
    )


def get_own_usage(
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    page_token: str | None,
) -> Call[Page[UsageHour]]:
    return page(
        "/usage",
        "usage",
        UsageHour,
        page_size,
        page_token,
        {"from": since, "to": until, "metric": metric},
    )


def get_audit(
    tenant: str, settings: Mapping[str, Any], page_size: int, page_token: str | None
) -> Call[Page[AuditEntry]]:
    return page(
        f"/tenants/{part(tenant)}/audit",
        "entries",
        AuditEntry,
        page_size,
        page_token,
        audit_query(settings),
    )


def get_own_audit(
    settings: Mapping[str, Any], page_size: int, page_token: str | None
) -> Call[Page[AuditEntry]]:
    return page("/audit", "entries", AuditEntry, page_size, page_token, audit_query(settings))


def who_am_i() -> Call[WhoAmI]:
    return fetch("/whoami", WhoAmI)


def list_forwarders() -> Call[Fleet]:
    return fetch("/forwarders", Fleet)


def healthz() -> Call[None]:
    return Call(get("/healthz"), nothing, safe=True)


def readyz() -> Call[None]:
    return Call(get("/readyz"), nothing)
