"""`GET /whoami` of callers with few grants, and with as many as there may be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from auth.permissions import GRANTABLE, Permission
from auth.policies import ROLES, PolicyCache
from auth.principal import FromPolicies, Grant, Principal
from gateway.middleware.auth import PRINCIPAL
from gateway.whoami import WhoAmI
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.auth.tenancy_fakes import ACME, Policies, Tenants, directory_of, policy


class Client:
    """A client that keeps what it is sent."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = bytearray()
        self.pieces = 0

    async def take(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], dict(message["headers"])
        else:
            self.body += message["body"]
            self.pieces += 1


async def asked(
    grants: FromPolicies | frozenset[Grant], book: PolicyCache, subject: str = "client:who"
) -> Client:
    client = Client()

    async def receive() -> Any:
        raise AssertionError("there is no body")

    scope = {PRINCIPAL: Principal(ACME, subject, grants)}
    await WhoAmI(directory_of(Tenants()), book).get(scope, receive, client.take)
    return client


async def test_roles_and_grants_of_a_member_of_policies() -> None:
    book = PolicyCache(
        Policies(
            policy("publisher", ["client:*"], ["topics/b", "topics/a*"], "one"),
            policy("viewer", ["client:who"], ["topics/b", "*", "streams/x"], "two"),
            policy("owner", ["client:else"], ["*"], "other"),
        )
    )
    grants = (await book.of(ACME, "client:who")).within({Permission.PUBLISH, Permission.READ})
    client = await asked(grants, book)
    answer = msgspec.json.decode(client.body)
    assert client.status == 200
    assert client.headers[b"cache-control"] == b"no-store"
    assert int(client.headers[b"content-length"]) == len(client.body)
    assert answer["tenant"] == "acme"
    assert answer["roles"] == [
        {"role": "publisher", "resources": ["topics/b", "topics/a*"], "policy": "one"},
        {"role": "viewer", "resources": ["topics/b", "*", "streams/x"], "policy": "two"},
    ]
    assert answer["grants"] == [
        "publish:topics/a*",
        "publish:topics/b",
        "read:*",
        "read:topics/b",
    ]


async def test_the_scopes_of_a_key() -> None:
    grants = frozenset({Grant(Permission.READ, "*", "*"), Grant(Permission.LOCK, "lock", "a")})
    client = await asked(grants, PolicyCache(Policies()), "key:ci")
    answer = msgspec.json.decode(client.body)
    assert (answer["roles"], answer["grants"]) == ([], ["lock:locks/a", "read:*"])


async def test_as_many_grants_as_there_may_be_cost_no_long_callback() -> None:
    """The answer was made in one go, which took a second, and sent in one piece."""
    resources = [[f"topics/*{one}-{other}" for other in range(100)] for one in range(500)]
    book = PolicyCache(
        Policies(
            *(policy("owner", ["client:who"], each, f"p{at}") for at, each in enumerate(resources))
        )
    )
    grants = (await book.of(ACME, "client:who")).within(GRANTABLE)
    async with measured() as callbacks:
        client = await asked(grants, book)
    answer = msgspec.json.decode(client.body)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    texts = [text for each in resources for text in each]
    assert answer["grants"] == sorted(f"{each}:{text}" for each in ROLES["owner"] for text in texts)
    assert len(answer["roles"]) == 500
    assert client.pieces > 10
