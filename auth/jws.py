"""Reading of a compact JWS before anything in it is trusted (RFC 7515, RFC 8725).

It is stricter than parsers in general: sizes are bounded, base64url must be canonical, the header
and the claims must be JSON objects that name nothing twice. All of it takes time linear in the
length.
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
    """The content of a token whose signature was not checked."""

    header: dict[str, Any]
    claims: dict[str, Any]


def looks_like_one(token: bytes) -> bool:
    """Return whether a token has three parts, of which the first begins as a JSON object in
    base64url does.
    """
    return token.startswith(b"ey") and token.count(b".") == 2


def read(token: bytes) -> Unverified:
    """Read a token.

    Raises TokenRefused, also for `crit` and `b64`: no extension is known (§4.1.11).
    """
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
    """Return the name of the key, which may only be used for a look-up among our keys.

    Raises TokenRefused.
    """
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
    # The decoder accepts any value of left-over bits; here a text has only one form.
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
