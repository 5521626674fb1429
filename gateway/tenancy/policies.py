"""Policies of a tenant: who may do what, on what."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, header, path_param, tenant_of
from edge.problem import not_found
from gateway.http.decoding import Query, if_match, read_json
from gateway.names import name_errors
from gateway.tenancy.answers import (
    page_size_of,
    refusals,
    respond_one,
    respond_page,
    update_or_create,
)
from gateway.tenancy.policy_bodies import PolicyBody, view
from gateway.topics.topics import respond_no_content
from metadata.tenancy.policies import PolicyRepository
from openapi.access import OPERATIONS


class PolicyRoutes:
    def __init__(self, policies: PolicyRepository) -> None:
        self._policies = policies

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["createPolicy"], self.create),
            Route(OPERATIONS["listPolicies"], self.page),
            Route(OPERATIONS["getPolicy"], self.get),
            Route(OPERATIONS["putPolicy"], self.put),
            Route(OPERATIONS["deletePolicy"], self.delete),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        spec = (await read_json(scope, receive, PolicyBody)).spec()
        async with refusals("policy", taken=spec.name):
            policy = await self._policies.create(tenant_of(scope), spec)
        location = ("policies", policy.name)
        await respond_one(send, 201, view(policy), policy.version, location=location)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, PolicyBody)
        name, tenant_id = path_param(scope, "name"), tenant_of(scope)
        spec, version = body.spec(name), if_match(header(scope, b"if-match"))
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
        policy = await self._policies.get(tenant_of(scope), _name(scope))
        await respond_one(send, 200, view(policy), policy.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._policies.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        await respond_page(send, "policies", [view(one) for one in page.items], page.next_token)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """409 when no owner would be left, unless `force=true`."""
        async with refusals("policy"):
            await self._policies.delete(
                tenant_of(scope),
                _name(scope),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)


def _name(scope: Scope) -> str:
    name = path_param(scope, "name")
    if name_errors(name):
        raise not_found("policy", name)
    return name
