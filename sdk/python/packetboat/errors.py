"""The outcomes of a failed call: done, not done, or unknown, as the type of the error says.

PacketboatError
├── NotDone                 nothing took effect
│   ├── ConnectionFailed    the server was never reached
│   │   └── UntrustedServer  somebody answered, with a certificate that is not trusted
│   ├── ClientClosed        the client, or its publisher, was closed before
│   ├── BufferFull          more is waiting to be published than may
│   ├── Dropped             a newer message took its place in a full buffer
│   ├── PrecedingFailed     an earlier message of its key failed, and it waited behind
│   ├── LeaseLost           the message was given to another before its answer was stored
│   └── ApiError            the server refused, with a problem (RFC 9457)
│       ├── InvalidRequest  400, 408, 413, 415, 422, 431: it is wrong; `errors` says where
│       ├── NotAuthorized   401, 403
│       │   └── QuotaExceeded  403: the tenant has as many of these as it may
│       ├── NotFound        404
│       ├── Conflict        409, 412
│       ├── Overloaded      429: `retry_after_s` says when to come back
│       └── Unavailable     503, 507: not now; `retry_after_s`
├── UnknownOutcome          it may or may not have taken effect
└── ServerError             500, or an answer that is none of Packetboat's, such as a redirect
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class FieldError(NamedTuple):
    """One field that is wrong, and what to do about it."""

    field: str
    detail: str


class _Field(msgspec.Struct):
    field: str
    detail: str = ""


class Problem(msgspec.Struct, frozen=True):
    """The problem object of an answer, or of one item of a batch."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
    instance: str = ""
    errors: tuple[_Field, ...] = ()
    members: dict[str, Any] = msgspec.field(default_factory=dict, name="$members")
    """The further members of the answer, such as `limit_bytes` or the `holder` of a lock."""

    @property
    def slug(self) -> str:
        """The last part of the type: `topic-not-found`."""
        return self.type.rpartition("/")[2]


class PacketboatError(Exception):
    """Any failure of a call. Its text ends with the server, and how often it was tried."""

    server: str | None = None
    """The URL that was asked, and who named it: the program, the environment, a profile, or the
    default."""
    tries: int = 0
    """The number of requests that were sent."""
    tried_s: float = 0.0
    """Seconds for which the call was tried."""

    @property
    def text(self) -> str:
        """The text of the failure, without the server and the tries."""
        return super().__str__()

    def __str__(self) -> str:
        more = [] if self.server is None else [self.server]
        if self.tries > 1:
            more.append(f"tried {self.tries} times in {self.tried_s:.1f} s")
        return f"{self.text} [{'; '.join(more)}]" if more else self.text


class NotDone(PacketboatError):
    """Nothing took effect and nothing will."""


class ConnectionFailed(NotDone):
    """The server was never reached."""


class UntrustedServer(ConnectionFailed):
    """The certificate is not one that we trust, or not of that server; nothing was sent."""


class ClientClosed(NotDone):
    """The client was closed, before the call or before it was sent."""


class BufferFull(NotDone):
    """More is waiting to be published than the buffer holds."""


class Dropped(NotDone):
    """Raised for a message that left a full buffer for a newer one, by the overflow
    "drop_oldest".
    """


class PrecedingFailed(NotDone):
    """An earlier message of its key failed for good; it was held back, so that order holds."""


class LeaseLost(NotDone):
    """The lease ended, and the message goes to another: what was done with it does not count."""


class ApiError(NotDone):
    """The server refused the request before it took effect."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        super().__init__(_text(problem))
        self.problem = problem
        self.status: int = problem.status
        self.slug: str = problem.slug
        self.errors: tuple[FieldError, ...] = tuple(
            FieldError(e.field, e.detail) for e in problem.errors
        )
        self.retry_after_s = retry_after_s


class InvalidRequest(ApiError):
    """The request is wrong; sending it again will not help."""


class NotAuthorized(ApiError):
    """The token is missing, not valid, or lacks the permission."""


class QuotaExceeded(NotAuthorized):
    """The tenant has as many of these as it may; `quota` and `limit` of `problem.members` say which
    and how many."""


class NotFound(ApiError):
    """There is no such thing in this tenant."""


class Conflict(ApiError):
    """The name is taken, or the resource is not in the state the call needs."""


class Overloaded(ApiError):
    """Too much at once; nothing of the request was accepted."""


class Unavailable(ApiError):
    """Raised when the server cannot serve the request now; nothing of the request was accepted."""


class UnknownOutcome(PacketboatError):
    """Raised when the call may or may not have taken effect: no answer came, or the answer says so.

    Publishing the message again with `idempotency_key` stores it once either way; None: it had no
    key.
    """

    def __init__(
        self, text: str, problem: Problem | None = None, *, idempotency_key: str | None = None
    ) -> None:
        super().__init__(text)
        self.problem = problem
        self.idempotency_key = idempotency_key

    @property
    def text(self) -> str:
        """The text of the failure and the idempotency key, without the server and the tries."""
        text = super().text
        if self.idempotency_key is None:
            return text
        return f"{text} (idempotency key {self.idempotency_key!r})"


class ServerError(PacketboatError):
    """The server failed in a way that it does not describe."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


_KINDS: dict[int, type[ApiError]] = {
    401: NotAuthorized,
    403: NotAuthorized,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    424: Unavailable,
    429: Overloaded,
    501: Unavailable,
    503: Unavailable,
    507: Unavailable,
}
_KINDS_OF_TYPES: dict[tuple[int, str], type[ApiError]] = {(403, "quota-exceeded"): QuotaExceeded}
"""Problems that have an error of their own, among those of their status."""


def error_of(problem: Problem, retry_after_s: float | None = None) -> PacketboatError:
    """Return the error for a problem."""
    if problem.status in (502, 504):  # 502 is a balancer's, whose server may have begun
        return UnknownOutcome(_text(problem), problem)
    kind = _KINDS_OF_TYPES.get((problem.status, problem.slug)) or _KINDS.get(problem.status)
    if kind is None:
        if problem.status < 400:
            return ServerError(problem.status, "redirects are not followed; is the URL right?")
        if problem.status >= 500:
            return ServerError(problem.status, _text(problem))
        kind = InvalidRequest
    return kind(problem, retry_after_s)


FIELDS_SHOWN = 5


def _text(problem: Problem) -> str:
    """Return the problem's text, with each field that is wrong and each limit that was met."""
    said = problem.detail or problem.title
    wrong = [
        f"{each.field}: {each.detail}"
        for each in problem.errors
        if not each.detail or each.detail not in said
    ]
    text = f"{problem.status} {problem.slug}: {said}"
    if wrong:
        more = len(wrong) - FIELDS_SHOWN
        text += f" ({'; '.join(wrong[:FIELDS_SHOWN])}{f'; and {more} more' if more > 0 else ''})"
    for name, value in problem.members.items():
        if "limit" in name and isinstance(value, int | float) and str(value) not in text:
            text += f" ({name}: {value})"
    return text
