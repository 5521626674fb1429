"""The development tenant and its one bearer token.

The token is made at the first start and kept, readable by its owner only, in the data directory.
The server is given its SHA-256 and nothing else; comparison takes the same time for every input.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from auth.errors import TokenRefused
from auth.principal import Principal, everything

DEV_TENANT_ID = bytes.fromhex("00000000000070008000000000000001")
DEV_TENANT_NAME = "dev"
TOKEN_PREFIX = "pbdev_"


class DevTokenVerifier:
    """Accepts one token, known by its SHA-256, as the development tenant with every permission."""

    def __init__(self, token_sha256: bytes) -> None:
        if len(token_sha256) != hashlib.sha256().digest_size:
            raise ValueError("the hash of the development token is 32 bytes")
        self._sha256 = token_sha256
        self._principal = Principal(DEV_TENANT_ID, DEV_TENANT_NAME, everything())

    async def verify(self, token: bytes) -> Principal:
        if not hmac.compare_digest(hashlib.sha256(token).digest(), self._sha256):
            raise TokenRefused
        return self._principal


def dev_token(path: Path) -> str:
    """Return the token kept at `path`; make it (mode 0600) if it does not exist yet."""
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, token.encode("ascii") + b"\n")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    return token


def token_hash(token: str) -> str:
    """Return the hash in hex with which the server is configured."""
    return hashlib.sha256(token.encode("ascii")).hexdigest()
