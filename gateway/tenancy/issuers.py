"""OIDC issuers that a tenant trusts."""

from __future__ import annotations

from edge.asgi import Route
from edge.problem import FieldError, Problem
from edge.write_permit import aside
from gateway.resources import Call, Resource, Shown, precondition_failed
from gateway.tenancy.answers import exists_already
from gateway.tenancy.issuer_bodies import spec_of, view
from gateway.tenancy.issuer_trust import Prove
from metadata.tenancy.issuers import Issuer, IssuerRepository, IssuerTaken
from openapi import access


class IssuerRoutes:
    def __init__(self, issuers: IssuerRepository, prove: Prove) -> None:
        self._issuers = issuers
        self._prove = prove

    def routes(self) -> list[Route]:
        table = access.OPERATIONS
        issuers = Resource("issuer", table["getIssuer"], _shown)
        taken = exists_already("issuer")
        return [
            issuers.creates(table["createIssuer"], access.IssuerBody, self._create, taken),
            issuers.lists(table["listIssuers"], self._issuers.page),
            issuers.gets(table["getIssuer"], self._issuers.get),
            issuers.puts(table["putIssuer"], access.IssuerBody, self._update, self._create),
            issuers.deletes(table["deleteIssuer"], self._delete),
        ]

    async def _create(self, call: Call, body: access.IssuerBody) -> Issuer:
        spec = spec_of(body, call.name)
        async with aside(call.scope):
            spec = await self._prove(call.tenant_id, spec, None)
        try:
            return await self._issuers.create(call.tenant_id, spec)
        except IssuerTaken as error:
            raise _taken() from error

    async def _update(self, call: Call, body: access.IssuerBody) -> Issuer:
        spec = spec_of(body, call.name)
        present = await self._issuers.get(call.tenant_id, call.name)
        if call.if_version not in (None, present.version):
            raise precondition_failed("issuer")
        async with aside(call.scope):
            spec = await self._prove(call.tenant_id, spec, present)
        try:
            return await self._issuers.update(
                call.tenant_id, call.name, spec, if_version=call.if_version
            )
        except IssuerTaken as error:
            raise _taken() from error

    async def _delete(self, call: Call) -> None:
        """Raise LastOwner if its subjects are the last owners, unless `force=true`."""
        await self._issuers.delete(
            call.tenant_id, call.name, if_version=call.if_version, force=call.force
        )


def _shown(issuer: Issuer) -> Shown:
    return Shown(view(issuer), issuer.name, issuer.version)


def _taken() -> Problem:
    detail = "this tenant trusts it for that audience already, under another name"
    return Problem.of(
        "issuer-taken",
        "A token has to say whom it means: in a tenant, an issuer and audience have one name.",
        errors=[FieldError("issuer", detail)],
    )
