"""Rotation: one key signs at a time, each is published before, and verifies long enough after."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth.errors import VerifierUnavailable
from auth.signing_keys import MARGIN_S, KeyPolicy, NoSigningKey, due, replacement, succession
from edge.sealing import Sealer
from metadata.errors import MetadataUnavailable
from metadata.tenancy.signing_keys import NOBODY, KeyRing, KeyRotation, SigningKey
from metadata.types import Change, ChangeKind
from tests.unit.auth.keyring import Clock, MemoryRing, keys_of

DAY_S = 86_400.0
POLICY = KeyPolicy()


def key(kid: str, clock: Clock) -> SigningKey:
    """As it is when it was made: when it signs is decided later."""
    now = clock.date()
    return SigningKey(kid, "RS256", {}, b"", now, now, now)


def applied(ring: KeyRing, turn: KeyRotation) -> KeyRing:
    keys = {key.kid: key for key in ring.keys if key.kid not in turn.ended}
    for changed in (turn.replaced, turn.added):
        if changed is not None:
            keys[changed.kid] = changed
    return KeyRing(ring.now, tuple(sorted(keys.values(), key=lambda k: k.signs_from)))


def at(ring: KeyRing, clock: Clock) -> KeyRing:
    now = clock.date()
    return KeyRing(now, tuple(key for key in ring.keys if key.verifies_until > now))


def signing(ring: KeyRing) -> list[str]:
    return [key.kid for key in ring.keys if key.signs_from <= ring.now < key.signs_until]


@given(
    st.lists(st.tuples(st.floats(0, 40 * DAY_S), st.sampled_from("rrrrx")), max_size=40),
    st.floats(60.0, 90 * DAY_S),
    st.floats(0.0, 10 * DAY_S),
)
def test_one_key_signs_whenever_anybody_looks(
    steps: list[tuple[float, str]], signs_for_s: float, before_s: float
) -> None:
    """Pauses of any length between looks, and replacements in between."""
    policy = KeyPolicy(signs_for_s=signs_for_s, published_before_s=before_s)
    clock = Clock()
    ring = KeyRing(clock.date(), ())
    for number, (pause_s, step) in enumerate([(0.0, "r"), *steps]):
        clock.now_s += pause_s
        ring = at(ring, clock)
        before = {one.kid: one for one in ring.keys}
        made = key(f"k{number}", clock)
        turn = replacement(ring, made, policy) if step == "x" else succession(ring, made, policy)
        ring = applied(ring, turn)
        assert len(signing(ring)) == 1
        for one, other in zip(ring.keys, ring.keys[1:], strict=False):
            assert one.signs_until <= other.signs_from
        for one in ring.keys:
            rest = one.verifies_until - one.signs_until
            assert rest >= timedelta(seconds=policy.tokens_last_s + MARGIN_S - 0.001)
            # A key that has signed is never forgotten by this.
        kept = {one.kid for one in ring.keys}
        assert {kid for kid, one in before.items() if one.signs_from < ring.now} <= kept


def test_the_next_key_is_published_a_day_before_it_signs() -> None:
    clock = Clock()
    ring = applied(
        KeyRing(clock.date(), ()), succession(KeyRing(clock.date(), ()), key("a", clock), POLICY)
    )
    clock.now_s += 29 * DAY_S - 1
    assert due(at(ring, clock), POLICY) is None
    clock.now_s += 1
    ring = at(ring, clock)
    ring = applied(ring, succession(ring, key("b", clock), POLICY))
    assert [one.kid for one in ring.keys] == ["a", "b"]
    assert signing(ring) == ["a"]
    clock.now_s += DAY_S
    assert signing(at(ring, clock)) == ["b"]
    assert [one.kid for one in at(ring, clock).keys] == ["a", "b"]
    clock.now_s += POLICY.tokens_last_s + MARGIN_S
    assert [one.kid for one in at(ring, clock).keys] == ["b"]


async def test_many_processes_make_one_key() -> None:
    clock = Clock()
    shared = MemoryRing(clock)
    processes = [keys_of(shared) for _ in range(3)]
    for process in processes:
        await process.rotate()
    assert len(shared.keys) == 1
    assert len({process.signer().kid for process in processes}) == 1
    clock.now_s += 29.5 * DAY_S
    for process in processes:
        await process.rotate()
    assert len(shared.keys) == 2
    (current,) = {process.signer().kid for process in processes}
    assert {jwk["kid"] for jwk in processes[0].jwks()} == set(shared.keys)
    clock.now_s += DAY_S
    (following,) = {process.signer().kid for process in processes}
    assert following != current


async def test_what_is_published_has_no_private_part() -> None:
    keys = keys_of(MemoryRing(Clock()))
    await keys.rotate()
    (jwk,) = keys.jwks()
    assert set(jwk) == {"kty", "n", "e", "kid", "alg", "use"}


async def test_what_is_kept_is_sealed_and_opens_with_a_rotated_seal_key() -> None:
    clock = Clock()
    shared = MemoryRing(clock)
    old = keys_of(shared, sealer=Sealer.from_text("a:" + "11" * 32))
    await old.rotate()
    (stored,) = shared.keys.values()
    secret = json.loads(
        Sealer.from_text("a:" + "11" * 32).open(stored.private_sealed, f"signing-key:{stored.kid}")
    )["d"]
    assert secret.encode() not in stored.private_sealed

    both = keys_of(shared, sealer=Sealer.from_text("b:" + "22" * 32 + ",a:" + "11" * 32))
    await both.rotate()
    assert both.signer().kid == old.signer().kid
    only_new = keys_of(shared, sealer=Sealer.from_text("b:" + "22" * 32))
    await only_new.rotate()
    assert only_new.signer().kid == old.signer().kid
    assert len(shared.keys) == 1


async def test_a_process_without_the_seal_key_verifies_and_does_not_sign() -> None:
    shared = MemoryRing(Clock())
    maker = keys_of(shared)
    await maker.rotate()
    for other in (
        keys_of(shared, sealer=None),
        keys_of(shared, sealer=Sealer.from_text("z:" + "00" * 32)),
    ):
        await other.rotate()
        with pytest.raises(NoSigningKey):
            other.signer()
        assert await other.public(maker.signer().kid) is not None
    assert len(shared.keys) == 1


async def test_a_process_is_ready_when_it_can_judge_tokens_and_make_them_where_it_does() -> None:
    shared = MemoryRing(Clock())
    checking, making = keys_of(shared, sealer=None), keys_of(shared)
    assert checking.not_ready_reason() is not None
    await checking.look()
    await making.look()
    assert checking.not_ready_reason() is None
    assert making.not_ready_reason() is not None
    await making.rotate()
    assert making.not_ready_reason() is None


async def test_a_key_that_others_made_is_looked_for() -> None:
    shared = MemoryRing(Clock())
    reader = keys_of(shared, sealer=None)
    with pytest.raises(NoSigningKey):
        reader.signer()
    maker = keys_of(shared)
    await maker.rotate()
    assert await reader.public(maker.signer().kid) is not None
    looks = shared.looks
    for number in range(100):
        assert await reader.public(f"none-{number}") is None
    assert shared.looks - looks <= 1


async def test_known_keys_go_on_while_postgres_is_down() -> None:
    clock = Clock()
    shared = MemoryRing(clock)
    keys = keys_of(shared)
    await keys.rotate()
    shared.down = True
    with pytest.raises(MetadataUnavailable):
        await keys.rotate()
    assert await keys.public(keys.signer().kid) is not None
    assert await keys.public("unknown") is None
    stranger = keys_of(shared)
    with pytest.raises(VerifierUnavailable):
        await stranger.public("any")
    with pytest.raises(VerifierUnavailable):
        stranger.jwks()


async def test_a_key_that_leaked_is_forgotten_everywhere() -> None:
    clock = Clock()
    shared = MemoryRing(clock)
    one, other = keys_of(shared), keys_of(shared)
    await one.rotate()
    await other.rotate()
    leaked = one.signer().kid
    await one.replace(forget=frozenset({leaked}))
    assert one.signer().kid != leaked
    assert await one.public(leaked) is None
    assert await other.public(leaked) is not None
    await other.on_changes([Change(1, ChangeKind.TOKEN, NOBODY, NOBODY, "")])
    assert await other.public(leaked) is None
    assert other.signer().kid == one.signer().kid


async def test_a_key_is_replaced_at_once_and_what_it_signed_holds() -> None:
    clock = Clock()
    keys = keys_of(MemoryRing(clock))
    await keys.rotate()
    before = keys.signer().kid
    clock.now_s += 60
    await keys.replace()
    assert keys.signer().kid != before
    assert await keys.public(before) is not None
    clock.now_s += POLICY.tokens_last_s + MARGIN_S
    assert await keys.public(before) is None
