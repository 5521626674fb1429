"""OIDC issuers that a tenant trusts."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, header, path_param, tenant_of
from edge.problem import FieldError, Problem
from gateway.http.decoding import Query, if_match, read_json
from gateway.tenancy.answers import (
    name_in_path,
    page_size_of,
    refusals,
    respond_listing,
    respond_one,
    update_or_create,
)
from gateway.tenancy.issuer_bodies import spec_of, view
from gateway.tenancy.issuer_trust import Prove
from gateway.topics.topics import precondition_failed, respond_no_content
from gateway.write_turns import aside
from metadata.errors import NotFound
from metadata.tenancy.issuers import Issuer, IssuerRepository, IssuerTaken
from openapi import access


class IssuerRoutes:
    def __init__(self, issuers: IssuerRepository, prove: Prove) -> None:
        self._issuers = issuers
        self._prove = prove

    def routes(self) -> list[Route]:
        return [
            Route(access.OPERATIONS["createIssuer"], self.create),
            Route(access.OPERATIONS["listIssuers"], self.page),
            Route(access.OPERATIONS["getIssuer"], self.get),
            Route(access.OPERATIONS["putIssuer"], self.put),
            Route(access.OPERATIONS["deleteIssuer"], self.delete),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        spec = spec_of(await read_json(scope, receive, access.IssuerBody))
        async with aside(scope):
            spec = await self._prove(tenant_id, spec, None)
        try:
            async with refusals("issuer", taken=spec.name):
                issuer = await self._issuers.create(tenant_id, spec)
        except IssuerTaken as error:
            raise _taken() from error
        location = ("issuers", issuer.name)
        await respond_one(send, 201, view(issuer), issuer.version, location=location)

    async def put(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 when it was not there, 200 when it is now as the body says."""
        body = await read_json(scope, receive, access.IssuerBody)
        name, tenant_id = path_param(scope, "name"), tenant_of(scope)
        spec, version = spec_of(body, name), if_match(header(scope, b"if-match"))
        present = await self._present(tenant_id, name)
        if version is not None and (present is None or present.version != version):
            raise precondition_failed("issuer")
        async with aside(scope):
            spec = await self._prove(tenant_id, spec, present)
        try:
            issuer, made = await update_or_create(
                "issuer",
                version,
                lambda: self._issuers.update(tenant_id, name, spec, if_version=version),
                lambda: self._issuers.create(tenant_id, spec),
            )
        except IssuerTaken as error:
            raise _taken() from error
        location = ("issuers", name) if made else ()
        status = 201 if made else 200
        await respond_one(send, status, view(issuer), issuer.version, location=location)

    async def _present(self, tenant_id: bytes, name: str) -> Issuer | None:
        try:
            return await self._issuers.get(tenant_id, name)
        except NotFound:
            return None

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        issuer = await self._issuers.get(tenant_of(scope), name_in_path(scope, "issuer"))
        await respond_one(send, 200, view(issuer), issuer.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._issuers.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.page_token(),
        )
        listing = access.IssuerPage([view(one) for one in page.items], page.next_token)
        await respond_listing(send, listing)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Its tokens hold no more. 409 when its subjects are the last owners, unless
        `force=true`."""
        async with refusals("issuer"):
            await self._issuers.delete(
                tenant_of(scope),
                name_in_path(scope, "issuer"),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)


def _taken() -> Problem:
    detail = "this tenant trusts it for that audience already, under another name"
    return Problem(
        409,
        "issuer-taken",
        "The issuer is taken",
        "A token has to say whom it means: in a tenant, an issuer and audience have one name.",
        errors=[FieldError("issuer", detail)],
    )
