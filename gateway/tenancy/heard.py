"""An answer that access has changed comes after this process has heard of the change itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import structlog

from edge.asgi import Handler, Receive, Route, Scope, Send
from metadata.errors import MetadataError

CatchUp = Callable[[], Awaitable[None]]
_log = structlog.get_logger("packetboat.identity")


def heard(routes: Iterable[Route], catch_up: CatchUp) -> list[Route]:
    """Return the same routes, which answer a change only after token checks have heard of it.

    `catch_up` (the change feed's) tells the verifiers: a token that was ended is refused from then
    on, although it was accepted a moment before. Where Postgres is lost after the commit, the
    answer goes out all the same, and the feed tells of the change once it can.
    """
    return [
        route if route.method == "GET" else route.around(_heard(route.handler, catch_up))
        for route in routes
    ]


def _heard(handler: Handler, catch_up: CatchUp) -> Handler:
    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start" and message["status"] < 300:
                try:
                    await catch_up()
                except MetadataError as error:
                    _log.info("a change of access is heard of later", error=str(error))
            await send(message)

        await handler(scope, receive, answer)

    return handle
