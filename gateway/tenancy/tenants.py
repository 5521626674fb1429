"""Tenants, as operators make, change and remove them."""

from __future__ import annotations

import msgspec

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond
from edge.problem import FieldError, Problem, invalid, not_found
from gateway.http.decoding import Query, etag, if_match, read_json
from gateway.names import name_errors
from gateway.tenancy.answers import (
    extended,
    page_size_of,
    refusals,
    respond_listing,
    respond_one,
    update_or_create,
    utc_now,
)
from gateway.tenancy.tenant_bodies import first_client_of, spec_of, view
from gateway.tenancy.tenant_deletion import TenantDeletion
from metadata.errors import Conflict
from metadata.tenancy.clients import Client
from metadata.tenancy.credentials import Minted, new_client_id, new_client_secret
from metadata.tenancy.tenants import PLATFORM_NAME, FirstOwner, TenantRepository
from metadata.types import Tenant, TenantSpec, TenantState
from openapi import tenants as contract

Made = tuple[Tenant, Client | None]


class TenantRoutes:
    def __init__(self, tenants: TenantRepository, deletion: TenantDeletion) -> None:
        self._tenants = tenants
        self._deletion = deletion

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["createTenant"], self.create),
            Route(contract.OPERATIONS["listTenants"], self.page),
            Route(contract.OPERATIONS["getTenant"], self.get),
            Route(contract.OPERATIONS["putTenant"], self.put),
            Route(contract.OPERATIONS["deleteTenant"], self.delete),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201, with the secret of its first client where one was asked for."""
        body = await read_json(scope, receive, contract.TenantBody)
        spec, minted = _spec(body), new_client_secret(utc_now())
        async with refusals("tenant", taken=spec.name):
            made = await self._tenants.create(spec, _owner(body, minted))
        await _respond_made(send, made, minted)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 as of `create` when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, contract.TenantBody)
        spec = _spec(body, path_param(scope, "tenant"))
        version, minted = if_match(header(scope, b"if-match")), new_client_secret(utc_now())

        async def update() -> Made:
            return await self._update(spec, version), None

        made, created = await update_or_create(
            "tenant", version, update, lambda: self._tenants.create(spec, _owner(body, minted))
        )
        if created:
            await _respond_made(send, made, minted)
        else:
            await respond_one(send, 200, view(made[0]), made[0].version)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Also of one that is being deleted: 404 once it is gone."""
        tenant = await self._tenants.get(tenant_name(scope))
        await respond_one(send, 200, view(tenant), tenant.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._tenants.page(
            page_size=page_size_of(query), page_token=query.page_token()
        )
        listing = contract.TenantPage([view(one) for one in page.items], page.next_token)
        await respond_listing(send, listing)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """202: from now on its credentials are refused, and all that it has goes, step by step. 409
        while it has topics, unless `force=true`."""
        name, version = tenant_name(scope), if_match(header(scope, b"if-match"))
        force = Query(scope).flag("force")
        async with refusals("tenant"):
            try:
                tenant = await self._tenants.mark_deleting(name, if_version=version, force=force)
            except Conflict as error:
                if isinstance(error.existing, int):
                    raise _has_topics(name, error.existing) from error
                raise
        self._deletion.wake()
        headers = [etag(tenant.version)]
        await respond(send, 202, msgspec.json.encode(view(tenant)), headers=headers)

    async def _update(self, spec: TenantSpec, version: int | None) -> Tenant:
        try:
            return await self._tenants.update(spec, if_version=version)
        except Conflict as error:
            present = error.existing
            if isinstance(present, Tenant) and present.state is TenantState.DELETING:
                raise _going(spec.name) from error
            raise


def tenant_name(scope: Scope) -> str:
    """Of the path; the platform's own is none of them."""
    name = path_param(scope, "tenant")
    if name_errors(name) or name == PLATFORM_NAME:
        raise not_found("tenant", name)
    return name


def _spec(body: contract.TenantBody, path_name: str | None = None) -> TenantSpec:
    spec = spec_of(body, path_name)
    if spec.name == PLATFORM_NAME:
        detail = "the platform's own; choose another"
        raise invalid("The body does not fit.", [FieldError("name", detail)])
    return spec


def _owner(body: contract.TenantBody, minted: Minted) -> FirstOwner | None:
    client = first_client_of(body)
    return None if client is None else FirstOwner(client, new_client_id(), minted.secret)


async def _respond_made(send: Send, made: Made, minted: Minted) -> None:
    tenant, client = made
    shown = extended(contract.TenantMade, view(tenant))
    if client is not None:
        shown.owner = contract.FirstOwnerMade(client.name, client.client_id, minted.text)
    location = ("tenants", tenant.name)
    await respond_one(
        send, 201, shown, tenant.version, location=location, secret=client is not None
    )


def _has_topics(name: str, topics: int) -> Problem:
    return Problem(
        409,
        "tenant-not-empty",
        "The tenant has topics",
        f"The tenant {name!r} has {topics} topics; force=true deletes them and all that is "
        "published to them.",
        extra={"topics": topics},
    )


def _going(name: str) -> Problem:
    return Problem(
        409,
        "tenant-deleting",
        "The tenant is being deleted",
        f"The tenant {name!r} is being deleted; its name is free once it is gone.",
        retry_after_s=1.0,
    )
