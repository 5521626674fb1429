from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest

from auth.development import DEV_TENANT_ID, DevTokenVerifier
from auth.permissions import GRANTABLE, Permission
from auth.principal import Grant, Principal, everything
from edge.asgi import ClientGone, Handler, Receive, Route, Scope, Send, read_body, respond
from edge.problem import Problem
from edge.quota import REQUESTS
from gateway.admission.admission import Admission
from gateway.admission.kinds import Kind, Urgency
from gateway.app import create_app
from gateway.http.dispatch import Dispatcher
from gateway.quotas.limiter import Limiter
from gateway.readiness import Readiness
from harness.made_up_routes import made_up
from metadata import errors as metadata
from metadata.tenancy.quotas import TenantQuota
from store_nodes import errors as store
from tests.loop_cpu import MAX_CALLBACK_MS, measured

TOKEN = "pbdev_test"
AUTH = {"authorization": f"Bearer {TOKEN}"}


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(scope, receive, 100)
    await respond(send, 201, scope["packetboat.tenant"].hex().encode() + b" " + body)


def raising(error: Exception) -> Handler:
    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        raise error

    return handler


def app_of(*routes: Route, **options: Any) -> Dispatcher:
    verifier = DevTokenVerifier(hashlib.sha256(TOKEN.encode()).digest())
    return create_app(routes, verifier, Readiness(), **options)


@pytest.fixture
async def client() -> AsyncIterator[Callable[..., httpx2.AsyncClient]]:
    opened: list[httpx2.AsyncClient] = []

    def open_client(*routes: Route, **options: Any) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=app_of(*routes, **options))
        opened.append(httpx2.AsyncClient(transport=transport, base_url="http://test"))
        return opened[-1]

    yield open_client
    for each in opened:
        await each.aclose()


async def test_the_tenant_comes_from_the_token_and_the_answer_has_a_request_id(client: Any) -> None:
    http = client(made_up("POST", "/echo", echo, "publish", "*"))
    answer = await http.post("/echo", content=b"hi", headers=AUTH)
    assert (answer.status_code, answer.text) == (201, f"{DEV_TENANT_ID.hex()} hi")
    assert answer.headers["x-request-id"]
    other = await http.post("/echo", content=b"hi", headers=AUTH)
    assert other.headers["x-request-id"] != answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("offered", "kept"), [("trace-1.a_B", True), ("a" * 65, False), ('x"y', False), ("", False)]
)
async def test_a_fit_request_id_is_kept(client: Any, offered: str, kept: bool) -> None:
    http = client(made_up("POST", "/echo", echo, "publish", "*"))
    answer = await http.post("/echo", headers=AUTH | {"x-request-id": offered})
    assert (answer.headers["x-request-id"] == offered) is kept


@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer ", "Bearer wrong", f"Basic {TOKEN}", TOKEN]
)
async def test_no_valid_token_is_401(client: Any, authorization: str | None) -> None:
    http = client(made_up("POST", "/echo", echo, "publish", "*"))
    headers = {} if authorization is None else {"authorization": authorization}
    answer = await http.post("/echo", headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"].endswith("/unauthenticated")


async def test_a_missing_permission_is_403() -> None:
    class Reader:
        async def verify(self, token: bytes) -> Principal:
            return Principal(b"t" * 16, "reader", everything([Permission.READ]))

    app = create_app([made_up("POST", "/echo", echo, "publish", "*")], Reader(), Readiness())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
        answer = await http.post("/echo", headers=AUTH)
    assert answer.status_code == 403
    assert "publish" in answer.json()["detail"]


async def test_a_name_in_a_path_is_held_against_many_patterns_in_slices() -> None:
    """A caller may have 50,000 patterns that tell names apart only by their middle."""
    middles = (f"*a*b{number:05}*a*" + "b*" * 100 for number in range(10_000))
    patterns = [*middles, "*a*b*c*"]

    class Reader:
        async def verify(self, token: bytes) -> Principal:
            return Principal(b"t" * 16, "reader", grants)

    grants = frozenset(Grant(Permission.READ, "topic", each) for each in patterns)
    route = made_up("GET", "/topics/{topic}", echo, "read", "topic:topic")
    app = create_app([route], Reader(), Readiness())
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
        assert (await http.get("/topics/other", headers=AUTH)).status_code == 403
        async with measured() as callbacks:
            assert (await http.get("/topics/" + "ab" * 60, headers=AUTH)).status_code == 403
            assert (await http.get("/topics/abc", headers=AUTH)).status_code == 201
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_public_is_written_out_and_needs_no_token(client: Any) -> None:
    async def hello(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"{}")

    assert Permission.PUBLIC not in GRANTABLE
    answer = await client(made_up("GET", "/hello", hello, "public")).get("/hello")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "slug"),
    [
        (Problem(418, "teapot", "Teapot"), 418, "teapot"),
        (metadata.NotFound("topic", "a"), 404, "topic-not-found"),
        (metadata.MetadataUnavailable("down"), 503, "metadata-unavailable"),
        (metadata.OutcomeUnknown("?"), 504, "outcome-unknown"),
        (metadata.Conflict("topic", "a", "taken"), 409, "conflict"),
        (metadata.BadPageToken("x"), 400, "invalid-request"),
        (store.Unavailable("no leader"), 503, "store-unavailable"),
        (store.NotLeader(2), 503, "store-unavailable"),
        (store.Overloaded("full"), 503, "store-overloaded"),
        (store.DiskFull("full"), 507, "storage-full"),
        (store.OutcomeUnknown("?"), 504, "outcome-unknown"),
        (ExceptionGroup("two", [store.Unavailable("a"), store.Unavailable("b")]), 503, None),
        (ExceptionGroup("two", [store.Unavailable("a"), KeyError("b")]), 500, "internal-error"),
        (RuntimeError("secret detail"), 500, "internal-error"),
    ],
)
async def test_errors_are_problems(
    client: Any, error: Exception, status: int, slug: str | None
) -> None:
    http = client(made_up("GET", "/x", raising(error), "read", "*"))
    answer = await http.get("/x", headers=AUTH)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert answer.headers["x-request-id"] in problem["instance"]
    if slug:
        assert problem["type"].endswith("/" + slug)
    assert "secret" not in answer.text
    assert ("retry-after" in answer.headers) is (status in (503, 504))
    not_done = isinstance(error, metadata.MetadataUnavailable)
    assert (problem.get("outcome") == "not_done") is not_done


async def test_unknown_path_and_wrong_method_are_problems(client: Any) -> None:
    http = client(made_up("GET", "/x", echo, "read", "*"))
    for method, path, status in (("GET", "/nothing", 404), ("PUT", "/x", 405), ("POST", "/", 405)):
        answer = await http.request(method, path)
        assert answer.status_code == status, path
        assert answer.headers["content-type"] == "application/problem+json"
        assert ("allow" in answer.headers) is (status == 405)


async def test_head_is_answered_as_get_without_the_body(client: Any) -> None:
    async def parts(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["method"] == "GET"
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"4")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        await send({"type": "http.response.body", "body": b"cd"})

    http = client(
        made_up("GET", "/x", parts, "read", "*"),
        made_up("GET", "/wrong", raising(Problem(404, "none", "None")), "read", "*"),
        made_up("GET", "/x:stream", parts, "read", "*", head=False),
    )
    for path, status in (("/x", 200), ("/wrong", 404), ("/healthz", 200), ("/openapi.json", 200)):
        got, told = [await http.request(way, path, headers=AUTH) for way in ("GET", "HEAD")]
        assert (told.status_code, told.content) == (status, b""), path
        assert told.headers["content-type"] == got.headers["content-type"]
        assert told.headers["content-length"] == str(len(got.content))
    refused = await http.head("/x:stream", headers=AUTH)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET")


async def test_head_is_never_answered_with_what_is_made_ahead() -> None:
    app = app_of(made_up("GET", "/x", echo, "read", "*"), admission=Pressed())
    await app._verifier.verify(TOKEN.encode())
    for method, answered in ((b"GET", True), (b"HEAD", False)):
        raw = b"%b /x HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %b" % (method, TOKEN.encode())
        assert (app.turned_away(raw, 0) is not None) is answered


async def test_unknown_query_parameters_are_refused_by_name(client: Any) -> None:
    async def fine(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"{}")

    http = client(
        made_up("GET", "/topics", fine, "read", "*"),
        made_up("GET", "/whoami", fine, "read", "*"),
    )
    for path in ("/topics?page_size=1&page_token=", "/topics?&", "/topics?"):
        assert (await http.get(path, headers=AUTH)).status_code == 200, path
    answer = await http.get("/topics?page_size=1&page_sice=2&%70age_sice=3", headers=AUTH)
    assert answer.status_code == 400
    assert answer.json()["errors"] == [
        {
            "field": "page_sice",
            "detail": "unknown query parameter; it has page_size, page_token",
        }
    ]
    assert "page_sice; it has page_size, page_token" in answer.json()["detail"]
    none = await http.get("/whoami?verbose", headers=AUTH)
    assert (none.status_code, "it has none" in none.json()["detail"]) == (400, True)
    assert (await http.get("/topics?page_sice=2")).status_code == 401


def http_scope(method: str = "POST", path: str = "/echo") -> Scope:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"authorization", AUTH["authorization"].encode())],
    }


class Wire:
    """A scripted client: what it sends, and what it was sent."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.messages = list(messages)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> dict[str, Any]:
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_the_body_is_drained_before_an_error_is_answered() -> None:
    app = app_of(made_up("POST", "/echo", raising(Problem(400, "x", "X")), "publish", "*"))
    wire = Wire(part(b"a"), part(b"b"), part(b"", more=False))
    await app(http_scope(), wire.receive, wire.send)
    assert wire.messages == []
    assert wire.sent[0]["status"] == 400


async def test_a_client_that_left_is_answered_nothing() -> None:
    for handler in (echo, raising(ClientGone()), raising(Problem(400, "x", "X"))):
        app = app_of(made_up("POST", "/echo", handler, "publish", "*"))
        wire = Wire(part(b"a"), {"type": "http.disconnect"})
        await app(http_scope(), wire.receive, wire.send)
        assert wire.sent == []
        assert app.running.count == 0


async def test_a_stalled_body_is_408() -> None:
    app = app_of(made_up("POST", "/echo", echo, "publish", "*"), body_timeout_s=0.05)
    wire = Wire(part(b"a"))
    sweeper = asyncio.ensure_future(app.sweep())
    await asyncio.wait_for(app(http_scope(), wire.receive, wire.send), 5)
    sweeper.cancel()
    assert wire.sent[0]["status"] == 408


async def test_cancellation_is_not_swallowed() -> None:
    app = app_of(made_up("POST", "/echo", echo, "publish", "*"))
    task = asyncio.ensure_future(app(http_scope(), Wire().receive, Wire().send))
    await asyncio.sleep(0)
    assert app.running.count == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(app.running.until_idle(), 1)


async def test_an_error_after_the_answer_began_breaks_the_connection() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("midway")

    app = app_of(made_up("POST", "/echo", half, "publish", "*"))
    with pytest.raises(RuntimeError, match="midway"):
        await app(http_scope(), Wire(part(b"", more=False)).receive, Wire().send)


async def test_readiness_and_pages() -> None:
    readiness = Readiness()
    reason: list[str | None] = ["no leader yet"]
    readiness.add("store", lambda: reason[0])
    verifier = DevTokenVerifier(bytes(32))
    app = create_app([], verifier, readiness)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        unready = await http.get("/readyz")
        assert (unready.status_code, unready.json()["reasons"]) == (503, {"store": "no leader yet"})
        reason[0] = None
        assert (await http.get("/readyz")).status_code == 200
        readiness.draining = True
        assert (await http.get("/readyz")).json()["reasons"] == {"server": "draining"}
        for hidden in ("/metrics", "/%6detrics", "/metric%73"):
            assert (await http.get(hidden)).status_code == 404
        assert (await http.get("/docs")).headers["content-type"].startswith("text/html")
        assert (await http.get("/openapi.json")).json()["openapi"] == "3.1.0"
        assert (await http.get("/")).status_code == 302


# Refused because there is too much.


class Pressed(Admission):
    """An admission under too much load, which refuses every request except acks."""

    @property
    def pressed(self) -> bool:
        return True

    def _reason(self, tenant_id: bytes, tenant: object, kind: Kind, body_bytes: int) -> str | None:
        return None if kind.urgency is Urgency.SETTLING else "delay"


HEAD = b"POST /echo HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %b\r\nContent-Length: 2"


async def test_overload_is_answered_before_the_handler_sees_anything(client: Any) -> None:
    http = client(made_up("POST", "/echo", raising(AssertionError()), "publish", "*"),
                  made_up("GET", "/free", echo, "public"), admission=Pressed())  # fmt: skip
    answer = await http.post("/echo", content=b"hi", headers=AUTH)
    assert (answer.status_code, answer.json()["type"][-10:]) == (503, "overloaded")
    assert int(answer.headers["retry-after"]) in (1, 2, 3)
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await http.get("/healthz")).status_code == 200


@pytest.mark.parametrize("handler", [echo, raising(RuntimeError()), raising(ClientGone())])
async def test_what_has_ended_is_counted_out_however_it_ended(handler: Handler) -> None:
    admission = Admission()
    app = app_of(made_up("POST", "/echo", handler, "publish", "*"), admission=admission)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
        with contextlib.suppress(Exception):
            await http.post("/echo", content=b"hi", headers=AUTH)
    assert (admission.running, admission.body_bytes) == (0, 0)


async def test_a_request_is_turned_away_by_its_bytes_alone() -> None:
    app = app_of(made_up("POST", "/echo", echo, "publish", "*"), admission=Pressed())
    raw = HEAD % TOKEN.encode()
    assert app.turned_away(raw, 2) is None, "whose token it is must be known"
    await app._verifier.verify(TOKEN.encode())
    assert app.turned_away(raw, 1) is None, "its body is not here"
    for _ in range(2):
        away = app.turned_away(raw, 5)
        assert away is not None
        assert (away.length, away.close, away.own) == (2, False, True)
        assert b"overloaded" in away.refusal.body
    proxied = app.turned_away(raw + b"\r\nX-Forwarded-For: 192.0.2.1", 5)
    assert proxied is not None
    assert not proxied.own
    assert app.turned_away(raw.replace(b"POST", b"BREW"), 2) is None
    assert app.turned_away(raw.replace(b"/echo", b"/other"), 2) is None


async def test_requests_of_a_tenant_are_held_to_its_limit_and_counted(client: Any) -> None:
    limiter = Limiter([REQUESTS], {}, lambda: 1000.0)
    limiter.follow([TenantQuota(DEV_TENANT_ID, {REQUESTS: 8})])
    usage = Counted()
    http = client(
        made_up("POST", "/echo", echo, "publish", "*"),
        quotas=limiter,
        usage=usage,
    )
    answers = [await http.post("/echo", content=b"hi", headers=AUTH) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429]
    refused = answers[2]
    assert refused.json()["type"].endswith("/rate-limited")
    assert (refused.json()["quota"], refused.json()["limit"]) == (REQUESTS, 8)
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["ratelimit-policy"] == '"requests_per_second";q=8;w=1'
    assert refused.headers["ratelimit"] == '"requests_per_second";r=0;t=1'
    assert (await http.post("/echo", headers={"authorization": "Bearer no"})).status_code == 401
    assert usage.counted == [(DEV_TENANT_ID, "requests", 1)] * 2


class Counted:
    """`edge.quota.Usage`."""

    def __init__(self) -> None:
        self.counted: list[tuple[bytes, str, float]] = []

    def count(self, tenant_id: bytes, metric: str, value: float) -> None:
        self.counted.append((tenant_id, metric, value))
