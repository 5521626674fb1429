"""Gives every request an id: the caller's own if it may stand in a log line, else a new one."""

from __future__ import annotations

import itertools
import os
import re
import secrets

HEADER = b"x-request-id"
_FIT = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_prefix = secrets.token_hex(6).encode()
_numbers = itertools.count(1)


def _begin() -> None:
    """Choose the prefix of this process's ids."""
    global _prefix
    _prefix = secrets.token_hex(6).encode()


os.register_at_fork(after_in_child=_begin)


def request_id(offered: bytes | None) -> bytes:
    """Return the offered id if it is fit, else a prefix of this process with a counter."""
    if offered is not None and _FIT.fullmatch(offered):
        return offered
    return b"%s-%x" % (_prefix, next(_numbers))
