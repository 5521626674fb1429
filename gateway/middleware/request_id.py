"""Every request has an id: the caller's own when it is fit for a log line, else a fresh one."""

from __future__ import annotations

import itertools
import re
import secrets

HEADER = b"x-request-id"
_FIT = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_PREFIX = secrets.token_hex(6).encode()
_numbers = itertools.count(1)


def request_id(offered: bytes | None) -> bytes:
    """A process-unique prefix and a counter: no randomness is spent per request."""
    if offered is not None and _FIT.fullmatch(offered):
        return offered
    return b"%s-%x" % (_PREFIX, next(_numbers))
