"""The permissions of the token of a run, and its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from auth.access_token_verifier import AccessTokenVerifier
from auth.access_tokens import AccessTokens
from auth.errors import TenantSuspended, TokenRefused
from auth.permissions import GRANTABLE
from auth.policies import PolicyCache
from auth.revocations import Revocations
from auth.run_tokens import LASTS_S, MAX_SCHEMAS, Attempt, RunTokens
from auth.verifier import CachingVerifier
from metadata.errors import MetadataUnavailable
from metadata.tenancy.revoked_tokens import RevokedToken
from metadata.types import Change, ChangeKind
from tests.unit.auth.keyring import Clock, made_keys
from tests.unit.auth.tenancy_fakes import ACME, Policies, Tenants, directory_of, policy

RUN = Attempt(ACME, b"r" * 16, 1)


class Revoked:
    """A `RevokedTokenRepository` in memory."""

    def __init__(self) -> None:
        self.tokens: list[RevokedToken] = []
        self.down = False

    async def revoke(self, token: RevokedToken) -> None:
        if self.down:
            raise MetadataUnavailable("down")
        self.tokens.append(token)

    async def all(self) -> tuple[RevokedToken, ...]:
        return ()


class World:
    def __init__(self) -> None:
        self.clock = Clock()
        self.tenants, self.revoked = Tenants(), Revoked()
        # A policy for a subject of that name is not what a run goes by.
        self.policies = Policies(policy("owner", ["client:*"], ["*"]))

    async def open(self) -> World:
        keys = await made_keys(self.clock)
        access = AccessTokens(keys, issuer="i", audience="a", lasts_s=86_400, clock=self.clock)
        revocations = Revocations(cast(Any, self.revoked), clock=self.clock)
        self.revocations = revocations
        self.tokens = RunTokens(access, cast(Any, self.revoked), self.catch_up)
        self.verifier = AccessTokenVerifier(
            access, revocations, directory_of(self.tenants), PolicyCache(self.policies)
        )
        self.cache = CachingVerifier(self.verifier)
        return self

    async def catch_up(self) -> None:
        """Report changes as the change feed does: first to the revocations, and then to the
        cache.
        """
        changes = [
            Change(number, ChangeKind.TOKEN, one.tenant_id, one.jti, "revoked")
            for number, one in enumerate(self.revoked.tokens)
        ]
        await self.revocations.on_changes(changes)
        await self.cache.on_changes(changes)


@pytest.fixture
async def world() -> World:
    return await World().open()


async def test_it_reads_the_topics_of_the_export_and_nothing_else(world: World) -> None:
    token = world.tokens.issue(RUN, "daily", "orders-*", ["of-orders"])
    caller = (await world.verifier.verify(token.text.encode())).caller
    for kind, name in (("topic", "orders-eu"), ("topic", "orders-"), ("schema", "of-orders")):
        assert caller.may("read", kind, name)
    for permission in {each.value for each in GRANTABLE} - {"read"}:
        assert not caller.may_some(permission)
    for kind, name in (
        ("topic", "orders"),
        ("topic", "payments"),
        ("schema", "orders-eu"),
        ("subscription", "orders-eu"),
        ("export", "daily"),
    ):
        assert not caller.may("read", kind, name)


async def test_who_it_is_in_audits(world: World) -> None:
    token = world.tokens.issue(RUN, "daily", "orders")
    principal = await world.verifier.verify(token.text.encode())
    assert (principal.tenant_id, principal.subject) == (ACME, "export:daily")


async def test_it_holds_for_an_hour_whatever_others_do(world: World) -> None:
    token = world.tokens.issue(RUN, "daily", "orders")
    lasts = token.expires_at - datetime.fromtimestamp(world.clock.now_s, UTC)
    assert timedelta(seconds=LASTS_S - 1) <= lasts <= timedelta(hours=1)
    world.clock.now_s += LASTS_S + 60
    with pytest.raises(TokenRefused):
        await world.verifier.verify(token.text.encode())


async def test_all_of_an_attempt_end_with_it_and_those_of_the_next_do_not(world: World) -> None:
    first, again = (world.tokens.issue(RUN, "daily", "orders").text for _ in range(2))
    following = world.tokens.issue(RUN._replace(attempt=2), "daily", "orders").text
    other = world.tokens.issue(RUN._replace(run_uid=b"o" * 16), "daily", "orders").text
    await world.tokens.end(RUN)
    for text in (first, again, world.tokens.issue(RUN, "daily", "orders").text):
        with pytest.raises(TokenRefused):
            await world.verifier.verify(text.encode())
    for text in (following, other):
        await world.verifier.verify(text.encode())
    (revoked,) = world.revoked.tokens
    assert revoked.expires_at > datetime.now(UTC) + timedelta(seconds=LASTS_S - 60)


async def test_who_ends_it_refuses_a_token_that_it_has_just_taken(world: World) -> None:
    """The answer was in the cache until the change feed reported the revocation."""
    text = world.tokens.issue(RUN, "daily", "orders").text.encode()
    await world.cache.verify(text)
    await world.tokens.end(RUN)
    with pytest.raises(TokenRefused):
        await world.cache.verify(text)


async def test_an_ending_does_not_fail_where_it_cannot_be_written_down(world: World) -> None:
    token = world.tokens.issue(RUN, "daily", "orders")
    world.revoked.down = True
    await world.tokens.end(RUN)
    await world.verifier.verify(token.text.encode())


async def test_it_ends_with_its_tenant(world: World) -> None:
    token = world.tokens.issue(RUN, "daily", "orders").text.encode()
    world.tenants.states[ACME] = "suspended"
    with pytest.raises(TenantSuspended):
        await world.verifier.verify(token)


async def test_a_token_stays_short(world: World) -> None:
    names = [f"schema-{n:03}" for n in range(MAX_SCHEMAS + 10)]
    token = world.tokens.issue(RUN, "daily", "*", names)
    caller = (await world.verifier.verify(token.text.encode())).caller
    assert caller.may("read", "schema", names[0])
    assert not caller.may("read", "schema", names[-1])
