from __future__ import annotations

import pytest

from edge.asgi import Receive, Scope, Send
from edge.caller import Caller
from edge.problem import Problem
from gateway.http.router import Router
from harness.made_up_routes import made_up


async def handler(scope: Scope, receive: Receive, send: Send) -> None: ...


def router(*routes: tuple[str, str]) -> Router:
    made = Router()
    for method, path in routes:
        made.add(made_up(method, path, handler, "read", "*"))
    return made


@pytest.fixture
def api() -> Router:
    return router(
        ("GET", "/topics"),
        ("POST", "/topics"),
        ("GET", "/topics/{topic}"),
        ("POST", "/topics/{topic}/messages"),
        ("POST", "/topics/{topic}/messages:batch"),
        ("GET", "/topics/{topic}/messages/{id}"),
        ("GET", "/topics/{topic}/messages/{id}/ack"),
        ("GET", "/subscriptions/{name}"),
        ("POST", "/subscriptions/{name}:pull"),
        ("GET", "/subscriptions/{name}/messages"),
    )


@pytest.mark.parametrize(
    ("method", "path", "template", "params"),
    [
        ("GET", "/topics", "/topics", {}),
        ("GET", "/topics/a", "/topics/{topic}", {"topic": "a"}),
        ("POST", "/topics/a/messages", "/topics/{topic}/messages", {"topic": "a"}),
        ("POST", "/topics/a/messages:batch", "/topics/{topic}/messages:batch", {"topic": "a"}),
        ("GET", "/topics/a/messages/m", "/topics/{topic}/messages/{id}", {"topic": "a", "id": "m"}),
        ("POST", "/subscriptions/s:pull", "/subscriptions/{name}:pull", {"name": "s"}),
        ("GET", "/subscriptions/a%2Fb", "/subscriptions/{name}", {"name": "a/b"}),
        ("GET", "/topics/%C3%A9", "/topics/{topic}", {"topic": "é"}),
    ],
)
def test_match(api: Router, method: str, path: str, template: str, params: dict[str, str]) -> None:
    found = api.match(method, path)
    assert found is not None
    assert (found[0].template, found[1]) == (template, params)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/topic",
        "/topics/",
        "/topics//messages",
        "/topics/a/messages/",
        "/topics/a/message",
        "/subscriptions/s:push",
        "/subscriptions/:pull",
        "/subscriptions/a%00b",
        "/subscriptions/a%0Ab",
        "/subscriptions/a%FFb",
    ],
)
def test_unknown_path(api: Router, path: str) -> None:
    assert api.match("GET", path) is None


def test_method_not_allowed_names_the_others(api: Router) -> None:
    with pytest.raises(Problem) as caught:
        api.match("PATCH", "/topics")
    assert caught.value.status == 405
    assert caught.value.headers == {"Allow": "GET, HEAD, POST"}


def test_head_is_the_get_of_a_path_unless_its_route_says_otherwise() -> None:
    router = Router()
    router.add(made_up("GET", "/topics/{topic}", handler, "read", "topic:topic"))
    router.add(made_up("POST", "/topics", handler, "manage", "*"))
    router.add(made_up("GET", "/topics", handler, "read", "*", head=False))
    found = router.match("HEAD", "/topics/a")
    assert found is not None
    assert (found[0].method, found[1]) == ("GET", {"topic": "a"})
    for method, allowed in (("HEAD", "GET, POST"), ("PUT", "GET, POST")):
        with pytest.raises(Problem) as caught:
            router.match(method, "/topics")
        assert caught.value.headers == {"Allow": allowed}


def test_a_route_without_a_permission_cannot_be_registered() -> None:
    for name in ("", "all", "publik"):
        with pytest.raises(ValueError, match="Permission"):
            Router().add(made_up("GET", "/x", handler, name, "*"))


@pytest.mark.parametrize(
    "resource", ["", "topic", "topic:", "topic:name", "queue:topic", ":topic", "topic:*:?", "?"]
)
def test_a_route_without_a_resource_cannot_be_registered(resource: str) -> None:
    with pytest.raises(ValueError, match=r"/topics/.* needs a resource"):
        Router().add(made_up("GET", "/topics/{topic}", handler, "read", resource))


def test_a_public_route_has_no_resource() -> None:
    Router().add(made_up("GET", "/x", handler, "public"))
    with pytest.raises(ValueError, match="public"):
        Router().add(made_up("GET", "/y", handler, "public", "*"))


@pytest.mark.parametrize(
    ("resource", "grants", "allowed"),
    [
        ("topic:topic", [("read", "topic", "orders-*")], True),
        ("topic:topic", [("read", "*", "*")], True),
        ("topic:topic", [("read", "topic", "bills-*")], False),
        ("topic:topic", [("read", "subscription", "orders-*")], False),
        ("topic:topic", [("publish", "topic", "orders-*")], False),
        ("topic:*", [("read", "topic", "*")], True),
        ("topic:*", [("read", "topic", "orders-*")], False),
        ("topic:*", [("read", "lock", "*")], False),
        ("topic:?", [("read", "topic", "x")], True),
        ("topic:?", [("read", "*", "x")], True),
        ("topic:?", [("read", "lock", "*")], False),
        ("*", [("read", "*", "*")], True),
        ("*", [("read", "topic", "*")], False),
    ],
)
def test_a_caller_needs_the_permission_on_what_the_path_names(
    resource: str, grants: list[tuple[str, str, str]], allowed: bool
) -> None:
    api = Router()
    api.add(made_up("GET", "/topics/{topic}", handler, "read", resource))
    found = api.match("GET", "/topics/orders-7")
    assert found is not None
    endpoint, params = found
    if allowed:
        endpoint.check(Caller(grants), params)
        return
    with pytest.raises(Problem) as caught:
        endpoint.check(Caller(grants), params)
    assert (caught.value.status, caught.value.slug) == (403, "forbidden")
    assert "'read'" in caught.value.detail


def test_a_second_route_of_one_shape_is_refused(api: Router) -> None:
    with pytest.raises(ValueError, match="twice"):
        api.add(made_up("GET", "/topics/{name}", handler, "read", "*"))
