"""Sealing of secrets that must be readable again (private signing keys, secrets of webhooks).

They are sealed before they are stored. A sealed text says which key opens it, and is bound to its
purpose: a sealed secret of a webhook does not open as anything else, so a row that is copied to
another place is of no use there.

    ┌─────────┬──────────┬──────────┬───────────┬─────────────────────────────┐
    │ version │ id bytes │ key id   │ nonce     │ AES-256-GCM of the text     │
    │ 1       │ 1        │ ASCII    │ 12 random │ and its tag of 16 bytes     │
    └─────────┴──────────┴──────────┴───────────┴─────────────────────────────┘

The bytes in front of the nonce are authenticated together with the purpose. To change the key, put
a new one in front of the old: the first seals, all of them open.
"""

from __future__ import annotations

import os
import re

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
MAX_SEALED_BYTES = 1024 * 1024
_VERSION = 1
_NONCE_BYTES = 12
_TAG_BYTES = 16
_KEY_ID = re.compile(r"[A-Za-z0-9._-]{1,32}")


class SealBroken(Exception):
    """A text that was not sealed by any of our keys, was sealed for another purpose, or was
    altered.

    The error's text never holds secrets.
    """


class Sealer:
    """A set of keys: the first seals, all open; safe to share between tasks and threads."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        """Make a sealer of keys in order, 32 bytes by id.

        Raises ValueError, which never quotes a key.
        """
        if not keys:
            raise ValueError("at least one key is needed to seal with")
        for key_id, key in keys.items():
            if _KEY_ID.fullmatch(key_id) is None:
                raise ValueError("the id of a seal key is 1 to 32 of A-Z a-z 0-9 . _ -")
            if len(key) != KEY_BYTES:
                raise ValueError(f"the seal key {key_id!r} has {len(key)} bytes; it needs 32")
        self._ciphers = {key_id.encode(): AESGCM(key) for key_id, key in keys.items()}
        self._first = next(iter(self._ciphers))

    @classmethod
    def from_text(cls, text: str) -> Sealer:
        """Parse `id:hex[,id:hex…]`, 32 bytes in hex each.

        Raises ValueError, which quotes no key.
        """
        keys: dict[str, bytes] = {}
        for part in text.split(","):
            key_id, colon, digits = part.strip().partition(":")
            if not colon:
                raise ValueError("seal keys are written id:hex[,id:hex…]")
            if key_id in keys:
                raise ValueError(f"the seal key {key_id!r} is there twice")
            try:
                keys[key_id] = bytes.fromhex(digits)
            except ValueError:
                raise ValueError(f"the seal key {key_id!r} is not hexadecimal") from None
        return cls(keys)

    def seal(self, plain: bytes, purpose: str) -> bytes:
        """Seal a text, never twice to the same bytes; opening it needs the same `purpose`."""
        head = bytes((_VERSION, len(self._first))) + self._first
        nonce = os.urandom(_NONCE_BYTES)
        return (
            head + nonce + self._ciphers[self._first].encrypt(nonce, plain, _bound(head, purpose))
        )

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Return the text of a sealed text. Raises SealBroken."""
        if not 2 <= len(sealed) <= MAX_SEALED_BYTES or sealed[0] != _VERSION:
            raise SealBroken("this is no sealed text")
        end = 2 + sealed[1]
        head, nonce, text = (
            sealed[:end],
            sealed[end : end + _NONCE_BYTES],
            sealed[end + _NONCE_BYTES :],
        )
        cipher = self._ciphers.get(head[2:])
        if cipher is None:
            raise SealBroken("it was sealed with a key that is not among PACKETBOAT_SEAL_KEYS")
        if len(text) < _TAG_BYTES:
            raise SealBroken("the sealed text is cut off")
        try:
            return cipher.decrypt(nonce, text, _bound(head, purpose))
        except InvalidTag:
            raise SealBroken("it was altered, or sealed for another purpose") from None

    def is_current(self, sealed: bytes) -> bool:
        """Return whether the current key sealed a text; if not, it may be sealed again."""
        return sealed[:1] == bytes((_VERSION,)) and sealed[2 : 2 + sealed[1]] == self._first


def _bound(head: bytes, purpose: str) -> bytes:
    return head + purpose.encode()
