"""The members of a request that the audit keeps, without secrets and of bounded size.

A member is left out by its name, by how its value begins, or because it is payload. The others can
be stored whatever they are: no NUL, no half of a surrogate pair, no number that JSON lacks.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from edge.bodies import has_few_values

REDACTED = "(redacted)"
LEFT_OUT = "(left out)"
MAX_CHARS = 256
MAX_ITEMS = 50
MAX_DEPTH = 6
MAX_BYTES = 8 * 1024
MAX_INTEGER = 2**63
SECRET_NAMES = re.compile(
    r"secret|passw|passphrase|token|authorization|credential|private|signing|cookie|api_?key|jwt"
    r"|assertion",
    re.IGNORECASE,
)
SECRET_VALUES = re.compile(
    r"pb(s|k|dev)_|whs[ek]c?_|bearer\s|basic\s|eyj[a-z0-9_-]+\.|-----begin", re.IGNORECASE
)
"""Beginnings of credentials of ours, of keys of webhooks, and of Authorization headers."""
UNMARKED = ("headers",)
"""Members of which every value is a secret, and the names are not."""
PAYLOAD = ("data", "data_base64", "definition", "inputs", "output")
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY_OF_URL = re.compile(r"(?<=://)([^\s?#]*)[?#]\S*")


def members_of(body: bytes) -> dict[str, Any]:
    """Return the members of a JSON object; none of anything else, or of a body that its reader
    refuses because it has too many values."""
    if not has_few_values(body):
        return {}
    try:
        value = msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    kept: dict[str, Any] = redacted(value)
    if len(msgspec.json.encode(kept)) <= MAX_BYTES:
        return kept
    return dict.fromkeys(list(kept)[:MAX_ITEMS], LEFT_OUT)


def redacted(value: Any, depth: int = 0) -> Any:
    """Return the value as it is kept."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, dict):
        return _members(value, depth)
    if isinstance(value, list):
        if depth >= MAX_DEPTH:
            return LEFT_OUT
        kept = [redacted(item, depth + 1) for item in value[:MAX_ITEMS]]
        return [*kept, LEFT_OUT] if len(value) > MAX_ITEMS else kept
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= MAX_INTEGER:
        return LEFT_OUT
    return value


def _members(members: dict[str, Any], depth: int) -> Any:
    if depth >= MAX_DEPTH:
        return LEFT_OUT
    kept: dict[str, Any] = {}
    for name, value in list(members.items())[:MAX_ITEMS]:
        shown = storable(name)[:MAX_CHARS]
        if name in UNMARKED and isinstance(value, dict):
            kept[shown] = dict.fromkeys((storable(each)[:MAX_CHARS] for each in value), REDACTED)
        elif SECRET_NAMES.search(name) and not isinstance(value, bool | int | float | None):
            kept[shown] = REDACTED
        elif name in PAYLOAD:
            kept[shown] = LEFT_OUT
        else:
            kept[shown] = redacted(value, depth + 1)
    return kept


def _text(text: str) -> str:
    if SECRET_VALUES.search(text):
        return REDACTED
    text = _QUERY_OF_URL.sub(r"\1?" + REDACTED, _USER_OF_URL.sub("", storable(text)))
    return text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + "…"


def storable(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()
