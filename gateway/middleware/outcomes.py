"""The outcome of a change that fails after a part of it is committed.

503 `metadata-unavailable` says that nothing was done, and 503 `outcome-unknown` that the caller
must read the resource again. A handler that commits more than once may lose Postgres between two
commits; then the second answer is the true one, whatever the last transaction said.
"""

from __future__ import annotations

from edge.asgi import Receive, Route, Scope, Send
from metadata import committed
from metadata.errors import MetadataUnavailable, OutcomeUnknown

_ANSWER_FOR_THEMSELVES = frozenset(
    [
        "acquireLock",
        *("publish", "publishBatch", "pullPost"),
        *("ack", "nack", "reject", "release", "modifyAckDeadline"),
    ]
)
"""Operations on messages commit together with those of other requests, and each item of their
answers has its own outcome. A lock that is acquired and not answered is released again."""


def with_outcome(route: Route) -> Route:
    """Return the route as it is served: a change that is half done is answered as unknown."""
    if route.method == "GET" or route.operation.id in _ANSWER_FOR_THEMSELVES:
        return route
    handler = route.handler

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        with committed.counting() as commits:
            try:
                await handler(scope, receive, send)
            except MetadataUnavailable as error:
                if commits.count:
                    raise OutcomeUnknown("a part of the change is committed") from error
                raise

    return route.around(told)
