"""The services of this process for its peers: the same over each link."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

import structlog

from edge.asgi import Handler
from edge.problem import Problem
from subscribe_forwarder.fleet.links.problems import internal

Answering = Callable[[bytes, bytes], Awaitable[bytes]]
Hearing = Callable[[bytes, bytes], None]
_log = structlog.get_logger("packetboat.links")


class Services:
    """Handlers by operation, answers and hearers by subject; each is given once."""

    def __init__(
        self, problem_of: Callable[[Exception], Problem | None], lossy: Collection[str]
    ) -> None:
        self.handlers: dict[str, Handler] = {}
        self.answers: dict[str, Answering] = {}
        self.hearers: dict[str, Hearing] = {}
        self.lossy = frozenset(lossy)
        """Subjects of notes that a link may lose when it is backed up."""
        self._problem_of = problem_of

    def problem(self, error: Exception, of: str) -> Problem:
        """Return the problem to tell the peer; a defect is logged."""
        problem = self._problem_of(error)
        if problem is None:
            _log.error("a peer's request failed", operation=of, exc_info=error)
            problem = internal()
        return problem
