"""What can go wrong in the metadata store; each outcome is done, not done, or unknown.

MetadataError
├── MetadataUnavailable    not done: Postgres can't be reached now; retry later
├── OutcomeUnknown         sent, and the answer to its COMMIT never came
├── NotFound               not done: no such thing in this tenant
├── Conflict               not done: the name is taken, or the version has moved on
├── LeaseHeld              not done: another live forwarder holds what was asked for
├── LeaseLost              not done: our own lease row is over or gone
├── BadPageToken           not done: the page token isn't one of ours
└── UnsafeServer           refused: fsync or full_page_writes is off
"""

from __future__ import annotations


class MetadataError(Exception):
    """The base of all; `code` is for machines, the text for people."""

    code = "metadata_error"


class MetadataUnavailable(MetadataError):
    """Postgres can't be reached, or is too slow, and nothing was written."""

    code = "metadata_unavailable"

    def __init__(self, detail: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s


class OutcomeUnknown(MetadataError):
    """A write was sent and its COMMIT never answered: it may have happened, or may still happen.

    For cursors: freeze them, claim their partition again (a new epoch fences the lost statement),
    and go on from the rows that the claim returns.
    """

    code = "outcome_unknown"


class NotFound(MetadataError):
    """There is no such thing in this tenant; what belongs to another tenant isn't there either."""

    code = "not_found"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {name!r}")
        self.kind = kind
        self.name = name


class Conflict(MetadataError):
    """The name is taken, or the version is no longer the one the caller read."""

    code = "conflict"

    def __init__(self, kind: str, name: str, detail: str, existing: object | None = None) -> None:
        super().__init__(f"{kind} {name!r}: {detail}")
        self.kind = kind
        self.name = name
        self.detail = detail
        self.existing = existing


class LeaseHeld(MetadataError):
    """Another live forwarder holds the slot; `remaining_s` is what its lease has left."""

    code = "lease_held"

    def __init__(self, incarnation: bytes, remaining_s: float) -> None:
        super().__init__(f"held by {incarnation.hex()} for {remaining_s:.1f} s more")
        self.incarnation = incarnation
        self.remaining_s = remaining_s


class LeaseLost(MetadataError):
    """Our own lease row is over or gone: hand out nothing, register a new incarnation."""

    code = "lease_lost"


class BadPageToken(MetadataError):
    """The page token was not made by this service."""

    code = "bad_page_token"


class StatementRefused(MetadataError):
    """Postgres answered with an error that trying again won't change: a fault of ours."""

    code = "statement_refused"


class UnsafeServer(MetadataError):
    """The server runs with fsync or full_page_writes off: an answered ack would not be durable."""

    code = "unsafe_server"
