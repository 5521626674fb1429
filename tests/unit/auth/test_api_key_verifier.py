from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from auth.api_key_verifier import ApiKeyVerifier
from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from auth.permissions import Permission
from auth.principal import Grant
from metadata.errors import MetadataUnavailable
from metadata.tenancy.api_keys import ApiKey
from metadata.tenancy.credentials import new_api_key
from metadata.types import ChangeKind
from tests.unit.auth.tenancy_fakes import ACME, WHEN, Tenants, change, directory_of

KEY_ID = "abcdefABCDEF"
MINTED = new_api_key(KEY_ID, WHEN)
TOKEN = MINTED.text.encode()
KEY = ApiKey(
    tenant_id=ACME,
    uid=b"u" * 16,
    name="ci",
    key_id=KEY_ID,
    secrets=(MINTED.secret,),
    scopes=("publish:topics/orders-*", "read", "conquer"),
    state="active",
    expires_at=None,
    labels={},
    version=1,
    created_at=WHEN,
    updated_at=WHEN,
    last_used_at=None,
)


class Keys:
    def __init__(self) -> None:
        self.key: ApiKey | None = KEY
        self.asked: list[str] = []
        self.touched: list[tuple[bytes, bytes, datetime]] = []
        self.down = False

    async def by_key_id(self, key_id: str) -> ApiKey | None:
        self.asked.append(key_id)
        if self.down:
            raise MetadataUnavailable("down")
        return self.key if self.key is not None and self.key.key_id == key_id else None

    async def touch(self, used: Sequence[tuple[bytes, bytes, datetime]]) -> None:
        if self.down:
            raise MetadataUnavailable("down")
        self.touched += used


class World:
    def __init__(self) -> None:
        self.keys, self.tenants, self.now = Keys(), Tenants(), WHEN + timedelta(days=1)
        self.directory = directory_of(self.tenants)
        self.verifier = ApiKeyVerifier(self.keys, self.directory, clock=lambda: self.now)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_key_is_who_it_is_and_may_what_its_scopes_say(world: World) -> None:
    principal = await world.verifier.verify(TOKEN)
    assert (principal.tenant_id, principal.subject) == (ACME, "key:ci")
    assert principal.credential == f"key:{KEY_ID}"
    assert principal.grants == {
        Grant(Permission.PUBLISH, "topic", "orders-*"),
        Grant(Permission.READ, "*", "*"),
    }
    assert principal.expires_at is None
    await world.verifier.verify(TOKEN)
    assert world.keys.asked == [KEY_ID]


@pytest.mark.parametrize(
    "token",
    [
        b"pbk_",
        b"pbk_" + b"x" * 56,
        TOKEN[:-1],
        TOKEN + b"A",
        TOKEN[:-1] + (b"A" if TOKEN[-1:] != b"A" else b"B"),
        TOKEN.replace(KEY_ID.encode(), b"abcdefABCDEG"),
        TOKEN.replace(b"pbk_", b"pbs_"),
        TOKEN + b"\n",
        b"pbk_\xff" + TOKEN[5:],
    ],
    ids=range(9),
)
async def test_what_is_not_the_key_is_refused(world: World, token: bytes) -> None:
    with pytest.raises(TokenRefused):
        await world.verifier.verify(token)


async def test_a_key_that_is_disabled_or_over_is_refused(world: World) -> None:
    for key in (
        replace(KEY, state="disabled"),
        replace(KEY, expires_at=world.now),
        replace(KEY, secrets=(replace(MINTED.secret, expires_at=world.now),)),
        replace(KEY, secrets=()),
    ):
        world.keys.key = key
        await world.verifier.on_changes([change(ChangeKind.KEY, uid=KEY.uid)])
        with pytest.raises(TokenRefused):
            await world.verifier.verify(TOKEN)


async def test_the_principal_ends_with_the_key_or_its_secret(world: World) -> None:
    hour, day = world.now + timedelta(hours=1), world.now + timedelta(days=1)
    other = new_api_key(KEY_ID, WHEN)
    secrets = (other.secret, replace(MINTED.secret, expires_at=hour))
    world.keys.key = replace(KEY, secrets=secrets, expires_at=day)
    assert (await world.verifier.verify(TOKEN)).expires_at == hour.timestamp()
    assert (await world.verifier.verify(other.text.encode())).expires_at == day.timestamp()


async def test_a_suspended_tenant_is_told_apart_from_one_that_is_not_there(world: World) -> None:
    world.tenants.states[ACME] = "suspended"
    with pytest.raises(TenantSuspended):
        await world.verifier.verify(TOKEN)
    world.tenants.states[ACME] = "deleting"
    await world.directory.on_changes([change(ChangeKind.TENANT)])
    with pytest.raises(TokenRefused):
        await world.verifier.verify(TOKEN)


async def test_a_change_is_heard(world: World) -> None:
    await world.verifier.verify(TOKEN)
    world.keys.key = None
    await world.verifier.on_changes([change(ChangeKind.KEY, uid=b"x" * 16)])
    await world.verifier.verify(TOKEN)
    await world.verifier.on_changes([change(ChangeKind.KEY, uid=KEY.uid)])
    with pytest.raises(TokenRefused):
        await world.verifier.verify(TOKEN)


async def test_while_postgres_is_down_what_is_known_goes_on(world: World) -> None:
    world.keys.down = True
    with pytest.raises(VerifierUnavailable):
        await world.verifier.verify(TOKEN)
    world.keys.down = False
    await world.verifier.verify(TOKEN)
    world.keys.down = world.tenants.down = True
    await world.verifier.verify(TOKEN)


async def test_uses_are_written_many_at_once_and_kept_while_they_can_t_be(world: World) -> None:
    for _ in range(3):
        await world.verifier.verify(TOKEN)
    assert world.keys.touched == []
    world.keys.down = True
    await world.verifier.last_uses.write()
    world.keys.down = False
    await world.verifier.last_uses.write()
    await world.verifier.last_uses.write()
    assert world.keys.touched == [(ACME, KEY.uid, world.now)]
