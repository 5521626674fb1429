"""Secrets of our own making: 256 random bits, shown once and kept as their SHA-256.

A hash that is quick to compute is enough for what nobody chose: there is nothing to guess from.

    client id      pbc_ and 22 characters     public, names a client in all tenants
    client secret  pbs_ and 43 characters
    API key        pbk_ key id (12), _ and 43 characters; the key id is public
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

from metadata.errors import NotFound, TooManySecrets

CLIENT_ID = "pbc_"
CLIENT_SECRET = "pbs_"
API_KEY = "pbk_"
PREFIX_CHARS = 8
KEY_ID_CHARS = 12
MAX_LIVE = 2
_SECRET_BYTES = 32
_KEY_ID = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Secret:
    """The stored part of a secret: its hash (32 bytes), and its beginning, by which people
    name it.
    """

    hash: bytes
    prefix: str
    created_at: datetime
    expires_at: datetime | None = None

    def live(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class Minted(NamedTuple):
    """A secret as its owner gets it, once, and as it is kept."""

    text: str
    secret: Secret


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def matches(kept: Iterable[Secret], text: str, now: datetime) -> bool:
    """Return whether `text` is a live secret; this takes as long whichever it is."""
    offered = hash_of(text)
    found = False
    for secret in kept:
        found |= hmac.compare_digest(secret.hash, offered) and secret.live(now)
    return found


def new_client_id() -> str:
    return CLIENT_ID + secrets.token_urlsafe(16)


def new_client_secret(now: datetime) -> Minted:
    return _minted(CLIENT_SECRET, now)


def new_key_id() -> str:
    """Return a new key id without `_`, which ends it in a key."""
    return "".join(secrets.choice(_KEY_ID) for _ in range(KEY_ID_CHARS))


def new_api_key(key_id: str, now: datetime) -> Minted:
    return _minted(f"{API_KEY}{key_id}_", now)


def _minted(head: str, now: datetime) -> Minted:
    body = secrets.token_urlsafe(_SECRET_BYTES)
    text = head + body
    return Minted(text, Secret(hash_of(text), body[:PREFIX_CHARS], now))


def rotated(kept: Iterable[Secret], secret: Secret, old_until: datetime) -> list[Secret]:
    """Return the secrets with a new one; the present one holds until `old_until` at the latest.

    Expired ones go. Raises TooManySecrets when two hold.
    """
    live = [old for old in kept if old.live(secret.created_at)]
    if len(live) >= MAX_LIVE:
        raise TooManySecrets(MAX_LIVE)
    return [secret, *(_until(old, old_until) for old in live if secret.created_at < old_until)]


def without(kept: Iterable[Secret], prefix: str) -> list[Secret]:
    """Return the secrets without the one with that prefix. Raises NotFound."""
    kept = list(kept)
    left = [secret for secret in kept if secret.prefix != prefix]
    if len(left) == len(kept):
        raise NotFound("secret", prefix)
    return left


def _until(secret: Secret, end: datetime) -> Secret:
    before = secret.expires_at
    return replace(secret, expires_at=end if before is None else min(before, end))


def to_json(kept: Iterable[Secret]) -> list[dict[str, Any]]:
    """Return the secrets as the tables have them."""
    return [
        {
            "hash": secret.hash.hex(),
            "prefix": secret.prefix,
            "created_at": secret.created_at.isoformat(),
            "expires_at": None if secret.expires_at is None else secret.expires_at.isoformat(),
        }
        for secret in kept
    ]


def from_json(rows: Iterable[Mapping[str, Any]]) -> tuple[Secret, ...]:
    return tuple(
        Secret(
            bytes.fromhex(row["hash"]),
            row["prefix"],
            datetime.fromisoformat(row["created_at"]),
            None if row["expires_at"] is None else datetime.fromisoformat(row["expires_at"]),
        )
        for row in rows
    )
