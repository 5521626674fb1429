from __future__ import annotations

import asyncio
import hashlib
import stat
from pathlib import Path

import pytest

from auth import verifier as module
from auth.development import DEV_TENANT_ID, DevTokenVerifier, dev_token, token_hash
from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from auth.permissions import GRANTABLE, Permission
from auth.principal import Principal, everything
from auth.verifier import CACHE_SECONDS, REFUSAL_SECONDS, CachingVerifier
from metadata.tenancy.signing_keys import NOBODY
from metadata.tenancy.tenants import PLATFORM_ID
from metadata.types import Change, ChangeKind

PRINCIPAL = Principal(b"t" * 16, "someone", everything())


class CountingVerifier:
    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.answer: Principal | Exception = PRINCIPAL

    async def verify(self, token: bytes) -> Principal:
        self.asked.append(token)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def test_a_good_token_is_checked_once_until_the_cache_ends() -> None:
    inner, clock = CountingVerifier(), Clock()
    cache = CachingVerifier(inner, clock=clock)
    assert cache.cached(b"a") is None
    assert await cache.verify(b"a") is PRINCIPAL
    assert cache.cached(b"a") is PRINCIPAL
    assert await cache.verify(b"a") is PRINCIPAL
    assert inner.asked == [b"a"]
    clock.now_s = CACHE_SECONDS + 0.1
    assert cache.cached(b"a") is None
    await cache.verify(b"a")
    assert len(inner.asked) == 2


async def test_a_refusal_is_cached_for_a_short_time() -> None:
    inner, clock = CountingVerifier(), Clock()
    inner.answer = TokenRefused()
    cache = CachingVerifier(inner, clock=clock)
    for _ in range(3):
        with pytest.raises(TokenRefused):
            await cache.verify(b"bad")
    assert len(inner.asked) == 1
    assert cache.cached(b"bad") is None
    clock.now_s = REFUSAL_SECONDS + 0.1
    inner.answer = PRINCIPAL
    assert await cache.verify(b"bad") is PRINCIPAL


async def test_not_being_able_to_check_is_never_cached() -> None:
    inner = CountingVerifier()
    inner.answer = VerifierUnavailable()
    cache = CachingVerifier(inner)
    with pytest.raises(VerifierUnavailable):
        await cache.verify(b"a")
    inner.answer = PRINCIPAL
    assert await cache.verify(b"a") is PRINCIPAL


async def test_bad_tokens_do_not_drive_out_good_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_TOKENS", 3)
    inner = CountingVerifier()
    cache = CachingVerifier(inner)
    await cache.verify(b"good")
    inner.answer = TokenRefused()
    for number in range(10):
        with pytest.raises(TokenRefused):
            await cache.verify(b"%d" % number)
    assert cache.cached(b"good") is PRINCIPAL


async def test_no_longer_than_the_token_itself() -> None:
    inner, clock = CountingVerifier(), Clock()
    inner.answer = Principal(b"t" * 16, "someone", everything(), expires_at=1_000_010.0)
    cache = CachingVerifier(inner, clock=clock, wall=lambda: 1_000_000.0)
    await cache.verify(b"a")
    clock.now_s = 9.9
    assert cache.cached(b"a") is not None
    clock.now_s = 10.0
    assert cache.cached(b"a") is None


TENANT, OTHER, JTI = b"t" * 16, b"o" * 16, b"j" * 16
MINE = Principal(TENANT, "client:app", everything(), f"token:{JTI.hex()}")
THEIRS = Principal(OTHER, "key:ci", everything(), "key:abc")
OPERATOR = Principal(OTHER, "operator:root", everything(), f"token:{bytes(15).hex()}01")


@pytest.mark.parametrize(
    ("kind", "tenant_id", "uid", "left"),
    [
        (ChangeKind.TENANT, TENANT, TENANT, (THEIRS, OPERATOR)),
        (ChangeKind.CLIENT, TENANT, b"u" * 16, (THEIRS, OPERATOR)),
        (ChangeKind.KEY, OTHER, b"u" * 16, (MINE,)),
        (ChangeKind.POLICY, TENANT, b"u" * 16, (THEIRS, OPERATOR)),
        (ChangeKind.ISSUER, TENANT, b"u" * 16, (THEIRS, OPERATOR)),
        (ChangeKind.TOKEN, OTHER, JTI, (THEIRS, OPERATOR)),
        (ChangeKind.TOKEN, PLATFORM_ID, NOBODY, (THEIRS,)),
        (ChangeKind.CLIENT, PLATFORM_ID, b"u" * 16, (MINE, THEIRS)),
        (ChangeKind.RESET, b"", b"", ()),
        (ChangeKind.TOPIC, TENANT, b"u" * 16, (MINE, THEIRS, OPERATOR)),
    ],
)
async def test_what_a_change_drops(
    kind: ChangeKind, tenant_id: bytes, uid: bytes, left: tuple[Principal, ...]
) -> None:
    inner = CountingVerifier()
    cache = CachingVerifier(inner)
    for principal in (MINE, THEIRS, OPERATOR):
        inner.answer = principal
        await cache.verify(principal.subject.encode())
    await cache.on_changes([Change(1, kind, tenant_id, uid, "")])
    found = {cache.cached(each.subject.encode()) for each in (MINE, THEIRS, OPERATOR)}
    assert found - {None} == set(left)


async def test_what_changed_while_it_was_being_found_is_not_kept() -> None:
    class Slow:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def verify(self, token: bytes) -> Principal:
            self.begun.set()
            await self.goes_on.wait()
            if token == b"bad":
                raise TokenRefused
            return MINE

    slow = Slow()
    cache = CachingVerifier(slow)
    good, bad = (asyncio.create_task(cache.verify(each)) for each in (b"good", b"bad"))
    await slow.begun.wait()
    await cache.on_changes([Change(1, ChangeKind.POLICY, OTHER, b"u" * 16, "")])
    slow.goes_on.set()
    assert await good is MINE
    with pytest.raises(TokenRefused):
        await bad
    assert cache.cached(b"good") is None
    assert cache._bad == {}


async def test_a_refusal_is_dropped_by_a_change_and_says_the_same_each_time() -> None:
    inner = CountingVerifier()
    inner.answer = TenantSuspended()
    cache = CachingVerifier(inner)
    for _ in range(3):
        with pytest.raises(TenantSuspended):
            await cache.verify(b"a")
    assert len(inner.asked) == 1
    inner.answer = MINE
    await cache.on_changes([Change(1, ChangeKind.TENANT, TENANT, TENANT, "")])
    assert await cache.verify(b"a") is MINE


async def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CACHED_TOKENS", 3)
    cache = CachingVerifier(CountingVerifier())
    for number in range(5):
        await cache.verify(b"%d" % number)
    assert [cache.cached(b"%d" % number) is not None for number in range(5)] == [
        *(False, False),
        *(True, True, True),
    ]


@pytest.mark.parametrize("token", [b"", b"x" * (module.MAX_TOKEN_BYTES + 1)])
async def test_absurd_tokens_are_refused_unread(token: bytes) -> None:
    inner = CountingVerifier()
    with pytest.raises(TokenRefused):
        await CachingVerifier(inner).verify(token)
    assert inner.asked == []


async def test_the_development_token(tmp_path: Path) -> None:
    path = tmp_path / "dev-token"
    token = dev_token(path)
    assert dev_token(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    verifier = DevTokenVerifier(bytes.fromhex(token_hash(token)))
    principal = await verifier.verify(token.encode())
    assert principal.tenant_id == DEV_TENANT_ID
    assert all(principal.may(permission) for permission in GRANTABLE)
    assert not principal.may(Permission.PUBLIC)
    for wrong in (b"", token.encode()[:-1], token_hash(token).encode(), b"\xff\x00"):
        with pytest.raises(TokenRefused):
            await verifier.verify(wrong)


def test_the_server_holds_a_hash_of_the_right_size() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        DevTokenVerifier(hashlib.sha256(b"").digest()[:-1])
