"""Test how a tenant proves that tokens of an issuer are its own, and the answers when it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from auth.issuer_keys import IssuerUnreachable
from edge.problem import Problem
from gateway.tenancy.issuer_trust import IssuerTrust
from metadata.tenancy.issuers import Issuer, IssuerSpec
from metadata.types import Tenant, token_audience
from openapi.access import Trust

ACME, OTHER = b"a" * 16, b"o" * 16
NOW = datetime(2026, 1, 1, tzinfo=UTC)
AT = "https://id.example/realms/one"
SPEC = IssuerSpec("sso", AT, "app", ("RS256",))
PRESENT = Issuer(
    *(ACME, b"i" * 16, "sso", AT, "app", ("RS256",), "sub", {}, {}, 1, NOW, NOW, "unproved")
)


class World:
    """A tenant's row, and an issuer that publishes `document`, or nothing."""

    def __init__(self) -> None:
        self.document: str | None = None
        self.allowed: tuple[str, ...] = ()
        self.asked: list[tuple[bytes, str]] = []
        self.trust = IssuerTrust(self, self.fetch)

    async def get_by_id(self, tenant_id: bytes) -> Tenant:
        state = "active"
        return Tenant(tenant_id, "t", "", state, {}, (), 1, NOW, NOW, self.allowed)

    async def fetch(self, tenant_id: bytes, url: str) -> bytes:
        self.asked.append((tenant_id, url))
        if self.document is None:
            raise IssuerUnreachable(f"{url} answered 404")
        return self.document.encode()

    def publish(self, *tenants: bytes) -> None:
        self.document = json.dumps({"tenants": [token_audience(each) for each in tenants]})

    async def proved(self, spec: IssuerSpec, present: Issuer | None = None) -> Trust:
        proved = await self.trust.prove(ACME, spec, present)
        assert replace(proved, trust=spec.trust) == spec
        return proved.trust

    async def refused(self, spec: IssuerSpec = SPEC, present: Issuer | None = None) -> Problem:
        with pytest.raises(Problem) as refused:
            await self.trust.prove(ACME, spec, present)
        assert refused.value.status == 422
        return refused.value


@pytest.fixture
def world() -> World:
    return World()


async def test_the_tenants_own_audience_needs_nothing_else(world: World) -> None:
    spec = replace(SPEC, audience=token_audience(ACME))
    assert await world.proved(spec) == "audience"
    left_out = await world.trust.prove(ACME, replace(SPEC, audience=""), None)
    assert (left_out.audience, left_out.trust) == (spec.audience, "audience")
    assert world.asked == []


async def test_nobody_has_another_tenants_audience(world: World) -> None:
    world.publish(ACME)
    for audience in (token_audience(OTHER), "packetboat:tenant:", "packetboat:tenant:x"):
        refused = await world.refused(replace(SPEC, audience=audience))
        assert [error.field for error in refused.errors] == ["audience"]


async def test_an_issuer_that_names_the_tenant_is_its_own(world: World) -> None:
    world.publish(OTHER, ACME)
    assert await world.proved(SPEC) == "document"
    assert world.asked == [(ACME, AT + "/.well-known/packetboat-tenants")]


async def test_an_operator_makes_sure_of_one_audience(world: World) -> None:
    world.allowed = (AT + "#app",)
    assert await world.proved(SPEC) == "operator"
    await world.refused(replace(SPEC, audience="else"))


@pytest.mark.parametrize(
    "document", [None, "", "[]", "{}", '{"tenants": "x"}', '{"tenants": []}', "[" * 100_000]
)
async def test_where_nothing_proves_it_the_answer_says_what_would(
    world: World, document: str | None
) -> None:
    world.document = document
    refused = await world.refused()
    assert refused.slug == "issuer-unproved"
    for said in (token_audience(ACME), AT + "/.well-known/packetboat-tenants", AT + "#app"):
        assert said in refused.detail


async def test_what_0_2_registered_may_be_changed_but_not_its_audience(world: World) -> None:
    changed = replace(SPEC, required_claims={"a": "b"})
    assert await world.proved(changed, PRESENT) == "unproved"
    await world.refused(replace(SPEC, audience="else"), PRESENT)
    await world.refused(SPEC, replace(PRESENT, trust="withdrawn"))
    await world.refused(SPEC, replace(PRESENT, trust="operator"))


async def test_a_document_that_is_gone_takes_nothing_away_and_one_that_names_others_does(
    world: World,
) -> None:
    present = replace(PRESENT, trust="document")
    assert await world.proved(SPEC, present) == "document"
    world.publish(OTHER)
    await world.refused(SPEC, present)
