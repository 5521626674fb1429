"""OIDC issuers that a tenant trusts."""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send, header, path_param, tenant_of
from edge.problem import FieldError, Problem, not_found
from gateway.http.decoding import Query, if_match, read_json
from gateway.names import name_errors
from gateway.tenancy.answers import (
    page_size_of,
    refusals,
    respond_one,
    respond_page,
    update_or_create,
)
from gateway.tenancy.issuer_bodies import IssuerBody, view
from gateway.tenancy.issuer_trust import Prove
from gateway.topics.topics import precondition_failed, respond_no_content
from gateway.write_turns import aside
from metadata.errors import NotFound
from metadata.tenancy.issuers import Issuer, IssuerRepository, IssuerTaken
from openapi.access import OPERATIONS


class IssuerRoutes:
    def __init__(self, issuers: IssuerRepository, prove: Prove) -> None:
        self._issuers = issuers
        self._prove = prove

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["createIssuer"], self.create),
            Route(OPERATIONS["listIssuers"], self.page),
            Route(OPERATIONS["getIssuer"], self.get),
            Route(OPERATIONS["putIssuer"], self.put),
            Route(OPERATIONS["deleteIssuer"], self.delete),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        spec = (await read_json(scope, receive, IssuerBody)).spec()
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
        body = await read_json(scope, receive, IssuerBody)
        name, tenant_id = path_param(scope, "name"), tenant_of(scope)
        spec, version = body.spec(name), if_match(header(scope, b"if-match"))
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
        issuer = await self._issuers.get(tenant_of(scope), _name(scope))
        await respond_one(send, 200, view(issuer), issuer.version)

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = Query(scope)
        page = await self._issuers.page(
            tenant_of(scope),
            page_size=page_size_of(query),
            page_token=query.text("page_token") or None,
        )
        await respond_page(send, "issuers", [view(one) for one in page.items], page.next_token)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Its tokens hold no more. 409 when its subjects are the last owners, unless
        `force=true`."""
        async with refusals("issuer"):
            await self._issuers.delete(
                tenant_of(scope),
                _name(scope),
                if_version=if_match(header(scope, b"if-match")),
                force=Query(scope).flag("force"),
            )
        await respond_no_content(send)


def _name(scope: Scope) -> str:
    name = path_param(scope, "name")
    if name_errors(name):
        raise not_found("issuer", name)
    return name


def _taken() -> Problem:
    detail = "this tenant trusts it for that audience already, under another name"
    return Problem(
        409,
        "issuer-taken",
        "The issuer is taken",
        "A token has to say whom it means: in a tenant, an issuer and audience have one name.",
        errors=[FieldError("issuer", detail)],
    )
