"""Turning what was raised into the one error shape: application/problem+json."""

from __future__ import annotations

import structlog

from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from edge.problem import FieldError, Problem, invalid, not_found, unavailable
from metadata import errors as metadata
from store_nodes import errors as store

_MOST_CAUSES = 20
_log = structlog.get_logger("packetboat.gateway")


def problem_of(error: Exception) -> Problem | None:
    """Return the problem of an expected error; None for a defect, logged and answered 500."""
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


def answer_to(error: Exception, method: str, path: str, request_id: bytes) -> Problem:
    """Return the problem that answers a request which failed; log a defect."""
    problem = problem_of(error)
    if problem is None:
        problem = internal()
        name = request_id.decode("ascii")
        _log.error("handler failed", method=method, path=path, request_id=name, exc_info=error)
    return problem


def instance_of(request_id: bytes) -> str:
    """Return the `instance` of the problem that answers a request."""
    return "urn:packetboat:request:" + request_id.decode("ascii")


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
    return Problem.of(
        "unauthenticated",
        "Send a valid token as `Authorization: Bearer <token>`.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def tenant_suspended() -> Problem:
    return Problem.of(
        "tenant-suspended",
        "The tenant of this token is suspended; an operator of the installation can resume it.",
    )


def internal() -> Problem:
    return Problem.of(
        "internal-error",
        "The server failed in a way it did not expect; its log has the request id.",
    )


def body_timeout(seconds: float) -> Problem:
    return Problem.of(
        "body-timeout",
        f"No further byte of the body arrived for {seconds:g} s, or all of it too slowly.",
        headers={"Connection": "close"},
    )


def too_many_fields(most: int) -> Problem:
    return Problem.of(
        "headers-too-large",
        f"A request has at most {most} header fields.",
        headers={"Connection": "close"},
    )


def outcome_unknown(detail: str) -> Problem:
    return Problem.of("outcome-unknown", detail, retry_after_s=1.0)


def _store_problem(error: store.StoreError) -> Problem:
    if isinstance(error, store.OutcomeUnknown):
        return outcome_unknown("The store did not answer in time; repeating the request is safe.")
    if isinstance(error, store.DiskFull):
        text = str(error)
        return Problem.of("storage-full", f"{text[:1].upper()}{text[1:]}.")
    if isinstance(error, store.Overloaded):
        return Problem.of("store-overloaded", "The store is busy.", retry_after_s=1.0)
    return unavailable("store", f"The store cannot do this now: {error}.")


def quota_exceeded(error: metadata.QuotaExceeded) -> Problem:
    return Problem.of(
        "quota-exceeded",
        f"The tenant may have {error.limit} {error.quota} and has {error.used}; delete some, or "
        "ask an operator of the installation for more.",
        extra={"quota": error.quota, "limit": error.limit, "used": error.used},
    )


def _metadata_problem(error: metadata.MetadataError) -> Problem | None:
    if isinstance(error, metadata.NotFound):
        return not_found(error.kind, error.name)
    if isinstance(error, metadata.MetadataUnavailable):
        return Problem.of(
            "metadata-unavailable",
            "The metadata store cannot be reached now.",
            retry_after_s=error.retry_after_s,
            extra={"outcome": "not_done"},
        )
    if isinstance(error, metadata.OutcomeUnknown):
        return outcome_unknown("The metadata store did not confirm the change; read it back.")
    if isinstance(error, metadata.Conflict):
        return Problem.of("conflict", f"The {error.kind} {error.detail}.")
    if isinstance(error, metadata.QuotaExceeded):
        return quota_exceeded(error)
    if isinstance(error, metadata.LastOwner):
        return Problem.of(
            "last-owner",
            "Nobody would be left who may give others their roles: make another owner first, or "
            "say force=true.",
        )
    if isinstance(error, metadata.TooManySecrets):
        return Problem.of(
            "too-many-secrets",
            f"{error.limit} secrets hold already: remove one, or wait until it expires.",
        )
    if isinstance(error, metadata.BadPageToken):
        return invalid(
            "The page token is not one this service made.",
            [FieldError("page_token", "pass next_token of the page before, unchanged")],
            status=400,
        )
    return None
