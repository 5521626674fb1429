"""Errors of the metadata store; each outcome is done, not done, or unknown.

MetadataError
├── MetadataUnavailable    not done: Postgres can't be reached now; retry later
├── OutcomeUnknown         sent, and the answer to its COMMIT never came
├── NotFound               not done: no such thing in this tenant
├── Conflict               not done: the name is taken, or the version has moved on
├── LastOwner              not done: nobody would be left to give others their roles
├── TooManySecrets         not done: two secrets hold already
├── QuotaExceeded          not done: the tenant has as many of these as it may
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
    """The tenant has no such object. Objects of other tenants are not found, either."""

    code = "not_found"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {name!r}")
        self.kind = kind
        self.name = name


class NotYet(NotFound):
    """The topic is being created. So that it can't be used says nothing against what peers say that
    they own of it: it may be there by the time at which this is read.
    """


class Conflict(MetadataError):
    """The name is taken, or the version is no longer the one the caller read."""

    code = "conflict"

    def __init__(self, kind: str, name: str, detail: str, existing: object | None = None) -> None:
        super().__init__(f"{kind} {name!r}: {detail}")
        self.kind = kind
        self.name = name
        self.detail = detail
        self.existing = existing


class LastOwner(MetadataError):
    """Done, it would leave the tenant without anybody who may give others their roles."""

    code = "last_owner"

    def __init__(self) -> None:
        super().__init__("the tenant would be left without an owner")


class TooManySecrets(MetadataError):
    """As many secrets hold as may: the change from the one to the other is not over."""

    code = "too_many_secrets"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} secrets hold already")
        self.limit = limit


class QuotaExceeded(MetadataError):
    """The tenant has as many of these as it may."""

    code = "quota_exceeded"

    def __init__(self, quota: str, limit: int, used: int) -> None:
        super().__init__(f"{quota}: {used} of {limit}")
        self.quota = quota
        self.limit = limit
        self.used = used


class LeaseLost(MetadataError):
    """Our own lease row is over or gone: deliver nothing, register a new incarnation."""

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
