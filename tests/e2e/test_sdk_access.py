"""Tenants, who may do what in them, and push subscriptions, through both clients of the SDK."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime

import pytest
from packetboat import AsyncClient, Conflict, NotAuthorized, NotFound, Retention
from packetboat.credentials import ClientCredentials
from packetboat.models import FirstOwner, Owner, Push

from harness.hostile_endpoint import HostileEndpoint
from harness.hostile_endpoint import running as running_endpoint
from tests.e2e.both_clients import KINDS, connected
from tests.e2e.installation import Installation

PATIENCE_S = 60.0
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def operator(running: Installation, kind: str) -> AsyncIterator[AsyncClient]:
    async with connected(kind, running.url, running.token) as client:
        yield client


@pytest.fixture
async def owner(operator: AsyncClient) -> Owner:
    """Return the owner of a new tenant."""
    name = f"sdk-{uuid.uuid4().hex[:8]}"
    made = await operator.tenants.create(name, owner=FirstOwner("root"), display_name="A test")
    assert made.owner is not None
    return made.owner


@pytest.fixture
async def client(running: Installation, kind: str, owner: Owner) -> AsyncIterator[AsyncClient]:
    """Yield a client with the owner's credentials."""
    credentials = ClientCredentials(owner.client_id, owner.client_secret)
    async with connected(kind, running.url, credentials=credentials) as client:
        yield client


async def test_tenants_quotas_and_usage(operator: AsyncClient, client: AsyncClient) -> None:
    name = (await client.whoami()).tenant
    tenant = await operator.tenants.get(name)
    assert (tenant.display_name, tenant.owner) == ("A test", None)
    put = await operator.tenants.put(name, if_match=tenant.etag, display_name="Another")
    assert put.display_name == "Another"
    with pytest.raises(Conflict):
        await operator.tenants.put(name, if_match=tenant.etag)
    assert name in [each.name async for each in operator.tenants.list()]
    assert len((await operator.tenants.page(page_size=1)).items) == 1
    quotas = await operator.quotas.put(name, {"topics": 3}, weight=2)
    assert (quotas.own, quotas.weight) == ({"topics": 3}, 2)
    assert (await client.quotas.get()).limits["topics"] == 3
    assert (await operator.quotas.get(name)).etag == quotas.etag
    hours = [each async for each in client.usage.list(since=LONG_AGO, page_size=1)]
    assert all(each.value >= 0 for each in hours)
    assert (await operator.usage.page(name, since=LONG_AGO)).next_page_token is None
    assert (await operator.tenants.delete(name)).state == "deleting"


async def test_clients_and_their_secrets(
    client: AsyncClient, running: Installation, kind: str
) -> None:
    made = await client.clients.create("worker", display_name="W", labels={"a": "b"})
    assert made.client_secret is not None
    with pytest.raises(Conflict):
        await client.clients.create("worker")
    await client.policies.create("workers", "viewer", ["client:worker"])
    token = await client.tokens.get(made.client_id, made.client_secret, scope="read")
    async with connected(kind, running.url, token.access_token) as worker:
        me = await worker.whoami()
        assert (me.subject, [role.role for role in me.roles]) == ("client:worker", ["viewer"])
        with pytest.raises(NotAuthorized):
            await worker.topics.create("a-topic")
    told = await client.tokens.introspect(made.client_id, made.client_secret, token.access_token)
    assert (told.active, told.sub) == (True, "client:worker")
    await client.tokens.revoke(made.client_id, made.client_secret, token.access_token)
    again = await client.clients.add_secret("worker", old_expires_in_seconds=0)
    assert again.client_secret not in (None, made.client_secret)
    shown = await client.clients.get("worker")
    assert (shown.client_secret, shown.labels) == (None, {"a": "b"})
    put = await client.clients.put("worker", if_match=shown.etag, state="disabled")
    assert (put.state, put.display_name) == ("disabled", "")
    assert (await client.clients.revoke_tokens("worker")).tokens_valid_from is not None
    for secret in (await client.clients.get("worker")).secrets[1:]:
        await client.clients.remove_secret("worker", secret.prefix)
    assert "worker" in [each.name async for each in client.clients.list(page_size=1)]
    assert len((await client.clients.page(page_size=1)).items) == 1
    await client.clients.delete("worker")


async def test_keys(client: AsyncClient, running: Installation, kind: str) -> None:
    made = await client.keys.create("reader", ["read"], labels={"a": "b"})
    assert made.key is not None
    async with connected(kind, running.url, made.key) as reader:
        assert [each async for each in reader.topics.list()] == []
        with pytest.raises(NotAuthorized):
            await reader.topics.create("a-topic")
    rotated = await client.keys.rotate("reader", old_expires_in_seconds=0)
    assert rotated.key not in (None, made.key)
    shown = await client.keys.get("reader")
    assert (shown.key, shown.scopes) == (None, ("read",))
    put = await client.keys.put("reader", ["read", "publish"], if_match=shown.etag)
    assert put.scopes == ("read", "publish")
    assert [each.name async for each in client.keys.list()] == ["reader"]
    assert len((await client.keys.page()).items) == 1
    await client.keys.delete("reader")
    with pytest.raises(NotFound):
        await client.keys.get("reader")


async def test_policies_and_issuers(client: AsyncClient) -> None:
    made = await client.policies.create("p", "publisher", ["client:a"], resources=["topics/a-*"])
    assert made.resources == ("topics/a-*",)
    put = await client.policies.put("p", "subscriber", ["client:b"], if_match=made.etag)
    assert (put.role, put.members, put.resources) == ("subscriber", ("client:b",), ("*",))
    assert (await client.policies.get("p")).etag == put.etag
    assert "p" in [each.name async for each in client.policies.list(page_size=1)]
    assert len((await client.policies.page(page_size=1)).items) == 1
    await client.policies.delete("p", if_match=put.etag)
    issuer = await client.issuers.create("i", "https://id.example")
    assert (issuer.algorithms, issuer.subject_claim) == (("RS256",), "sub")
    assert (issuer.trust, issuer.audience) == ("audience", (await client.whoami()).token_audience)
    changed = await client.issuers.put(
        "i", "https://id.example", issuer.audience, required_claims={"a": "b"}, if_match=issuer.etag
    )
    assert (await client.issuers.get("i")) == changed
    assert [each.name async for each in client.issuers.list()] == ["i"]
    assert len((await client.issuers.page()).items) == 1
    await client.issuers.delete("i")


async def test_the_audit(operator: AsyncClient, client: AsyncClient) -> None:
    name = (await client.whoami()).tenant
    await client.clients.create("audited")
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := [e async for e in client.audit.list(action="createClient")]):
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.1)
    (entry,) = found
    assert (entry.actor, entry.resource, entry.status) == ("client:root", "clients/audited", 201)
    page = await client.audit.page(resource="clients/audited", order="oldest", page_size=1)
    assert page.items == (entry,)
    assert [e async for e in client.audit.export(action="createClient")] == [entry]
    assert entry in [e async for e in operator.audit.export(name, since=LONG_AGO)]
    assert entry in (await operator.audit.page(name)).items


@pytest.fixture(scope="module")
def endpoint() -> Iterator[HostileEndpoint]:
    with running_endpoint() as made:
        yield made


async def test_webhooks(operator: AsyncClient, endpoint: HostileEndpoint) -> None:
    name = f"sdk-{uuid.uuid4().hex[:8]}"
    push = Push(url=endpoint.url("/200"), headers={"X-A": "b"}, verify=False)
    await operator.topics.create(name, partitions=1, retention=Retention("retain"))
    made = await operator.subscriptions.create(name, name, push=push, start="earliest")
    assert made.push is not None
    assert (made.type, made.push.headers) == ("push", {"X-A": "set"})
    assert made.push.signing_secrets[0].secret is not None
    assert (await operator.webhooks.test(name)).outcome == "delivered"
    await operator.publish_batch(name, ["a"])
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := [each async for each in operator.webhooks.attempts(name)]):
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.1)
    assert (found[0].outcome, found[0].status) == ("delivered", 200)
    page = await operator.webhooks.attempts_page(name, outcome="failed")
    assert page.items == ()
    await _replayed(operator, name, found[0].message_id)
    secrets = await operator.webhooks.signing_secrets(name)
    new = await operator.webhooks.create_signing_secret(name, if_match=secrets.etag)
    assert (new.secret or "").startswith("whsec_")
    with pytest.raises(Conflict):
        await operator.webhooks.create_signing_secret(name, kind="v1a", if_match=secrets.etag)
    await operator.webhooks.delete_signing_secret(name, secrets.signing_secrets[0].id)
    assert (await operator.webhooks.enable(name)).state == "enabled"
    assert (await operator.webhooks.verify(name)).state in ("enabled", "unverified")
    put = await operator.subscriptions.update(name, type="pull", push=None)
    assert (put.type, put.push) == ("pull", None)
    await operator.topics.delete(name, force=True)


async def _replayed(client: AsyncClient, name: str, message_id: str) -> None:
    """Replay a message once its delivery is settled."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (await client.webhooks.replay(name, [message_id])).replayed:
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.1)
