"""Two tenants on one Postgres and one store: neither sees, names or touches what is the other's.

The development tenant is served by a running installation; the other one by the gateway's and the
publish role's own application in this process, with another verifier in front of it.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import uuid
from collections.abc import AsyncIterator

import httpx2
import pytest

from auth.errors import TokenRefused
from auth.permissions import GRANTABLE
from auth.principal import Principal
from gateway.app import create_app
from gateway.settings import Role, ServerSettings
from gateway.wiring import open_parts
from metadata.database import Database
from metadata.embedded import EmbeddedPostgres
from metadata.settings import DatabaseSettings
from metadata.tenants import TenantRepository
from tests.e2e.installation import Installation

OTHER_TENANT = uuid.uuid4().bytes
TOKEN = secrets.token_urlsafe(16)


class OtherTenant:
    """Knows one token, of a tenant that is not the development one."""

    async def verify(self, token: bytes) -> Principal:
        if token.decode() != TOKEN:
            raise TokenRefused
        return Principal(OTHER_TENANT, "other", GRANTABLE)


@pytest.fixture
async def other(
    running: Installation, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the other tenant."""
    state = json.loads((running.directory / "state.json").read_text())
    postgres = EmbeddedPostgres(running.directory / "postgres", port=state["ports"]["postgres"])
    monkeypatch.setenv("PACKETBOAT_DATABASE_URL", postgres.url)
    database = Database(DatabaseSettings(url=postgres.url))
    await database.connect()
    await TenantRepository(database).ensure(OTHER_TENANT, "other")
    await database.close()
    settings = {
        role: ServerSettings(
            role=role,
            store_nodes={n: ("127.0.0.1", p) for n, p in enumerate(state["ports"]["store"], 1)},
            store_secret=bytes.fromhex(state["store_secret"]),
        )
        for role in (Role.GATEWAY, Role.PUBLISH)
    }
    async with (
        open_parts(settings[Role.GATEWAY]) as control,
        open_parts(settings[Role.PUBLISH]) as publish,
    ):
        routes = [*control.routes, *publish.routes]
        app = create_app(routes, OtherTenant(), control.readiness)
        for _ in range(200):
            if not control.readiness.reasons() and not publish.readiness.reasons():
                break
            await asyncio.sleep(0.05)
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app),
            base_url="http://other",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
        ) as client:
            yield client


async def test_tenants_share_nothing(running: Installation, other: httpx2.AsyncClient) -> None:
    http, url = running.session(), running.url
    name = f"shared-name-{uuid.uuid4().hex[:8]}"
    made = await other.post("/topics", json={"name": name})
    assert made.status_code == 201, made.text
    made = await other.post(f"/topics/{name}/subscriptions", json={"name": name})
    assert made.status_code == 201, made.text
    published = await other.post(f"/topics/{name}/messages", content=b"theirs")
    assert published.status_code == 201, published.text
    message_id = published.json()["message_id"]

    # What is the other's is not there: never 403, which would say that it exists.
    for method, path in (
        ("GET", f"/topics/{name}"),
        ("DELETE", f"/topics/{name}"),
        ("POST", f"/topics/{name}/messages"),
        ("GET", f"/topics/{name}/messages/{message_id}"),
        ("GET", f"/topics/{name}/messages/{message_id}/ack"),
        ("GET", f"/topics/{name}/subscriptions"),
        ("GET", f"/topics/{name}/subscriptions/{name}/messages"),
        ("GET", f"/subscriptions/{name}"),
        ("DELETE", f"/subscriptions/{name}"),
        ("GET", f"/subscriptions/{name}/messages"),
        ("GET", f"/subscriptions/{name}/backlog"),
        ("GET", f"/subscriptions/{name}/skip_rules"),
        ("DELETE", f"/subscriptions/{name}/skip_rules/{'0' * 32}"),
    ):
        assert http.request(method, url + path).status_code == 404, (method, path)
    for method, path, body in (
        ("POST", f"/subscriptions/{name}/ack", {"message_id": message_id}),
        ("PATCH", f"/subscriptions/{name}", {}),
        ("PATCH", f"/topics/{name}", {}),
        ("POST", f"/subscriptions/{name}/skip_rules", {"expression": "true", "reason": "x"}),
        ("POST", f"/subscriptions/{name}:preview_filter", {"filter": "true"}),
        ("POST", f"/topics/{name}:preview_filter", {"filter": "true"}),
    ):
        assert http.request(method, url + path, json=body).status_code == 404, (method, path)
    assert name not in http.get(f"{url}/topics", params={"page_size": 1000}).text
    assert name not in http.get(f"{url}/subscriptions", params={"page_size": 1000}).text

    # The same names are free here, and lead to other things.
    assert http.post(f"{url}/topics", json={"name": name}).status_code == 201
    mine = {"name": name, "start": "earliest"}
    assert http.post(f"{url}/topics/{name}/subscriptions", json=mine).status_code == 201
    assert http.get(f"{url}/subscriptions/{name}/messages").json()["messages"] == []
    assert http.get(f"{url}/topics/{name}/messages/{message_id}").status_code == 404
    acked = http.post(f"{url}/subscriptions/{name}/ack", json={"message_id": message_id}).json()
    assert acked["acked"] == 0
    assert http.delete(f"{url}/topics/{name}").status_code == 204
    assert (await other.get(f"/topics/{name}")).status_code == 200
    assert (await other.get(f"/subscriptions/{name}")).status_code == 200


async def test_a_token_is_one_tenant_s(running: Installation, other: httpx2.AsyncClient) -> None:
    strange = {"Authorization": f"Bearer {running.token}"}
    assert (await other.get("/topics", headers=strange)).status_code == 401
    http = running.session()
    http.headers["Authorization"] = f"Bearer {TOKEN}"
    assert http.get(f"{running.url}/topics").status_code == 401


def test_secrets_are_in_no_log(running: Installation) -> None:
    http = running.session()
    http.get(f"{running.url}/topics")
    http.get(f"{running.url}/topics", headers={"Authorization": f"Bearer {running.token}x"})
    state = json.loads((running.directory / "state.json").read_text())
    logs = running.logs() + "".join(
        path.read_text(errors="replace") for path in (running.directory / "logs").iterdir()
    )
    for secret in (running.token, state["store_secret"], state["ack_secret"]):
        assert secret not in logs
