"""Signatures of Standard Webhooks: proof that a holder of the secret sent these bytes just now.

`v1` is HMAC-SHA256 under a secret that both sides know (`whsec_…`); `v1a` is ed25519, of which a
receiver has the public half (`whpk_…`). The signature covers `id.timestamp.body`: the body and
these two headers, and no other header. While secrets change, a request bears several signatures and
a receiver may have several secrets: one pair that holds is enough.

Two rules must hold: the duration of a comparison reveals nothing of a secret, and every pair is
compared whichever of them holds.
"""

from __future__ import annotations

import hmac
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Sequence
from typing import Protocol

from packetboat.extras import install
from packetboat.webhooks.errors import BadSignature, BadTimestamp
from packetboat.webhooks.headers import Headers

ID = "webhook-id"
TIMESTAMP = "webhook-timestamp"
SIGNATURE = "webhook-signature"
TOLERANCE_S = 300.0
MAX_SIGNATURES = 32
"""The limit of signatures of one request; further ones are ignored."""
_DIGITS = 15
_PUBLIC_KEY_BYTES = 32


class Secret(Protocol):
    """Judges the signatures of one version."""

    @property
    def version(self) -> str: ...
    def holds(self, signed: bytes, signature: bytes) -> bool: ...


class SharedSecret:
    """`v1`."""

    version = "v1"

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def holds(self, signed: bytes, signature: bytes) -> bool:
        return hmac.compare_digest(hmac.digest(self._secret, signed, "sha256"), signature)


class PublicKey:
    """`v1a`. Needs `cryptography`: the extra `webhooks`."""

    version = "v1a"

    def __init__(self, public: bytes) -> None:
        try:
            from cryptography.exceptions import InvalidSignature
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError as error:
            text = f"whpk_ keys need cryptography: {install('webhooks')}"
            raise ImportError(text) from error
        self._invalid = InvalidSignature
        self._key = Ed25519PublicKey.from_public_bytes(public)

    def holds(self, signed: bytes, signature: bytes) -> bool:
        try:
            self._key.verify(signature, signed)
        except self._invalid:
            return False
        return True


def secrets_of(texts: str | Iterable[str]) -> tuple[Secret, ...]:
    """Return one secret or several, from the texts that the creation of a subscription shows.

    Raises ValueError.
    """
    return tuple(_secret(text) for text in ([texts] if isinstance(texts, str) else texts))


def check_timestamp(headers: Headers, now_s: float, tolerance_s: float) -> None:
    """Raises MissingHeader or BadTimestamp. `now_s` is seconds since 1970."""
    text = headers.one(TIMESTAMP)
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise BadTimestamp(TIMESTAMP, "it is no whole number of seconds since 1970")
    age_s = now_s - int(text)
    if abs(age_s) <= tolerance_s:
        return
    if age_s > 0:
        detail = f"it is {age_s:.0f} s old, and {tolerance_s:.0f} are allowed: is it sent again by"
        raise BadTimestamp(TIMESTAMP, f"{detail} somebody else, or is the clock here fast?")
    detail = f"it is {-age_s:.0f} s ahead, and {tolerance_s:.0f} are allowed"
    raise BadTimestamp(TIMESTAMP, f"{detail}: is the clock here slow?")


def check_signature(headers: Headers, body: bytes, secrets: Sequence[Secret]) -> None:
    """Raises MissingHeader or BadSignature."""
    given = _signatures(headers.one(SIGNATURE))
    head = f"{headers.one(ID)}.{headers.one(TIMESTAMP)}."
    signed = head.encode("utf-8", "surrogateescape") + body
    found = [
        secret.holds(signed, signature)
        for secret in secrets
        for version, signature in given
        if version == secret.version
    ]
    if any(found):
        return
    if not found:
        theirs = ", ".join(sorted({version for version, _ in given})) or "none that can be read"
        ours = ", ".join(sorted({secret.version for secret in secrets}))
        detail = f"signatures are {theirs}, secrets here are for {ours}"
        raise BadSignature(SIGNATURE, f"{detail}: see the subscription's push.signing")
    detail = "none is of these bytes under a secret known here: are these the secrets of this"
    raise BadSignature(SIGNATURE, f"{detail} subscription, and is the body as it came, unparsed?")


def _signatures(text: str) -> list[tuple[str, bytes]]:
    found = []
    for part in text.split()[:MAX_SIGNATURES]:
        version, _, encoded = part.partition(",")
        try:
            signature = b64decode(encoded, validate=True)
        except ValueError:  # of a version that has other letters
            continue
        if signature:
            found.append((version, signature))
    return found


def _secret(text: str) -> Secret:
    kind, _, encoded = text.strip().partition("_")
    try:
        plain = b64decode(encoded, validate=True)
    except (NotBase64, ValueError):
        plain = b""
    if kind == "whsec" and plain:
        return SharedSecret(plain)
    if kind == "whpk" and len(plain) == _PUBLIC_KEY_BYTES:
        return PublicKey(plain)
    raise ValueError("a secret is whsec_… or whpk_…, as it was shown when it was made")
