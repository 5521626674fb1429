"""The OAuth2 endpoints, without sockets and without Postgres: forms in, answers of the RFCs out."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from auth.access_token_verifier import AccessTokenVerifier
from auth.access_tokens import AccessTokens
from auth.client_directory import ClientDirectory
from auth.errors import TokenRefused
from auth.permissions import OF_OPERATORS, Permission
from auth.principal import FromPolicies, everything
from auth.revocations import Revocations
from edge.asgi import Route
from edge.caller import Granted
from edge.problem import Problem
from gateway.oauth import endpoints as module
from gateway.oauth.discovery import DiscoveryRoutes
from gateway.oauth.endpoints import OAuthEndpoints
from gateway.oauth.slow_down import EVERY_S, FREE, MAX_CLIENTS, MOST_WAIT_S, SlowDown
from metadata.errors import MetadataUnavailable, NotFound
from metadata.tenancy.clients import Client
from metadata.tenancy.credentials import new_client_id, new_client_secret
from metadata.tenancy.revoked_tokens import RevokedToken
from metadata.tenancy.tenants import PLATFORM_ID, PLATFORM_NAME
from metadata.types import Change, ChangeKind, Tenant
from openapi.tenants import State
from tests.unit.auth.keyring import Clock, made_keys

ACME, OTHER = b"a" * 16, b"o" * 16
ISSUER = "https://packetboat.example"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """Two tenants with one client each, and an operator, with all that the endpoints need
    in memory.
    """

    def __init__(self) -> None:
        self.down = False
        self.secrets: dict[str, str] = {}
        self.by_id: dict[str, Client] = {}
        self.named = {
            name: Tenant(tenant_id, name, "", "active", {}, (), 1, NOW, NOW)
            for name, tenant_id in (("acme", ACME), ("other", OTHER), (PLATFORM_NAME, PLATFORM_ID))
        }
        self.revoked: list[RevokedToken] = []
        self.orders = self.add(ACME, "orders")
        self.stranger = self.add(OTHER, "stranger")
        self.operator = self.add(PLATFORM_ID, "root")

    async def open(self) -> World:
        self.clock = Clock()
        self.keys = await made_keys(self.clock)
        self.tokens = AccessTokens(
            self.keys, issuer=ISSUER, audience="packetboat", lasts_s=3600, clock=self.clock
        )
        self.revocations = Revocations(cast(Any, self), clock=self.clock)
        self.directory = ClientDirectory(cast(Any, self), cast(Any, self))
        self.verifier = AccessTokenVerifier(self.tokens, self.revocations, self.directory, self)
        self.endpoints = OAuthEndpoints(
            self.tokens,
            self.verifier,
            self.revocations,
            self.directory,
            cast(Any, self),
            cast(Any, self),
            cast(Any, self),
        )
        return self

    def add(self, tenant_id: bytes, name: str) -> str:
        """Add a client; return its client id."""
        minted, client_id = new_client_secret(NOW), new_client_id()
        self.secrets[client_id] = minted.text
        self.by_id[client_id] = Client(
            tenant_id=tenant_id,
            uid=name.encode().ljust(16, b"_"),
            name=name,
            client_id=client_id,
            display_name="",
            secrets=(minted.secret,),
            state="active",
            tokens_valid_from=None,
            labels={},
            version=1,
            created_at=NOW,
            updated_at=NOW,
            last_used_at=None,
        )
        return client_id

    async def change(self, client_id: str, **changed: Any) -> None:
        self.by_id[client_id] = client = replace(self.by_id[client_id], **changed)
        change = Change(1, ChangeKind.CLIENT, client.tenant_id, client.uid, client.name)
        await self.directory.on_changes([change])

    async def set_tenant(self, name: str, state: State) -> None:
        self.named[name] = tenant = replace(self.named[name], state=state)
        change = Change(1, ChangeKind.TENANT, tenant.tenant_id, tenant.tenant_id, name)
        await self.directory.on_changes([change])

    # The methods of the repositories.

    async def by_client_id(self, client_id: str) -> Client | None:
        if self.down:
            raise MetadataUnavailable("down")
        return self.by_id.get(client_id)

    async def touch(self, used: Any) -> None: ...

    async def get(self, name: str) -> Tenant:
        if name not in self.named:
            raise NotFound("tenant", name)
        return self.named[name]

    async def get_by_id(self, tenant_id: bytes) -> Tenant:
        for tenant in self.named.values():
            if tenant.tenant_id == tenant_id:
                return tenant
        raise NotFound("tenant", tenant_id.hex())

    async def revoke(self, token: RevokedToken) -> None:
        if self.down:
            raise MetadataUnavailable("down")
        self.revoked.append(token)

    async def all(self) -> tuple[RevokedToken, ...]:
        return tuple(self.revoked)

    async def of(self, tenant_id: bytes, subject: str) -> FromPolicies:
        granted = Granted()
        granted.add(1, "*", "*")
        return FromPolicies(b"", frozenset({"publish", "read"}), granted, {"publish": 1, "read": 1})

    # The requests of callers.

    async def post(
        self,
        path: str,
        form: Mapping[str, str] | bytes,
        *,
        basic: tuple[str, str] | bytes | None = None,
        content_type: str = "application/x-www-form-urlencoded",
    ) -> Any:
        headers = [(b"content-type", content_type.encode())]
        if isinstance(basic, bytes):
            headers.append((b"authorization", basic))
        elif basic is not None:
            text = base64.b64encode(":".join(basic).encode())
            headers.append((b"authorization", b"Basic " + text))
        body = form if isinstance(form, bytes) else urlencode(form).encode()
        return await call(
            [*self.endpoints.routes(), *self.endpoints.ending_routes()], "POST", path, headers, body
        )

    def basic(self, client_id: str) -> tuple[str, str]:
        return client_id, self.secrets[client_id]

    async def token(self, caller: str, /, **form: str) -> Any:
        asked = {"grant_type": "client_credentials", **form}
        return await self.post("/oauth/token", asked, basic=self.basic(caller))


async def call(
    routes: list[Route], method: str, path: str, headers: list[Any], body: bytes = b""
) -> Any:
    """Call a route; return the status, the headers and the JSON of the answer."""
    (handler,) = [r.handler for r in routes if (r.method, r.path) == (method, path)]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await handler({"type": "http", "headers": headers}, receive, send)
    start, end = sent
    names = {name.decode(): value.decode() for name, value in start["headers"]}
    return SimpleNamespace(status=start["status"], headers=names, body=json.loads(end["body"]))


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> World:
    waits: list[float] = []

    async def no_wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=no_wait))
    world = await World().open()
    world.waits = waits  # type: ignore[attr-defined]
    return world


async def test_a_token_by_basic_credentials(world: World) -> None:
    answer = await world.token(world.orders)
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    assert answer.body["token_type"] == "Bearer"
    assert answer.body["expires_in"] == 3600
    assert answer.body["scope"] == "publish consume lock read manage administer"
    principal = await world.verifier.verify(answer.body["access_token"].encode())
    assert principal.tenant_id == ACME
    assert principal.subject == "client:orders"
    assert principal.may(Permission.PUBLISH)
    assert not principal.may(Permission.MANAGE)
    assert principal.expires_at == world.clock.now_s + 3600


async def test_a_token_by_credentials_in_the_body(world: World) -> None:
    form = {
        "grant_type": "client_credentials",
        "client_id": world.orders,
        "client_secret": world.secrets[world.orders],
    }
    assert (await world.post("/oauth/token", form)).status == 200


async def test_no_log_has_a_token_or_a_secret(
    world: World, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    token = (await world.token(world.orders)).body["access_token"]
    for path in ("introspect", "revoke"):
        await world.post(f"/oauth/{path}", {"token": token}, basic=world.basic(world.orders))
    await world.post("/oauth/token", {}, basic=(world.orders, "pbs_wrong"))
    printed = capsys.readouterr()
    logged = caplog.text + printed.out + printed.err
    for secret in (token, world.secrets[world.orders], "pbs_wrong"):
        assert secret not in logged


async def test_a_scope_narrows_what_policies_grant(world: World) -> None:
    answer = await world.token(world.orders, scope="read manage")
    assert answer.body["scope"] == "read manage"
    principal = await world.verifier.verify(answer.body["access_token"].encode())
    assert [each for each in Permission if principal.may(each)] == [Permission.READ]


@pytest.mark.parametrize(
    "scope", ["root", "operate", "run_exports", "public", "read root", "READ", " "]
)
async def test_scopes_that_cannot_be_asked_for(world: World, scope: str) -> None:
    answer = await world.token(world.orders, scope=scope)
    assert (answer.status, answer.body["error"]) == (400, "invalid_scope")


async def test_an_operator_in_no_tenant_and_in_one(world: World) -> None:
    answer = await world.token(world.operator)
    principal = await world.verifier.verify(answer.body["access_token"].encode())
    assert (principal.tenant_id, principal.subject) == (PLATFORM_ID, "operator:root")
    assert {each for each in Permission if principal.may(each)} == OF_OPERATORS

    answer = await world.token(world.operator, tenant="acme")
    principal = await world.verifier.verify(answer.body["access_token"].encode())
    assert (principal.tenant_id, principal.subject) == (ACME, "operator:root")
    assert principal.may(Permission.ADMINISTER)
    assert not principal.may(Permission.OPERATE)
    claims = jwt.decode(
        answer.body["access_token"],
        KeySet.import_key_set({"keys": list(world.keys.jwks())}),
        ["RS256"],
    ).claims
    assert claims["act"] == {"sub": "operator:root"}


async def test_who_may_name_a_tenant(world: World) -> None:
    assert (await world.token(world.orders, tenant="acme")).status == 200
    for name in ("other", "none", PLATFORM_NAME):
        answer = await world.token(world.orders, tenant=name)
        assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")
    answer = await world.token(world.operator, tenant="none")
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    answer = await world.token(world.operator, tenant="acme", scope="operate")
    assert (answer.status, answer.body["error"]) == (400, "invalid_scope")


async def test_an_operator_that_has_a_part_only(world: World) -> None:
    await world.change(world.operator, permissions=("run_exports",))
    answer = await world.token(world.operator)
    assert answer.body["scope"] == "run_exports"
    principal = await world.verifier.verify(answer.body["access_token"].encode())
    assert principal.grants == everything({Permission.RUN_EXPORTS})
    answer = await world.token(world.operator, scope="operate")
    assert (answer.status, answer.body["error"]) == (400, "invalid_scope")
    answer = await world.token(world.operator, tenant="acme")
    assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")


async def test_what_an_operator_is_held_to_holds_for_tokens_that_it_has(world: World) -> None:
    above = (await world.token(world.operator)).body["access_token"].encode()
    inside = (await world.token(world.operator, tenant="acme")).body["access_token"].encode()
    await world.change(world.operator, permissions=("run_exports",))
    assert (await world.verifier.verify(above)).grants == everything({Permission.RUN_EXPORTS})
    assert (await world.verifier.verify(inside)).grants == frozenset()


async def test_wrong_credentials_are_answered_alike(world: World) -> None:
    """A caller cannot learn whether a client exists."""
    secret = world.secrets[world.orders]
    tried = [
        (world.orders, "pbs_wrong"),
        (world.orders, secret[:-1]),
        (world.orders, world.secrets[world.stranger]),
        (new_client_id(), secret),
        ("pbc_", secret),
        ("admin", secret),
        (world.orders, "x" * 300),
    ]
    bodies = set()
    for basic in tried:
        answer = await world.post("/oauth/token", {"grant_type": "client_credentials"}, basic=basic)
        assert answer.status == 401
        assert answer.headers["www-authenticate"].startswith("Basic realm=")
        assert answer.headers["cache-control"] == "no-store"
        bodies.add(json.dumps(answer.body))
    assert len(bodies) == 1
    assert json.loads(bodies.pop())["error"] == "invalid_client"


@pytest.mark.parametrize(
    "authorization",
    [
        b"Basic",
        b"Basic ",
        b"Basic !",
        b"Bearer x",
        *(b"Basic " + base64.b64encode(text) for text in (b"no colon", b"\xff\xfe:\xff", b":")),
    ],
)
async def test_credentials_that_are_none(world: World, authorization: bytes) -> None:
    answer = await world.post(
        "/oauth/token", {"grant_type": "client_credentials"}, basic=authorization
    )
    assert (answer.status, answer.body["error"]) == (401, "invalid_client")


async def test_no_credentials(world: World) -> None:
    for form in ({}, {"client_id": world.orders}, {"client_secret": "x"}):
        answer = await world.post("/oauth/token", {"grant_type": "client_credentials"} | form)
        assert (answer.status, answer.body["error"]) == (401, "invalid_client")


async def test_credentials_in_two_ways_are_refused(world: World) -> None:
    both = {"client_id": world.orders, "client_secret": world.secrets[world.orders]}
    answer = await world.token(world.orders, **both)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    answer = await world.token(world.orders, client_id=world.stranger)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    assert (await world.token(world.orders, client_id=world.orders)).status == 200


@pytest.mark.parametrize("grant", ["password", "refresh_token", "authorization_code", "", "x" * 99])
async def test_other_grants_are_not_supported(world: World, grant: str) -> None:
    answer = await world.post(
        "/oauth/token", {"grant_type": grant}, basic=world.basic(world.orders)
    )
    assert (answer.status, answer.body["error"]) == (400, "unsupported_grant_type")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"grant_type=client_credentials&grant_type=client_credentials", None),
        (b"grant_type", None),
        (b"\xff=1", None),
        (b"grant_type=%ff", None),
        (b"&".join(b"f%d=1" % n for n in range(17)), None),
        (b'{"grant_type":"client_credentials"}', "application/json"),
        (b"grant_type=client_credentials", "text/plain"),
    ],
)
async def test_bodies_that_are_no_form(world: World, body: bytes, content_type: str | None) -> None:
    more = {} if content_type is None else {"content_type": content_type}
    answer = await world.post("/oauth/token", body, basic=world.basic(world.orders), **more)
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


async def test_a_request_for_nothing_is_not_one(world: World) -> None:
    answer = await world.post("/oauth/token", {}, basic=world.basic(world.orders))
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")


async def test_a_huge_body_is_refused(world: World) -> None:
    with pytest.raises(Problem) as refused:
        await world.post("/oauth/token", b"x=" + b"1" * 40_000)
    assert refused.value.status == 413


async def test_a_disabled_client_gets_none_and_has_none(world: World) -> None:
    token = (await world.token(world.orders)).body["access_token"].encode()
    await world.verifier.verify(token)
    await world.change(world.orders, state="disabled")
    assert (await world.token(world.orders)).status == 401
    with pytest.raises(TokenRefused):
        await world.verifier.verify(token)


async def test_all_tokens_of_a_client_are_ended_at_a_moment(world: World) -> None:
    before = (await world.token(world.orders)).body["access_token"].encode()
    valid_from = datetime.fromtimestamp(world.clock.now_s + 0.5, UTC)
    await world.change(world.orders, tokens_valid_from=valid_from)
    with pytest.raises(TokenRefused):
        await world.verifier.verify(before)
    after = (await world.token(world.orders)).body["access_token"].encode()
    await world.verifier.verify(after)


async def test_a_client_that_is_gone_takes_its_tokens_along(world: World) -> None:
    token = (await world.token(world.orders)).body["access_token"].encode()
    client = world.by_id.pop(world.orders)
    await world.directory.on_changes([Change(1, ChangeKind.CLIENT, ACME, client.uid, client.name)])
    # One of the same name is another.
    world.add(ACME, "orders")
    with pytest.raises(TokenRefused):
        await world.verifier.verify(token)


async def test_a_suspended_tenant(world: World) -> None:
    await world.set_tenant("acme", "suspended")
    answer = await world.token(world.orders)
    assert (answer.status, answer.body["error"]) == (400, "unauthorized_client")
    operator = await world.token(world.operator, tenant="acme")
    await world.verifier.verify(operator.body["access_token"].encode())
    await world.set_tenant("acme", "deleting")
    assert (await world.token(world.orders)).status == 401
    assert (await world.token(world.operator, tenant="acme")).status == 400
    with pytest.raises(TokenRefused):
        await world.verifier.verify(operator.body["access_token"].encode())


async def test_a_secret_added_a_moment_ago_is_found(world: World) -> None:
    """The directory may not have heard of it yet."""
    await world.token(world.orders)
    minted = new_client_secret(NOW)
    client = world.by_id[world.orders]
    world.by_id[world.orders] = replace(client, secrets=(*client.secrets, minted.secret))
    world.secrets[world.orders] = minted.text
    assert (await world.token(world.orders)).status == 200


async def test_an_expired_secret_is_refused(world: World) -> None:
    (secret,) = world.by_id[world.orders].secrets
    old = replace(secret, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    await world.change(world.orders, secrets=(old,))
    assert (await world.token(world.orders)).status == 401


async def test_introspection(world: World) -> None:
    token = (await world.token(world.orders, scope="read")).body["access_token"]
    basic = world.basic(world.orders)
    answer = await world.post("/oauth/introspect", {"token": token}, basic=basic)
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.body | {"jti": ""} == {
        "active": True,
        "token_type": "Bearer",
        "iss": ISSUER,
        "sub": "client:orders",
        "aud": "packetboat",
        "exp": world.clock.now_s + 3600,
        "iat": world.clock.now_s,
        "jti": "",
        "client_id": world.orders,
        "tenant": "61616161-6161-6161-6161-616161616161",
        "scope": "read",
    }
    hinted = {"token": token, "token_type_hint": "refresh_token"}
    assert (await world.post("/oauth/introspect", hinted, basic=basic)).body["active"]


async def test_what_introspection_says_nothing_of(world: World) -> None:
    token = (await world.token(world.orders)).body["access_token"]
    for body, client_id in (
        ({"token": token}, world.stranger),
        ({"token": "x"}, world.orders),
        ({"token": token[:-3]}, world.orders),
        ({"token": "é"}, world.orders),
    ):
        answer = await world.post("/oauth/introspect", body, basic=world.basic(client_id))
        assert (answer.status, answer.body) == (200, {"active": False})
    answer = await world.post("/oauth/introspect", {}, basic=world.basic(world.orders))
    assert (answer.status, answer.body["error"]) == (400, "invalid_request")
    answer = await world.post("/oauth/introspect", {"token": token}, basic=("pbc_x", "y"))
    assert answer.status == 401
    answer = await world.post(
        "/oauth/introspect", {"token": token}, basic=world.basic(world.operator)
    )
    assert answer.body["active"]


async def test_revocation(world: World) -> None:
    token = (await world.token(world.orders)).body["access_token"]
    basic = world.basic(world.orders)
    answer = await world.post("/oauth/revoke", {"token": token}, basic=basic)
    assert answer.status == 200
    with pytest.raises(TokenRefused):
        await world.verifier.verify(token.encode())
    inactive = await world.post("/oauth/introspect", {"token": token}, basic=basic)
    assert inactive.body == {"active": False}
    # Again, and what is no token of ours: the client can do nothing about it (RFC 7009 §2.2).
    for again in (token, "x", ""):
        assert (await world.post("/oauth/revoke", {"token": again}, basic=basic)).status == 200
    (revoked, _) = world.revoked
    assert revoked.tenant_id == ACME
    assert revoked.expires_at.timestamp() == world.clock.now_s + 3600


async def test_others_revoke_nothing(world: World) -> None:
    token = (await world.token(world.orders)).body["access_token"]
    answer = await world.post("/oauth/revoke", {"token": token}, basic=world.basic(world.stranger))
    assert (answer.status, answer.body["error"]) == (400, "invalid_grant")
    assert world.revoked == []
    await world.verifier.verify(token.encode())
    answer = await world.post("/oauth/revoke", {"token": token}, basic=world.basic(world.operator))
    assert answer.status == 200
    assert len(world.revoked) == 1


async def test_a_revocation_that_is_not_written_down_is_not_told_as_done(world: World) -> None:
    token = (await world.token(world.orders)).body["access_token"]
    world.down = True
    answer = await world.post("/oauth/revoke", {"token": token}, basic=world.basic(world.orders))
    assert (answer.status, answer.body["error"]) == (503, "temporarily_unavailable")
    assert answer.headers["retry-after"] == "1"


async def test_known_clients_get_tokens_while_postgres_is_down(world: World) -> None:
    await world.token(world.orders)
    world.down = True
    assert (await world.token(world.orders)).status == 200
    answer = await world.token(world.stranger)
    assert (answer.status, answer.body["error"]) == (503, "temporarily_unavailable")


async def test_guesses_are_answered_later_and_later_and_the_right_secret_at_once(
    world: World,
) -> None:
    statuses = []
    for _ in range(20):
        answer = await world.post(
            "/oauth/token",
            {"grant_type": "client_credentials"},
            basic=(world.orders, "pbs_wrong"),
        )
        statuses.append(answer.status)
    assert statuses[: FREE + 1] == [401] * (FREE + 1)
    assert statuses[-1] == 429
    waits = world.waits  # type: ignore[attr-defined]
    assert max(waits) > 0
    waits.clear()
    assert (await world.token(world.orders)).status == 200
    assert waits == []


def test_the_pace_of_wrong_answers() -> None:
    pace = SlowDown()
    assert [pace.failed("a", 0.0) for _ in range(FREE)] == [0.0] * FREE
    waits = [pace.failed("a", 0.0) for _ in range(5)]
    assert waits == [EVERY_S, 2 * EVERY_S, 3 * EVERY_S, None, None]
    assert MOST_WAIT_S == 3 * EVERY_S
    assert pace.failed("b", 0.0) == 0.0
    # As many a second as it says, however they come.
    answered = [pace.failed("a", at / 10) for at in range(1000)]
    assert len([wait for wait in answered if wait is not None]) <= 100 / EVERY_S + FREE
    assert pace.failed("a", 1000.0) == 0.0


def test_the_pace_remembers_a_bounded_number() -> None:
    pace = SlowDown()
    for number in range(MAX_CLIENTS + 10):
        pace.failed(f"c{number}", 0.0)
    assert len(pace._due_s) == MAX_CLIENTS


async def test_held_back_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    world = await World().open()
    gate = asyncio.Event()

    async def wait(seconds: float) -> None:
        await gate.wait()

    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=wait))
    form = {"grant_type": "client_credentials"}
    tries = [
        asyncio.create_task(world.post("/oauth/token", form, basic=(f"pbc_{n}", "x")))
        for n in range(5)
    ]
    done, waiting = await asyncio.wait(tries, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    while len(done) < 3:
        more, waiting = await asyncio.wait(waiting, timeout=5, return_when=asyncio.FIRST_COMPLETED)
        assert more, "three are refused at once"
        done |= more
    assert {task.result().status for task in done} == {429}
    gate.set()
    assert {(await task).status for task in waiting} == {401}


async def test_discovery(world: World) -> None:
    routes = DiscoveryRoutes(world.keys, ISSUER).routes()
    server = await call(routes, "GET", "/.well-known/oauth-authorization-server", [])
    assert server.body["issuer"] == ISSUER
    assert server.body["token_endpoint"] == f"{ISSUER}/oauth/token"
    assert server.body["grant_types_supported"] == ["client_credentials"]
    assert server.headers["cache-control"] == "public, max-age=3600"
    openid = await call(routes, "GET", "/.well-known/openid-configuration", [])
    assert openid.body["jwks_uri"] == f"{ISSUER}/.well-known/jwks.json"
    assert openid.body["id_token_signing_alg_values_supported"] == ["RS256"]
    jwks = await call(routes, "GET", "/.well-known/jwks.json", [])
    assert [key["kid"] for key in jwks.body["keys"]] == [world.keys.signer().kid]
    assert not {"d", "p", "q"} & set(jwks.body["keys"][0])


async def test_the_metadata_is_what_authlib_takes_for_valid(world: World) -> None:
    from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

    routes = DiscoveryRoutes(world.keys, ISSUER).routes()
    server = await call(routes, "GET", "/.well-known/oauth-authorization-server", [])
    metadata = AuthorizationServerMetadata(server.body)
    for name in ("issuer", "token_endpoint", "jwks_uri", "grant_types_supported"):
        getattr(metadata, f"validate_{name}")()


async def test_without_a_public_url_there_is_nothing_to_discover(world: World) -> None:
    routes = DiscoveryRoutes(world.keys, "").routes()
    with pytest.raises(Problem) as refused:
        await call(routes, "GET", "/.well-known/openid-configuration", [])
    assert refused.value.slug == "issuer-not-set"
