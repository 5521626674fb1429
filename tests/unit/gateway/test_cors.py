"""Pages of other origins: which may read answers, and what a browser is told they may send."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx2
import pytest

from auth.development import DevTokenVerifier
from edge.asgi import Receive, Scope, Send, respond
from gateway.app import create_app
from gateway.configuration.settings import ServerSettings, SettingsError
from gateway.readiness import Readiness
from harness.made_up_routes import made_up
from tests.unit.gateway.test_dispatch import AUTH, TOKEN

PAGE = "https://app.example.com"
PREFLIGHT = {"origin": PAGE, "access-control-request-method": "POST"}


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, b"{}", headers=[(b"etag", b'"1"')])


def client(*origins: str) -> httpx2.AsyncClient:
    verifier = DevTokenVerifier(hashlib.sha256(TOKEN.encode()).digest())
    routes = [made_up("POST", "/topics", hello, "manage", "*")]
    app = create_app(routes, verifier, Readiness(), cors_origins=origins)
    transport = httpx2.ASGITransport(app=app)
    return httpx2.AsyncClient(transport=transport, base_url="http://test")


def cors_of(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if "access-control" in name}


async def test_without_the_setting_nothing_is_allowed() -> None:
    async with client() as http:
        answer = await http.post("/topics", headers=AUTH | {"origin": PAGE})
        assert (answer.status_code, cors_of(answer)) == (200, {})
        refused = await http.options("/topics", headers=PREFLIGHT)
        assert (refused.status_code, cors_of(refused)) == (405, {})


async def test_a_page_of_a_named_origin_may_read_answers_and_refusals() -> None:
    async with client(PAGE, "http://localhost:3000") as http:
        for headers, status in ((AUTH, 200), ({}, 401)):
            answer = await http.post("/topics", headers=headers | {"origin": PAGE})
            assert answer.status_code == status
            told = cors_of(answer)
            assert told["access-control-allow-origin"] == PAGE
            exposed = told["access-control-expose-headers"].split(", ")
            assert {"ETag", "X-Request-Id", "Retry-After"} <= set(exposed)
            assert "access-control-allow-credentials" not in told
            assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize("origin", [None, "https://evil.example", PAGE + ".evil", "null"])
async def test_pages_of_others_may_not(origin: str | None) -> None:
    given = {} if origin is None else {"origin": origin}
    async with client(PAGE) as http:
        answer = await http.post("/topics", headers=AUTH | given)
        assert (answer.status_code, cors_of(answer)) == (200, {})
        assert answer.headers["vary"] == "Origin"
        refused = await http.options("/topics", headers=PREFLIGHT | {"origin": origin or ""})
        assert (refused.status_code, cors_of(refused)) == (405, {})


async def test_a_preflight_needs_no_token_and_allows_what_is_asked_for() -> None:
    asked = {"access-control-request-headers": "authorization,packetboat-attribute-colour"}
    async with client(PAGE) as http:
        answer = await http.options("/topics", headers=PREFLIGHT | asked)
        assert (answer.status_code, answer.content) == (204, b"")
        told = cors_of(answer)
        assert told["access-control-allow-origin"] == PAGE
        assert "POST" in told["access-control-allow-methods"].split(", ")
        assert told["access-control-allow-headers"] == asked["access-control-request-headers"]
        odd = await http.options(
            "/topics", headers=PREFLIGHT | {"access-control-request-headers": "a;b"}
        )
        assert "access-control-allow-headers" not in cors_of(odd)


async def test_every_origin_where_the_setting_says_so() -> None:
    async with client("*") as http:
        answer = await http.post("/topics", headers=AUTH | {"origin": "https://any.example"})
        assert cors_of(answer)["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    ("text", "origins"),
    [
        ("https://app.example.com, http://localhost:3000", (PAGE, "http://localhost:3000")),
        ("*", ("*",)),
        ("", ()),
    ],
)
def test_origins_are_read_from_the_environment(text: str, origins: tuple[str, ...]) -> None:
    environment = {
        "PACKETBOAT_CORS_ORIGINS": text,
        "PACKETBOAT_STORE_NODES": "1=127.0.0.1:1",
        "PACKETBOAT_STORE_SECRET": "00" * 16,
        "PACKETBOAT_ROLE": "publish",
    }
    assert ServerSettings.from_environment(environment).cors_origins == origins


@pytest.mark.parametrize("text", ["app.example.com", PAGE + "/", f"*,{PAGE}", "null"])
def test_what_is_no_origin_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match="PACKETBOAT_CORS_ORIGINS"):
        ServerSettings.from_environment({"PACKETBOAT_CORS_ORIGINS": text})
