"""The keys that this process signs and verifies with, and their rotation.

    published ──► signs ──► verifies ──► gone
     `published_before_s`   `signs_for_s`  until its last token is over

`due` decides the whole rotation, and is pure: it depends only on the present ring. Any process may
rotate at any time; `metadata.tenancy.signing_keys` lets one at a time do so, on the ring as it is
then. So each process rotates when a key is due. If several do, the key of the first stays.

A token names its key by `kid`, which is looked up only among the keys that we made. One that is not
known here is looked up in Postgres at most once a second, whatever is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog
from joserfc.jwk import ECKey, JWKRegistry, Key, RSAKey

from auth.errors import VerifierUnavailable
from edge.sealing import SealBroken, Sealer
from metadata.errors import MetadataError
from metadata.tenancy.signing_keys import (
    NOBODY,
    KeyRing,
    KeyRotation,
    SigningKey,
    SigningKeyRepository,
)
from metadata.types import Change, ChangeKind

RSA_BITS = 2048
LOOK_EVERY_S = 30.0
RETRY_S = 1.0
LOOK_FOR_ONE_S = 1.0
"""Shortest time between two look-ups in Postgres of unknown keys that tokens name."""
MARGIN_S = 600.0
"""Seconds for which a key verifies longer, since clocks differ and tokens are signed until its
end.
"""
_log = structlog.get_logger("packetboat.identity")


class NoSigningKey(VerifierUnavailable):
    """No key can sign now: none was made yet, or ours cannot be opened."""


@dataclass(frozen=True, slots=True)
class KeyPolicy:
    """The algorithm and the times of keys; `tokens_last_s` is the longest life of a token they
    sign.
    """

    algorithm: str = "RS256"
    signs_for_s: float = 30 * 86_400.0
    published_before_s: float = 86_400.0
    tokens_last_s: float = 3_600.0

    def window(self, signs_from: datetime) -> tuple[datetime, datetime, datetime]:
        """Return signs_from, signs_until and verifies_until of a key that signs from a certain time
        on.
        """
        until = signs_from + timedelta(seconds=self.signs_for_s)
        return signs_from, until, until + timedelta(seconds=self.tokens_last_s + MARGIN_S)


class PublicKey(NamedTuple):
    """A key that verifies with its algorithm and with no other."""

    kid: str
    algorithm: str
    key: Key


class Signer(NamedTuple):
    """A key that signs now."""

    kid: str
    algorithm: str
    key: Key


def due(ring: KeyRing, policy: KeyPolicy) -> datetime | None:
    """Return the time from which a new key would sign; None while no new key is needed."""
    last = max((key.signs_until for key in ring.keys), default=ring.now)
    if last <= ring.now:
        return ring.now
    early = timedelta(seconds=min(policy.published_before_s, policy.signs_for_s / 2))
    return last if last - ring.now <= early else None


def succession(ring: KeyRing, candidate: SigningKey, policy: KeyPolicy) -> KeyRotation:
    """Return the change that adds the candidate after all others, empty if no key is due."""
    signs_from = due(ring, policy)
    if signs_from is None:
        return KeyRotation()
    return KeyRotation(added=_within(candidate, policy.window(signs_from)))


def replacement(
    ring: KeyRing, candidate: SigningKey, policy: KeyPolicy, *, forget: frozenset[str] = frozenset()
) -> KeyRotation:
    """Return the change by which the candidate signs from now on.

    The current key still verifies the tokens that it signed. The keys to `forget`, and one that has
    not signed yet, go at once with every token that they signed.
    """
    current = next((k for k in ring.keys if k.signs_from <= ring.now < k.signs_until), None)
    ended = {key.kid for key in ring.keys if key.signs_from > ring.now} | forget
    shorter = None
    if current is not None and current.kid not in ended:
        verifies_until = ring.now + (current.verifies_until - current.signs_until)
        shorter = replace(current, signs_until=ring.now, verifies_until=verifies_until)
    added = _within(candidate, policy.window(ring.now))
    return KeyRotation(added=added, replaced=shorter, ended=frozenset(ended))


def _within(key: SigningKey, window: tuple[datetime, datetime, datetime]) -> SigningKey:
    return replace(key, signs_from=window[0], signs_until=window[1], verifies_until=window[2])


def make_key(policy: KeyPolicy, sealer: Sealer, now: datetime) -> SigningKey:
    """Make a new key.

    It takes up to a second of processor time, so never call it on the event loop.
    """
    key: Key
    if policy.algorithm == "RS256":
        key = RSAKey.generate_key(RSA_BITS, private=True, auto_kid=True)
    elif policy.algorithm == "ES256":
        key = ECKey.generate_key("P-256", private=True, auto_kid=True)
    else:
        raise ValueError(f"{policy.algorithm!r} is not an algorithm we sign with")
    assert key.kid is not None
    private = json.dumps(key.as_dict(private=True)).encode()
    return SigningKey(
        kid=key.kid,
        algorithm=policy.algorithm,
        public_jwk={name: str(value) for name, value in key.as_dict(private=False).items()},
        private_sealed=sealer.seal(private, _purpose(key.kid)),
        signs_from=now,
        signs_until=now,
        verifies_until=now,
    )


def _purpose(kid: str) -> str:
    return f"signing-key:{kid}"


class SigningKeys:
    """The ring of keys as this process knows it. Without a sealer it only verifies."""

    def __init__(
        self,
        repository: SigningKeyRepository,
        policy: KeyPolicy,
        sealer: Sealer | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make an empty ring; `clock` returns seconds of the epoch."""
        self._repository = repository
        self._policy = policy
        self._sealer = sealer
        self._clock = clock
        self._ring: KeyRing | None = None
        self._public: dict[str, PublicKey] = {}
        self._private: dict[str, Key] = {}
        self._looked_at_s = float("-inf")
        self._looking = asyncio.Lock()

    @property
    def policy(self) -> KeyPolicy:
        return self._policy

    def not_ready_reason(self) -> str | None:
        """Return why tokens cannot be checked yet, or made if they are made here; None once they
        can.
        """
        if self._ring is None:
            return "the signing keys are not known yet"
        if self._sealer is not None and not self._ring.keys:
            return "there is no signing key yet"
        return None

    def signer(self) -> Signer:
        """Return the key that signs now. Raises NoSigningKey."""
        now_s = self._clock()
        for stored in self._ring.keys if self._ring is not None else ():
            if stored.signs_from.timestamp() <= now_s < stored.signs_until.timestamp():
                return Signer(stored.kid, stored.algorithm, self._opened(stored))
        raise NoSigningKey("no signing key is current")

    async def public(self, kid: str) -> PublicKey | None:
        """Return the key of a name while it verifies, or None.

        Raises VerifierUnavailable if the keys were never read.
        """
        if (known := self._known(kid)) is not None:
            return known
        async with self._looking:
            if (known := self._known(kid)) is not None:
                return known
            if time.monotonic() - self._looked_at_s >= LOOK_FOR_ONE_S:
                try:
                    await self.look()
                except MetadataError as error:
                    if self._ring is None:
                        raise VerifierUnavailable("the signing keys are not known yet") from error
        if self._ring is None:
            raise VerifierUnavailable("the signing keys are not known yet")
        return self._known(kid)

    def jwks(self) -> list[dict[str, str]]:
        """Return the public JWKs of all keys that verify, and of the next one.

        Raises VerifierUnavailable before the keys were read.
        """
        if self._ring is None:
            raise VerifierUnavailable("the signing keys are not known yet")
        now_s = self._clock()
        return [
            {**key.public_jwk, "alg": key.algorithm, "use": "sig"}
            for key in self._ring.keys
            if key.verifies_until.timestamp() > now_s
        ]

    async def look(self) -> None:
        """Read the keys from Postgres. Raises MetadataError."""
        self._looked_at_s = time.monotonic()
        self._learn(await self._repository.ring())

    async def on_changes(self, changes: Sequence[Change]) -> None:
        """Read the keys again if others made or ended some; a listener of the change feed."""
        kinds = {(change.kind, change.uid == NOBODY) for change in changes}
        if (ChangeKind.TOKEN, True) in kinds or any(k is ChangeKind.RESET for k, _ in kinds):
            await self.look()

    async def rotate(self) -> None:
        """Read the keys, make a key if one is due, and seal again what an older seal key sealed.

        Raises MetadataError.
        """
        await self.look()
        assert self._ring is not None
        if self._sealer is None:
            return
        if due(self._ring, self._policy) is not None:
            candidate = await asyncio.to_thread(
                make_key, self._policy, self._sealer, self._ring.now
            )
            policy = self._policy
            self._learn(await self._repository.turn(lambda r: succession(r, candidate, policy)))
            _log.info("signing keys", kids=[key.kid for key in self._ring.keys])
        if self._sealed_anew(self._ring):
            self._learn(
                await self._repository.turn(lambda r: KeyRotation(sealed=self._sealed_anew(r)))
            )

    async def replace(self, *, forget: frozenset[str] = frozenset()) -> None:
        """Make a new key that signs at once; the keys to `forget` verify nothing any more.

        Raises MetadataError.
        """
        assert self._sealer is not None
        ring = await self._repository.ring()
        candidate = await asyncio.to_thread(make_key, self._policy, self._sealer, ring.now)
        policy = self._policy
        self._learn(
            await self._repository.turn(lambda r: replacement(r, candidate, policy, forget=forget))
        )

    async def run(self) -> None:
        """Rotate until cancelled, often enough to publish a key well before it signs."""
        every_s = min(LOOK_EVERY_S, self._policy.signs_for_s / 8)
        while True:
            pause_s = every_s
            try:
                await self.rotate()
            except MetadataError as error:
                _log.debug("the signing keys can't be read", error=str(error))
                pause_s = RETRY_S
            except Exception:
                _log.exception("the rotation of signing keys failed")
            await asyncio.sleep(pause_s)

    def _learn(self, ring: KeyRing) -> None:
        self._ring = ring
        self._public = {
            key.kid: self._public.get(key.kid)
            or PublicKey(key.kid, key.algorithm, _imported(key.public_jwk))
            for key in ring.keys
        }
        self._private = {kid: key for kid, key in self._private.items() if kid in self._public}

    def _known(self, kid: str) -> PublicKey | None:
        if self._ring is None or kid not in self._public:
            return None
        stored = next(key for key in self._ring.keys if key.kid == kid)
        return self._public[kid] if stored.verifies_until.timestamp() > self._clock() else None

    def _opened(self, stored: SigningKey) -> Key:
        key = self._private.get(stored.kid)
        if key is None:
            if self._sealer is None:
                raise NoSigningKey("this process has no seal keys")
            try:
                private = self._sealer.open(stored.private_sealed, _purpose(stored.kid))
            except SealBroken as error:
                _log.error("a signing key can't be opened", kid=stored.kid, reason=str(error))
                raise NoSigningKey("the signing key can't be opened") from error
            key = self._private[stored.kid] = _imported(json.loads(private))
        return key

    def _sealed_anew(self, ring: KeyRing) -> dict[str, bytes]:
        """Return the newly sealed private keys of all keys that an older seal key sealed."""
        sealed = {}
        for key in ring.keys:
            if self._sealer is not None and not self._sealer.is_current(key.private_sealed):
                with contextlib.suppress(SealBroken):
                    private = self._sealer.open(key.private_sealed, _purpose(key.kid))
                    sealed[key.kid] = self._sealer.seal(private, _purpose(key.kid))
        return sealed


def _imported(jwk: Mapping[str, Any]) -> Key:
    return JWKRegistry.import_key(dict(jwk))
