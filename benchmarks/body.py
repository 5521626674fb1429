"""The 1 KB message, incompressible as far as text can be."""

from __future__ import annotations

import secrets
import string
import time

BODY_BYTES = 1024
STAMP_CHARACTERS = 20
_LETTERS = string.ascii_letters + string.digits


def text_body(length: int = BODY_BYTES) -> str:
    """Return random letters and digits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


_PADDING = text_body(BODY_BYTES - STAMP_CHARACTERS)


def stamped_text() -> str:
    """Return 1 KB of text that begins with the time at which it was made."""
    return f"{time.perf_counter():0{STAMP_CHARACTERS}.9f}{_PADDING}"


def age_s(text: str) -> float:
    """Return the seconds since a stamped text was made, on this machine."""
    return time.perf_counter() - float(text[:STAMP_CHARACTERS])
