"""A request that came to a forwarder that does not own what it is about (any more)."""

from __future__ import annotations

from edge.problem import Problem

SLUG = "misdirected"


def misdirected() -> Problem:
    """Return a 421, between forwarders only: nothing was done, and the asker looks up the
    owner anew.
    """
    return Problem.of(
        "misdirected",
        "This forwarder does not own what the request is about.",
        retry_after_s=1.0,
    )


def is_misdirected(error: BaseException) -> bool:
    return isinstance(error, Problem) and error.slug == SLUG
