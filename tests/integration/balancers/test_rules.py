"""Requests through deploy/haproxy and deploy/nginx to stand-ins for servers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from harness.balancers import ROLES, HAProxy, Nginx
from harness.processes import free_ports
from tests.integration.balancers.stand_in import Asked, Conduct, StandIn

PATIENCE_S = 10.0
COUNTS = {"publish": 2, "subscribe": 3, "gateway": 1}
Balancer = HAProxy | Nginx
Stand = dict[str, list[StandIn]]
ROLE_OF_PATHS = (
    ("POST", "/topics/t/messages", "publish"),
    ("POST", "/topics/t/messages:batch?a=b", "publish"),
    ("PATCH", "/topics/t/messages/id", "publish"),
    ("GET", "/topics/t/messages/id", "subscribe"),
    ("GET", "/topics/t/messages/id/ack", "subscribe"),
    ("GET", "/topics/t/partitions/0/messages?offset=4", "subscribe"),
    ("GET", "/topics/t/partitions", "gateway"),
    ("POST", "/topics/t/partitions/0:move", "gateway"),
    ("POST", "/topics/t:preview_filter", "subscribe"),
    ("POST", "/topics/t:preview_schema", "gateway"),
    ("POST", "/subscriptions/s:pull", "subscribe"),
    ("GET", "/subscriptions/s/messages:stream", "subscribe"),
    ("GET", "/topics/t/subscriptions/s/messages?wait_seconds=1", "subscribe"),
    ("GET", "/topics/t/subscriptions/s", "gateway"),
    ("DELETE", "/subscriptions/s", "gateway"),
    ("POST", "/subscriptions/s:enable", "subscribe"),
    ("GET", "/subscriptions/s/attempts", "subscribe"),
    ("POST", "/subscriptions/s/flow", "subscribe"),
    ("POST", "/subscriptions/s/signing_secrets", "gateway"),
    ("POST", "/oauth/token", "gateway"),
    ("PUT", "/tenants/t", "gateway"),
    ("POST", "/subscriptions/s/snapshots", "gateway"),
    ("GET", "/subscriptions/s/holds", "gateway"),
    ("DELETE", "/subscriptions/s/skip_rules/1", "gateway"),
    ("GET", "/topics?page_size=/subscriptions/s/messages", "gateway"),
)


@pytest.fixture
async def servers() -> AsyncIterator[Stand]:
    ports = iter(free_ports(sum(COUNTS.values())))
    found = {
        role: [StandIn(f"{role}-{n}", next(ports)) for n in range(1, COUNTS[role] + 1)]
        for role in ROLES
    }
    everybody = [each for of in found.values() for each in of]
    for each in everybody:
        await each.start()
    yield found
    for each in everybody:
        each.go_on.set()
        await each.stop()


@pytest.fixture(params=[HAProxy, Nginx], ids=["haproxy", "nginx"])
async def balancer(
    request: pytest.FixtureRequest, servers: Stand, tmp_path: Path
) -> AsyncIterator[Balancer]:
    kind: type[HAProxy] | type[Nginx] = request.param
    if missing := kind.missing():
        pytest.skip(missing)
    made = kind(tmp_path, {role: [s.address for s in of] for role, of in servers.items()})
    await asyncio.to_thread(made.start)
    yield made
    await asyncio.to_thread(made.stop)


@pytest.fixture
async def http(balancer: Balancer) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=balancer.url, timeout=PATIENCE_S) as client:
        yield client


def everything_asked(servers: Stand) -> list[Asked]:
    """Return every request that reached a server, one entry for each arrival."""
    return [asked for of in servers.values() for each in of for asked in each.asked]


async def who(http: httpx.AsyncClient, method: str, path: str) -> str:
    answer = await http.request(method, path)
    assert answer.status_code == 200, answer.text
    return answer.text


def of_role(answer: str) -> str:
    return answer.rpartition("-")[0]


async def test_the_path_says_which_role(http: httpx.AsyncClient) -> None:
    answers = {
        (method, path): of_role(await who(http, method, path)) for method, path, _ in ROLE_OF_PATHS
    }
    assert answers == {(method, path): role for method, path, role in ROLE_OF_PATHS}


async def test_a_subscription_stays_with_one_server_however_it_is_addressed(
    http: httpx.AsyncClient,
) -> None:
    seen = set()
    for name in (f"subscription-{n}" for n in range(40)):
        answers = {
            await who(http, "GET", f"/subscriptions/{name}/messages"),
            await who(http, "POST", f"/subscriptions/{name}:pull"),
            await who(http, "POST", f"/subscriptions/{name}/ack"),
            await who(http, "GET", f"/topics/a-topic/subscriptions/{name}/messages:stream?a=1"),
        }
        assert len(answers) == 1, name
        seen |= answers
    assert len(seen) == COUNTS["subscribe"], "all subscriptions at one server"


async def test_a_subscription_moves_only_when_its_server_is_gone(
    http: httpx.AsyncClient, servers: Stand
) -> None:
    paths = [f"/subscriptions/subscription-{n}:pull" for n in range(40)]
    before = {path: await who(http, "POST", path) for path in paths}
    gone = servers["subscribe"][1]
    await gone.stop()
    after = {path: await who(http, "POST", path) for path in paths}
    assert gone.name in before.values()
    assert gone.name not in after.values()
    assert all(after[path] == was for path, was in before.items() if was != gone.name)
    await gone.start()


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/subscriptions/s/messages", "subscribe"),
        ("GET", "/subscriptions/s/messages:stream", "subscribe"),
        ("POST", "/subscriptions/s:pull", "subscribe"),
        ("POST", "/subscriptions/s/ack", "subscribe"),
        ("POST", "/topics/t/messages", "publish"),
        ("POST", "/topics/t/messages:batch", "publish"),
        ("PATCH", "/topics/t/messages/id", "publish"),
        ("DELETE", "/topics/t/messages/id", "publish"),
        ("PUT", "/topics/t", "gateway"),
    ],
)
async def test_what_a_server_has_received_is_never_sent_again(
    http: httpx.AsyncClient, servers: Stand, method: str, path: str, role: str
) -> None:
    for each in servers[role]:
        each.conduct = Conduct.CUT
    answer = await http.request(method, path, content=b"body" if method == "POST" else b"")
    assert len(everything_asked(servers)) == 1
    assert answer.status_code == 502
    assert answer.headers["content-type"] == "application/problem+json"
    assert "unknown" in answer.json()["title"]
    assert "retry-after" not in answer.headers


async def test_nor_on_a_connection_that_was_kept(http: httpx.AsyncClient, servers: Stand) -> None:
    path = "/subscriptions/s:pull"
    assert of_role(await who(http, "POST", path)) == "subscribe"
    for each in servers["subscribe"]:
        each.conduct = Conduct.CUT
    try:
        answer = await http.post(path)
    except httpx.RemoteProtocolError:
        pass  # HAProxy closes the client's connection too, on which requests had been answered.
    else:
        assert answer.status_code == 502
    assert len(everything_asked(servers)) == 2


async def test_a_post_of_which_nothing_was_sent_goes_elsewhere(
    http: httpx.AsyncClient, servers: Stand
) -> None:
    down, up = servers["publish"]
    await down.stop()
    answers = [await http.post("/topics/t/messages", content=b"body") for _ in range(20)]
    assert {answer.text for answer in answers} == {up.name}
    assert [asked.body for asked in up.asked] == [b"body"] * 20
    await down.start()


async def test_without_a_server_the_answer_says_that_nothing_was_done(
    http: httpx.AsyncClient, servers: Stand
) -> None:
    for each in servers["subscribe"]:
        await each.stop()
    for method, path in (("POST", "/subscriptions/s:pull"), ("GET", "/subscriptions/s/messages")):
        for _ in range(4):  # before and after the balancer has noticed
            answer = await http.request(method, path)
            assert answer.status_code == 503, answer.text
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["retry-after"] == "1"
            assert answer.json()["status"] == 503
            await asyncio.sleep(0.3)
    assert of_role(await who(http, "POST", "/topics/t/messages")) == "publish"
    for each in servers["subscribe"]:
        await each.start()

    async def is_back() -> bool:
        return (await http.post("/subscriptions/s:pull")).status_code == 200

    await until(is_back)


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await done():
            await asyncio.sleep(0.05)


async def test_what_is_not_ready_gets_nothing_new(
    http: httpx.AsyncClient, servers: Stand, balancer: Balancer
) -> None:
    if isinstance(balancer, Nginx):
        pytest.skip("nginx has no health checks; a draining server stops listening")
    draining = servers["publish"][0]
    draining.ready = False

    async def is_left_out() -> bool:
        return draining.name not in await asyncio.to_thread(balancer.servers_up)

    await until(is_left_out)
    assert {await who(http, "POST", "/topics/t/messages") for _ in range(10)} == {"publish-2"}


async def test_a_client_that_goes_away_takes_its_long_poll_along(
    http: httpx.AsyncClient, servers: Stand
) -> None:
    for each in servers["subscribe"]:
        each.conduct = Conduct.HANG
    with pytest.raises(httpx.ReadTimeout):
        await http.get("/subscriptions/s/messages", timeout=0.3)
    (held,) = [each for each in servers["subscribe"] if each.asked]
    await asyncio.wait_for(held.gone.wait(), PATIENCE_S)


async def test_a_stream_comes_line_by_line(http: httpx.AsyncClient, servers: Stand) -> None:
    for each in servers["subscribe"]:
        each.conduct = Conduct.STREAM
    async with http.stream("GET", "/subscriptions/s/messages:stream") as answer:
        lines = answer.aiter_lines()
        assert await asyncio.wait_for(anext(lines), PATIENCE_S) == "first"
        for each in servers["subscribe"]:
            each.go_on.set()
        assert await asyncio.wait_for(anext(lines), PATIENCE_S) == "second"


async def test_the_request_id_is_the_clients_or_else_made(
    http: httpx.AsyncClient, servers: Stand
) -> None:
    await http.get("/topics", headers={"X-Request-Id": "mine-1"})
    await http.get("/topics")
    given, made = (asked.headers["x-request-id"] for asked in servers["gateway"][0].asked)
    assert given == "mine-1"
    assert re.fullmatch(r"[A-Za-z0-9._-]{16,64}", made), "the server would make another"


async def test_the_path_arrives_as_it_was_sent(http: httpx.AsyncClient, servers: Stand) -> None:
    for path in ("/topics/a%2Fb/subscriptions/c%3Ad/messages?x=%20&y=//", "/topics/%E2%82%AC"):
        await who(http, "GET", path)
        assert path in [asked.path for asked in everything_asked(servers)]
