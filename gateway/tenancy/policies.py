"""Policies of a tenant: who may do what, on what."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, header, path_param, tenant_of
from gateway.http.decoding import Query, if_match, read_json
from gateway.tenancy.answers import (
    name_in_path,
    page_size_of,
    refusals,
    respond_listing,
    respond_one,
    update_or_create,
)
from gateway.tenancy.policy_bodies import spec_of, view
from gateway.topics.topics import respond_no_content
from metadata.tenancy.policies import PolicyRepository
from openapi import access


class PolicyRoutes:
    def __init__(self, policies: PolicyRepository) -> None:
        self._policies = policies

    def routes(self) -> list[Route]:
        return [
            Route(access.OPERATIONS["createPolicy"], self.create),
            Route(access.OPERATIONS["listPolicies"], self.page),
            Route(access.OPERATIONS["getPolicy"], self.get),
            Route(access.OPERATIONS["putPolicy"], self.put),
            Route(access.OPERATIONS["deletePolicy"], self.delete),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        spec = spec_of(await read_json(scope, receive, access.PolicyBody))
        async with refusals("policy", taken=spec.name):
            policy = await self._policies.create(tenant_of(scope), spec)
        location = ("policies", policy.name)
        await respond_one(send, 201, view(policy), policy.version, location=location)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, access.PolicyBody)
        name, tenant_id = path_param(scope, "name"), tenant_of(scope)
        spec, version = spec_of(body, name), if_match(header(scope, b"if-match"))
        force = Query(scope).flag("force")
        policy, made = await update_or_create(
            "policy",
            version,
            lambda: self._policies.update(tenant_id, name, spec, if_version=version, force=force),
            lambda: self._policies.create(tenant_id, spec),
        )
        location = ("policies", name) if made else ()
        status = 201 if made else 200
        await respond_one(send, status, view(policy), policy.version, location=location)

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        policy = await self._policies.get(tenant_of(scope), name_in_path(scope, "policy"))
        await respond_one(send, 200, view(policy), policy.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._policies.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = access.PolicyPage([view(one) for one in page.items], page.next_token)
        await respond_listing(send, listing)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """409 when no owner would be left, unless `force=true`."""
        async with refusals("policy"):
            await self._policies.delete(
                tenant_of(scope),
                name_in_path(scope, "policy"),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)
