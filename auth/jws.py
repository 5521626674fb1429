"""Reading a compact JWS before anything of it is believed (RFC 7515, RFC 8725).

Stricter than parsers in general: sizes are bounded, base64url must be canonical, the header and the
claims must be JSON objects that name nothing twice. All of it takes time linear in the length.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, NamedTuple, NoReturn

from auth.errors import TokenRefused

MAX_TOKEN_BYTES = 8 * 1024
MAX_HEADER_BYTES = 1024
MAX_KID_CHARACTERS = 128
_ALPHABET = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class Unverified(NamedTuple):
    """What a token says; nobody has looked at its signature yet."""

    header: dict[str, Any]
    claims: dict[str, Any]


def looks_like_one(token: bytes) -> bool:
    """Whether it has three parts of base64url, of which the first begins as a JSON object does."""
    return token.startswith(b"ey") and token.count(b".") == 2


def read(token: bytes) -> Unverified:
    """Raises TokenRefused. Refuses `crit` and `b64` as well: we know no extension (§4.1.11)."""
    if len(token) > MAX_TOKEN_BYTES:
        raise TokenRefused
    parts = token.split(b".")
    if len(parts) != 3 or not all(parts) or len(parts[0]) > MAX_HEADER_BYTES:
        raise TokenRefused
    header, claims, _ = (_decoded(part) for part in parts)
    read_header = _object(header)
    if "crit" in read_header or "b64" in read_header:
        raise TokenRefused
    return Unverified(read_header, _object(claims))


def kid_of(header: dict[str, Any]) -> str:
    """The name of a key, good for nothing but a look-up among those we have. TokenRefused."""
    kid = header.get("kid")
    if not isinstance(kid, str) or not 0 < len(kid) <= MAX_KID_CHARACTERS:
        raise TokenRefused
    return kid


def _decoded(part: bytes) -> bytes:
    if not _ALPHABET.issuperset(part):
        raise TokenRefused
    try:
        decoded = base64.urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    except binascii.Error:
        raise TokenRefused from None
    # Bits left over may have any value for the decoder; one text has one form here.
    if base64.urlsafe_b64encode(decoded).rstrip(b"=") != part:
        raise TokenRefused
    return decoded


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(
            text.decode("utf-8"), object_pairs_hook=_named_once, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        raise TokenRefused from None
    if not isinstance(value, dict):
        raise TokenRefused
    return value


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is there twice")
    return value


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")
