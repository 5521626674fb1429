"""A process that answers that access has ended refuses it from then on."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pytest

from auth.errors import TokenRefused
from auth.principal import Principal, everything
from auth.verifier import CachingVerifier
from edge.asgi import Receive, Scope, Send
from gateway.tenancy.heard import heard
from harness.made_up_routes import made_up
from metadata.errors import MetadataUnavailable
from metadata.types import Change, ChangeKind

TENANT, TOKEN = b"t" * 16, b"token"
DELETED = Change(1, ChangeKind.KEY, TENANT, b"u" * 16, "")


class Process:
    """A key that is remembered, what was committed of it, and the route that deletes it."""

    def __init__(self, status: int = 204, method: str = "DELETE") -> None:
        self.status = status
        self.holds = True
        self.down = False
        self.heard_of = 0
        self.cache = CachingVerifier(self)
        self.answers: list[int] = []
        self.taken_at_the_answer = True
        route = made_up(method, "/keys/{name}", self.delete, "administer", "*")
        (self.route,) = heard([route], self.catch_up)

    async def verify(self, token: bytes) -> Principal:
        if not self.holds:
            raise TokenRefused
        return Principal(TENANT, "key:ci", everything(), "key:abc")

    async def catch_up(self) -> None:
        self.heard_of += 1
        if self.down:
            raise MetadataUnavailable("down")
        await self.cache.on_changes([DELETED])

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.holds = False
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.answers.append(message["status"])
            self.taken_at_the_answer = self.cache.cached(TOKEN) is not None

    async def receive(self) -> MutableMapping[str, Any]:
        raise AssertionError

    async def asked(self) -> None:
        await self.cache.verify(TOKEN)
        await self.route.handler({}, self.receive, self.send)


async def test_a_key_that_was_just_used_is_refused_once_its_deletion_is_answered() -> None:
    """The key was accepted until the change feed reported the deletion, for a second
    without a notifier.
    """
    process = Process()
    await process.asked()
    assert process.answers == [204]
    assert not process.taken_at_the_answer
    with pytest.raises(TokenRefused):
        await process.cache.verify(TOKEN)
    assert process.heard_of == 1


@pytest.mark.parametrize(("status", "method"), [(409, "DELETE"), (200, "GET")])
async def test_who_changed_nothing_asks_for_no_news(status: int, method: str) -> None:
    process = Process(status, method)
    await process.asked()
    assert (process.answers, process.heard_of) == ([status], 0)


async def test_what_was_committed_is_answered_though_postgres_is_lost_since() -> None:
    process = Process()
    process.down = True
    await process.asked()
    assert (process.answers, process.heard_of) == ([204], 1)
