"""Problems on their way over a link: what was raised there is raised here, the same."""

from __future__ import annotations

import msgspec

from edge.problem import FieldError, Problem
from subscribe_forwarder.fleet.links.wire import Raised


def raised(request_id: int, problem: Problem) -> Raised:
    return Raised(
        request_id,
        problem.status,
        problem.slug,
        problem.title,
        problem.detail,
        [(error.field, error.detail) for error in problem.errors],
        problem.retry_after_s,
        problem.headers,
        msgspec.json.encode(problem.extra) if problem.extra else b"",
    )


def problem_in(head: Raised) -> Problem:
    return Problem(
        head.status,
        head.slug,
        head.title,
        head.detail,
        errors=[FieldError(field, detail) for field, detail in head.errors],
        retry_after_s=head.retry_after_s,
        headers=head.headers,
        extra=msgspec.json.decode(head.extra, type=dict[str, object]) if head.extra else None,
    )


def internal() -> Problem:
    """Return the problem by which the edge answers a defect."""
    return Problem.of(
        "internal-error",
        "The server failed in a way it did not expect; its log has the request id.",
    )
