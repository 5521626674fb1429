"""Asks admission for the dispatcher, and makes the answers that refuse requests by their heads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from edge.asgi import PROBLEM_JSON
from edge.problem import Problem
from gateway.admission.admission import OVERLOADED, Admission
from gateway.admission.kinds import Kind, Urgency, kind_of
from gateway.http.router import Endpoint

MOST_BYTES = 16 * 1024 * 1024
"""No handler keeps more of a body."""
UNTOLD_BYTES = 64 * 1024
"""Stands for a body that does not say its length."""
PRIORITY = b"packetboat-priority"
CHECK = Kind(Urgency.NORMAL)
"""Finding out whose a token is."""
_LOWEST = b"0"
_LESS_URGENT = Kind(Urgency.DEFERRABLE, timed=True)

_HEAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: %b\r\ncontent-length: %d\r\n"


class PreparedResponse(NamedTuple):
    """A response, made ahead: `head` lacks its date, its request id and its last line."""

    head: bytes
    body: bytes
    retry_after_s: float


def _rendered(problem: Problem) -> PreparedResponse:
    body = problem.to_json()
    retry_after_s = problem.retry_after_s or 1
    head = _HEAD % (PROBLEM_JSON, len(body)) + b"retry-after: %d\r\n" % retry_after_s
    return PreparedResponse(head, body, retry_after_s)


_REFUSALS = {problem.retry_after_s: _rendered(problem) for problem in OVERLOADED}


class RequestAdmission:
    """Asks the admission of one process, and makes its refusals ahead."""

    def __init__(self, admission: Admission, endpoints: Iterable[Endpoint]) -> None:
        self.process = admission
        endpoints = list(endpoints)
        self._kinds = {one: kind_of(one.method, one.template) for one in endpoints}
        self._publishes = {one for one in endpoints if self._kinds[one].timed}

    def kind(self, endpoint: Endpoint, priority: bytes | None) -> Kind:
        """Return the kind by which admission judges a request; `priority` is a publish's header."""
        if priority == _LOWEST and endpoint in self._publishes:
            return _LESS_URGENT
        return self._kinds[endpoint]

    def turned_away(self, tenant_id: bytes, kind: Kind, size: int) -> PreparedResponse | None:
        """Return the refusal of a request whose body of `size` bytes is here; None: dispatch it."""
        problem = self.process.refuses(tenant_id, kind, size)
        return None if problem is None else _REFUSALS[problem.retry_after_s]


def body_bytes(length: bytes | None, *, chunked: bool) -> int:
    """Return the bytes that admission counts for a body, by the request's headers."""
    if length is None:
        return UNTOLD_BYTES if chunked else 0
    return min(int(length), MOST_BYTES) if length.isdigit() and len(length) < 16 else MOST_BYTES
