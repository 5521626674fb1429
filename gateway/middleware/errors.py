"""Turning what was raised into the one error shape: application/problem+json."""

from __future__ import annotations

from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from edge.problem import FieldError, Problem, invalid, not_found, unavailable
from metadata import errors as metadata
from store_nodes import errors as store

UNKNOWN_TITLE = "Outcome unknown"
_MOST_CAUSES = 20


def problem_of(error: Exception) -> Problem | None:
    """The problem an expected error stands for; None for a defect, which is logged and a 500."""
    if isinstance(error, ExceptionGroup):
        # Work done for one request in parallel: the first expected failure speaks for all, a
        # defect among them is a defect.
        problems = [problem_of(inner) for inner in error.exceptions]
        return None if None in problems else problems[0]
    if isinstance(error, Problem):
        return error
    if isinstance(error, TokenRefused):
        return unauthenticated()
    if isinstance(error, TenantSuspended):
        return tenant_suspended()
    if isinstance(error, VerifierUnavailable):
        return unavailable("auth", "The token cannot be checked now; try again.")
    if isinstance(error, store.StoreError):
        return _store_problem(error)
    if isinstance(error, metadata.MetadataError):
        return _metadata_problem(error)
    return None


def forget(error: BaseException | None) -> None:
    """Drop the tracebacks of an error that was answered, and of the errors that it came from.

    Their frames hold what the error passed through, often the error itself. Such a reference cycle
    would stay in memory until a collection of garbage, which keeps all other requests waiting.
    """
    for _ in range(_MOST_CAUSES):
        if error is None:
            return
        error.__traceback__ = None
        for inner in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
            forget(inner)
        error = error.__cause__ or error.__context__


def unauthenticated() -> Problem:
    return Problem(
        401,
        "unauthenticated",
        "Authentication required",
        "Send a valid token as `Authorization: Bearer <token>`.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def tenant_suspended() -> Problem:
    return Problem(
        403,
        "tenant-suspended",
        "Tenant suspended",
        "The tenant of this token is suspended; an operator of the installation can resume it.",
    )


def internal() -> Problem:
    return Problem(
        500,
        "internal-error",
        "Internal error",
        "The server failed in a way it did not expect; its log has the request id.",
    )


def body_timeout(seconds: float) -> Problem:
    return Problem(
        408,
        "body-timeout",
        "Request body timed out",
        f"No further byte of the body arrived for {seconds:g} s, or all of it too slowly.",
        headers={"Connection": "close"},
    )


def too_many_fields(most: int) -> Problem:
    return Problem(
        431,
        "headers-too-large",
        "Headers too large",
        f"A request has at most {most} header fields.",
        headers={"Connection": "close"},
    )


def outcome_unknown(detail: str) -> Problem:
    return Problem(504, "outcome-unknown", UNKNOWN_TITLE, detail, retry_after_s=1.0)


def _store_problem(error: store.StoreError) -> Problem:
    if isinstance(error, store.OutcomeUnknown):
        return outcome_unknown("The store did not answer in time; repeating the request is safe.")
    if isinstance(error, store.DiskFull):
        text = str(error)
        return Problem(507, "storage-full", "Storage is full", f"{text[:1].upper()}{text[1:]}.")
    if isinstance(error, store.Overloaded):
        return Problem(
            503, "store-overloaded", "Store overloaded", "The store is busy.", retry_after_s=1.0
        )
    return unavailable("store", f"The store cannot do this now: {error}.")


def quota_exceeded(error: metadata.QuotaExceeded) -> Problem:
    return Problem(
        403,
        "quota-exceeded",
        "Quota exceeded",
        f"The tenant may have {error.limit} {error.quota} and has {error.used}; delete some, or "
        "ask an operator of the installation for more.",
        extra={"quota": error.quota, "limit": error.limit, "used": error.used},
    )


def _metadata_problem(error: metadata.MetadataError) -> Problem | None:
    if isinstance(error, metadata.NotFound):
        return not_found(error.kind, error.name)
    if isinstance(error, metadata.MetadataUnavailable):
        return unavailable(
            "metadata", "The metadata store cannot be reached now.", error.retry_after_s
        )
    if isinstance(error, metadata.OutcomeUnknown):
        return outcome_unknown("The metadata store did not confirm the change; read it back.")
    if isinstance(error, metadata.Conflict):
        return Problem(409, "conflict", "Conflict", f"The {error.kind} {error.detail}.")
    if isinstance(error, metadata.QuotaExceeded):
        return quota_exceeded(error)
    if isinstance(error, metadata.LastOwner):
        return Problem(
            409,
            "last-owner",
            "The last owner",
            "Nobody would be left who may give others their roles: make another owner first, or "
            "say force=true.",
        )
    if isinstance(error, metadata.TooManySecrets):
        return Problem(
            409,
            "too-many-secrets",
            "Too many secrets",
            f"{error.limit} secrets hold already: remove one, or wait until it expires.",
        )
    if isinstance(error, metadata.BadPageToken):
        return invalid(
            "The page token is not one this service made.",
            [FieldError("page_token", "pass next_token of the page before, unchanged")],
            status=400,
        )
    return None
