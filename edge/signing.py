"""Signs requests by Standard Webhooks: `id.timestamp.body`, of the exact bytes that are sent.

The specification is spec/standard-webhooks.md of github.com/standard-webhooks/standard-webhooks.

`v1` is HMAC-SHA256 under a secret that both sides know (`whsec_…`), `v1a` ed25519, of which the
receiver knows the public half (`whpk_…`). While keys are changed, requests bear the signatures of
both the old and the new; a receiver is content with one that holds.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64encode
from binascii import b2a_base64
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from openapi.webhooks import SigningKind

SECRET_BYTES = 32
"""The specification asks for 24 to 64."""
_AT_ONCE_BYTES = 16_384
"""Up to here, one call over joined bytes is cheaper than three updates."""


class Key(NamedTuple):
    """A key laid open."""

    kind: SigningKind
    plain: bytes
    expires_s: float
    """Seconds since 1970; `inf` where it does not."""


def new_key() -> bytes:
    """Make a secret of v1, or the seed of v1a."""
    return secrets.token_bytes(SECRET_BYTES)


def secret_text(plain: bytes) -> str:
    """Return the secret of a v1 key as a receiver is told it."""
    return f"whsec_{b64encode(plain).decode()}"


def public_text(plain: bytes) -> str:
    """Return the public half of a v1a key as a receiver is told it."""
    public = Ed25519PrivateKey.from_private_bytes(plain).public_key()
    return f"whpk_{b64encode(public.public_bytes_raw()).decode()}"


class _Signs(Protocol):
    def __call__(self, head: bytes, body: bytes) -> bytes:
        """Return one signature with its version in front."""


class Signer:
    """Signs requests with the keys of one subscription; an expired key signs nothing."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = [(key.expires_s, _signs(key)) for key in keys]

    def header(self, webhook_id: str, now_s: float, body: bytes) -> str:
        """Return the value of `webhook-signature`, at the second that `now_s` is in.

        It is empty where nothing signs. `webhook_id` has no dots: one would let two requests share
        what is signed.
        """
        assert "." not in webhook_id
        head = b"%b.%d." % (webhook_id.encode("ascii"), int(now_s))
        return b" ".join([sign(head, body) for until, sign in self._keys if now_s < until]).decode()


def _signs(key: Key) -> _Signs:
    return _v1(key.plain) if key.kind == "v1" else _v1a(key.plain)


def _v1(secret: bytes) -> _Signs:
    begun = hmac.new(secret, digestmod=hashlib.sha256)

    def sign(head: bytes, body: bytes) -> bytes:
        """Return the HMAC-SHA256 signature of a head and a body, with its version."""
        if len(body) <= _AT_ONCE_BYTES:
            digest = hmac.digest(secret, head + body, "sha256")
        else:
            running = begun.copy()
            running.update(head)
            running.update(body)
            digest = running.digest()
        return b"v1," + b2a_base64(digest, newline=False)

    return sign


def _v1a(seed: bytes) -> _Signs:
    private = Ed25519PrivateKey.from_private_bytes(seed)

    def sign(head: bytes, body: bytes) -> bytes:
        return b"v1a," + b2a_base64(private.sign(head + body), newline=False)

    return sign
