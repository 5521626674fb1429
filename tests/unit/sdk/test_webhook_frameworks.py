"""The adapters, each in its framework: what arrives, and what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import django
import flask
import pytest
from django.conf import settings
from django.http import HttpResponse
from django.test import Client as DjangoClient
from fastapi import FastAPI
from packetboat.webhooks import Delivery, Pace, Receiver
from packetboat.webhooks.django import webhook as django_webhook
from packetboat.webhooks.flask import webhook as flask_webhook
from packetboat.webhooks.starlette import webhook as starlette_webhook
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from store_nodes.record_batch import Message
from subscribe_forwarder.push.requests import PushRequest
from tests.unit.sdk.webhook_support import NOW_S, Broken, Hook, Takes, headers_of, pair

KEY = pair()
HOOK = Hook(KEY)
RECEIVER = Receiver(KEY.told, clock=lambda: NOW_S)
PATH = "/orders"


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


Post = Callable[[PushRequest], Answered]
Site = Callable[[Takes], Post]


def awaited(takes: Takes) -> Any:
    async def handler(delivery: Delivery) -> None:
        await asyncio.sleep(0)
        takes(delivery)

    return handler


def through(client: TestClient) -> Post:
    def post(request: PushRequest) -> Answered:
        got = client.post(PATH, content=request.body, headers=dict(headers_of(request)))
        return Answered(got.status_code, dict(got.headers), got.content)

    return post


def starlette_site(takes: Takes) -> Post:
    return starlette_app(awaited(takes))


def starlette_plain(takes: Takes) -> Post:
    return starlette_app(takes)


def starlette_app(handler: Any) -> Post:
    route = Route(PATH, starlette_webhook(RECEIVER)(handler), methods=["POST"])
    return through(TestClient(Starlette(routes=[route]), raise_server_exceptions=False))


def fastapi_site(takes: Takes) -> Post:
    app = FastAPI()

    @app.post(PATH)
    @starlette_webhook(RECEIVER)
    async def orders(delivery: Delivery) -> None:
        """Takes orders."""
        takes(delivery)

    (described,) = app.openapi()["paths"][PATH].values()
    assert (described["description"], "parameters" in described) == ("Takes orders.", False)
    return through(TestClient(app, raise_server_exceptions=False))


def flask_site(takes: Takes) -> Post:
    app = flask.Flask(__name__)

    @app.post(PATH)
    @flask_webhook(RECEIVER)
    def orders(delivery: Delivery) -> None:
        takes(delivery)

    def post(request: PushRequest) -> Answered:
        got = app.test_client().post(PATH, data=request.body, headers=dict(headers_of(request)))
        return Answered(got.status_code, dict(got.headers), got.data)

    return post


class Urls:
    """A module of urls."""

    urlpatterns: tuple[Any, ...] = ()


def django_site(takes: Takes) -> Post:
    return django_app(takes)


def django_async(takes: Takes) -> Post:
    return django_app(awaited(takes))


def django_app(handler: Any) -> Post:
    from django.urls import path, set_urlconf

    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            SECRET_KEY="of tests",
            MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
        )
        django.setup()
    Urls.urlpatterns = (path(PATH[1:], django_webhook(RECEIVER)(handler)),)

    def post(request: PushRequest) -> Answered:
        client = DjangoClient(enforce_csrf_checks=True, raise_request_exception=False)
        headers = dict(headers_of(request))
        kind = headers.pop("Content-Type")
        got: HttpResponse = client.post(PATH, request.body, content_type=kind, headers=headers)
        return Answered(got.status_code, dict(got.headers), got.content)

    from django.test import override_settings
    from django.urls import clear_url_caches

    def with_urls(request: PushRequest) -> Answered:
        with override_settings(ROOT_URLCONF=Urls):
            clear_url_caches()
            set_urlconf(None)
            return post(request)

    return with_urls


SITES = [starlette_site, starlette_plain, fastapi_site, flask_site, django_site, django_async]


@pytest.fixture
def takes() -> Takes:
    return Takes()


@pytest.fixture(params=SITES, ids=lambda site: site.__name__)
def post(request: pytest.FixtureRequest, takes: Takes) -> Post:
    made: Post = request.param(takes)
    return made


def order(text: str) -> PushRequest:
    return HOOK.push(Message(text.encode(), "application/json"))


def test_a_message_is_taken(post: Post, takes: Takes) -> None:
    text = '{"what": "päckchen"}'
    assert post(order(text))[::2] == (204, b"")
    assert takes.taken == [{"what": "päckchen"}]


def test_what_cannot_be_taken_now_comes_again(post: Post, takes: Takes) -> None:
    answered = post(order('"retry"'))
    headers = {name.lower(): value for name, value in answered.headers.items()}
    assert (answered.status, headers["retry-after"]) == (503, "7")


def test_what_is_at_fault_is_refused(post: Post) -> None:
    assert post(order('"reject"'))[::2] == (422, b"not an order")


def test_a_bug_is_the_frameworks(post: Post) -> None:
    assert post(order('"break"')).status == 500


def test_who_is_not_known_is_refused(post: Post, takes: Takes) -> None:
    stranger = Hook(pair()).push(Message(b"1", "application/json"))
    answered = post(stranger)
    assert answered.status == 401
    assert answered.body.startswith(b"webhook-signature: ")
    assert takes.taken == []


def test_a_challenge_is_answered(post: Post, takes: Takes) -> None:
    assert post(HOOK.challenge("abc"))[::2] == (200, b"abc")
    assert takes.taken == []


def test_a_handler_may_ask_for_less() -> None:
    def handler(delivery: Delivery) -> Pace:
        return Pace(concurrency=2)

    answered = starlette_app(handler)(order("1"))
    assert (answered.status, answered.headers["packetboat-max-concurrency"]) == (204, "2")


def test_flask_runs_no_coroutine_functions() -> None:
    with pytest.raises(TypeError, match="plain function"):
        flask_webhook(RECEIVER)(awaited(Takes()))


@pytest.mark.parametrize("handler", [Takes(), awaited(Takes())], ids=["plain", "async"])
def test_django_takes_posts_only(handler: Any) -> None:
    from django.test import RequestFactory

    django_app(handler)
    answered = django_webhook(RECEIVER)(handler)(RequestFactory().get(PATH))
    if asyncio.iscoroutine(answered):
        answered = asyncio.run(answered)
    assert isinstance(answered, HttpResponse)
    assert answered.status_code == 405


def test_a_bug_is_seen_in_the_tests_of_an_application() -> None:
    route = Route(PATH, starlette_webhook(RECEIVER)(awaited(Takes())), methods=["POST"])
    request = order('"break"')
    with pytest.raises(Broken):
        TestClient(Starlette(routes=[route])).post(
            PATH, content=request.body, headers=dict(headers_of(request))
        )
