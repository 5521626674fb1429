"""The audit around a handler: what is written when, whatever becomes of the change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from edge.asgi import REQUEST_ID, SUBJECT, TENANT, ClientGone, read_body, respond
from edge.problem import Problem
from gateway.tenancy.auditor import Auditor, resource_of
from harness.made_up_routes import made_up
from metadata.errors import MetadataUnavailable, NotFound, OutcomeUnknown
from metadata.tenancy.audit import AuditEntry

TENANT_ID = b"t" * 16


class Log:
    """Notes what happens in which order; fails where it is told to."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.entries: list[AuditEntry] = []
        self.begin_error: Exception | None = None
        self.finish_error: Exception | None = None

    async def append(self, entries: list[AuditEntry]) -> None:
        self.events.append("begin")
        if self.begin_error is not None:
            raise self.begin_error
        self.entries += entries

    async def finish(self, entry: AuditEntry, status: int) -> None:
        self.events.append(f"finish {status}")
        if self.finish_error is not None:
            raise self.finish_error


class Site:
    """One audited route, and a client that sends it `messages`."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.log = Log()
        self.messages = list(messages) or [{"type": "http.request", "body": b""}]
        self.body = b""

    async def run(
        self,
        act: Callable[[], Awaitable[int]],
        *,
        method: str = "POST",
        path: str = "/topics",
        params: dict[str, str] | None = None,
        query: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> None:
        async def handler(scope: Any, receive: Any, send: Any) -> None:
            self.log.events.append("handler")
            self.body = await read_body(scope, receive, 10_000_000)
            await respond(send, await act(), b"{}")

        route = Auditor(self.log).audited(made_up(method, path, handler, "manage", "*"))  # type: ignore[arg-type]
        scope = {
            TENANT: TENANT_ID,
            SUBJECT: "client:ann",
            REQUEST_ID: b"ask-1",
            "path_params": params or {},
            "query_string": query,
            "headers": headers or [],
            "client": ("203.0.113.9", 4000),
        }

        async def receive() -> Any:
            return self.messages.pop(0)

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.log.events.append(f"send {message['status']}")

        await route.handler(scope, receive, send)


async def made() -> int:
    return 201


async def test_the_row_is_before_the_change_and_its_status_before_the_answer() -> None:
    site = Site({"type": "http.request", "body": b'{"name":"orders"}'})
    await site.run(made)
    assert site.log.events == ["begin", "handler", "finish 201", "send 201"]
    (entry,) = site.log.entries
    assert (entry.tenant_id, entry.actor, entry.action) == (TENANT_ID, "client:ann", "createTopic")
    assert (entry.resource, entry.status, entry.request_id) == ("topics/orders", None, "ask-1")
    assert entry.detail == {
        "members": {"name": "orders"},
        "source": {"address": "203.0.113.9"},
    }
    assert site.body == b'{"name":"orders"}'


@pytest.mark.parametrize("error", [MetadataUnavailable("down"), OutcomeUnknown("?")])
async def test_what_cannot_be_audited_is_not_begun(error: Exception) -> None:
    site = Site()
    site.log.begin_error = error
    with pytest.raises(MetadataUnavailable):
        await site.run(made)
    assert site.log.events == ["begin"]


async def test_a_status_that_cannot_be_written_keeps_nobody_from_the_answer() -> None:
    site = Site()
    site.log.finish_error = MetadataUnavailable("down")
    await site.run(made)
    assert site.log.events[-2:] == ["finish 201", "send 201"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Problem(409, "conflict", "Conflict"), 409),
        (NotFound("topic", "x"), 404),
        (OutcomeUnknown("?"), 504),
        (ZeroDivisionError(), 500),
    ],
)
async def test_refusals_have_their_status(error: Exception, status: int) -> None:
    async def fail() -> int:
        raise error

    site = Site()
    with pytest.raises(type(error)):
        await site.run(fail)
    assert site.log.events == ["begin", "handler", f"finish {status}"]


async def test_of_what_is_cut_off_the_status_stays_open() -> None:
    async def cut() -> int:
        raise asyncio.CancelledError

    site = Site()
    with pytest.raises(asyncio.CancelledError):
        await site.run(cut)
    assert site.log.events == ["begin", "handler"]


async def test_nothing_is_begun_for_a_client_that_is_gone() -> None:
    site = Site(
        {"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}
    )
    with pytest.raises(ClientGone):
        await site.run(made)
    assert site.log.events == []


async def test_the_handler_gets_the_body_as_it_came() -> None:
    parts = [b'{"name"', b":", b'"x"}']
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    site = Site(*messages, {"type": "http.request", "body": b"", "more_body": False})
    await site.run(made)
    assert site.body == b'{"name":"x"}'
    assert site.log.entries[0].detail["members"] == {"name": "x"}


async def test_a_long_body_is_passed_on_and_not_kept() -> None:
    part = b"x" * 200_000
    messages = [{"type": "http.request", "body": part, "more_body": True} for _ in range(4)]
    site = Site(*messages, {"type": "http.request", "body": b"end"})
    await site.run(made)
    assert site.body == part * 4 + b"end"
    assert site.log.entries[0].detail["members"] == {}


async def test_where_it_came_from_and_how_it_was_asked() -> None:
    site = Site()
    await site.run(
        made,
        method="DELETE",
        path="/topics/{topic}",
        params={"topic": "orders"},
        query=b"force=true&token=hunter2",
        headers=[(b"x-forwarded-for", b"198.51.100.7, 10.0.0.1")],
    )
    detail = site.log.entries[0].detail
    assert detail["query"] == {"force": "true", "token": "(redacted)"}
    assert detail["source"]["forwarded_for"] == "198.51.100.7, 10.0.0.1"


@pytest.mark.parametrize(
    ("method", "permission"), [("GET", "manage"), ("POST", "publish"), ("POST", "read")]
)
def test_what_changes_nothing_has_no_audit_around_it(method: str, permission: str) -> None:
    async def handler(scope: Any, receive: Any, send: Any) -> None: ...

    route = made_up(method, "/topics", handler, permission, "*")
    assert Auditor(Log()).audited(route) is route  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "params", "name", "resource"),
    [
        ("/topics", {}, "orders", "topics/orders"),
        ("/topics", {}, None, "topics"),
        ("/topics/{topic}", {"topic": "a"}, "b", "topics/a"),
        ("/topics/{topic}:grow", {"topic": "a"}, "b", "topics/a"),
        ("/topics/{topic}/subscriptions", {"topic": "a"}, "s", "topics/a/subscriptions/s"),
        (
            "/clients/{name}/secrets/{prefix}",
            {"name": "a", "prefix": "p"},
            1,
            "clients/a/secrets/p",
        ),
        ("/topics/{topic}", {"topic": "x" * 600}, None, "topics/" + "x" * 505),
    ],
)
def test_what_a_request_is_about(
    path: str, params: dict[str, str], name: object, resource: str
) -> None:
    assert resource_of(path, params, name) == resource
