"""Signing keys without Postgres: the ring is in memory and the clock is set by the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from joserfc.jwk import Key

from auth.signing_keys import KeyPolicy, SigningKeys
from edge.sealing import Sealer
from metadata.errors import MetadataUnavailable
from metadata.tenancy.signing_keys import KeyRing, KeyRotation, SigningKey, SigningKeyRepository

SEALER = Sealer.from_text("a:" + "5a" * 32)


class Clock:
    """Seconds of the epoch."""

    def __init__(self, now_s: float = 1_760_000_000.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s

    def date(self) -> datetime:
        return datetime.fromtimestamp(self.now_s, UTC)


class MemoryRing:
    """A `SigningKeyRepository` in memory, with the ring that all processes share."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.keys: dict[str, SigningKey] = {}
        self.down = False
        self.looks = 0

    async def ring(self) -> KeyRing:
        self.looks += 1
        if self.down:
            raise MetadataUnavailable("down")
        now = self.clock.date()
        live = [key for key in self.keys.values() if key.verifies_until > now]
        return KeyRing(now, tuple(sorted(live, key=lambda key: key.signs_from)))

    async def turn(self, plan: Callable[[KeyRing], KeyRotation]) -> KeyRing:
        turn = plan(await self.ring())
        for kid in turn.ended:
            self.keys.pop(kid, None)
        for changed in (turn.replaced, turn.added):
            if changed is not None:
                self.keys[changed.kid] = changed
        for kid, sealed in turn.sealed.items():
            self.keys[kid] = replace(self.keys[kid], private_sealed=sealed)
        return await self.ring()


def keys_of(
    ring: MemoryRing, policy: KeyPolicy | None = None, sealer: Sealer | None = SEALER
) -> SigningKeys:
    """Return the keys of one process."""
    repository = cast(SigningKeyRepository, cast(Any, ring))
    return SigningKeys(repository, policy or KeyPolicy(), sealer, clock=ring.clock)


_MADE: dict[KeyPolicy, tuple[SigningKey, Key]] = {}


async def made_keys(clock: Clock, policy: KeyPolicy | None = None) -> SigningKeys:
    """With a first key, which all that ask with one policy share, opened: making one takes its
    time, and so does the check of a private key that is read."""
    ring = MemoryRing(clock)
    keys = keys_of(ring, policy)
    if keys.policy in _MADE:
        made, opened = _MADE[keys.policy]
        ring.keys[made.kid] = made
        await keys.rotate()
        keys._private[made.kid] = opened
    else:
        await keys.rotate()
        (made,) = ring.keys.values()
        _MADE[keys.policy] = made, keys.signer().key
    return keys
