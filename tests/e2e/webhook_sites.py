"""Endpoints in each framework, each on a real HTTP server in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
import flask
import uvicorn
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path
from fastapi import FastAPI
from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config
from packetboat.webhooks import Delivery, Receiver
from packetboat.webhooks.django import webhook as django_webhook
from packetboat.webhooks.flask import webhook as flask_webhook
from packetboat.webhooks.starlette import webhook as starlette_webhook
from starlette.applications import Starlette
from starlette.routing import Route

PATH = "/orders"
START_S = 60.0
Take = Callable[[Delivery], None]
Site = Callable[[Receiver, Take, int], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def fastapi_on_uvicorn(receiver: Receiver, take: Take, port: int) -> Iterator[None]:
    app = FastAPI()

    @app.post(PATH)
    @starlette_webhook(receiver)
    async def orders(delivery: Delivery) -> None:
        await asyncio.to_thread(take, delivery)

    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    with _thread(server.run):
        while not server.started:
            threading.Event().wait(0.01)
        yield
        server.should_exit = True


@contextlib.contextmanager
def starlette_on_hypercorn(receiver: Receiver, take: Take, port: int) -> Iterator[None]:
    app = Starlette(routes=[Route(PATH, starlette_webhook(receiver)(take), methods=["POST"])])
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        served: Any = app
        await hypercorn_serve(served, config, shutdown_trigger=stop.wait)

    with _thread(lambda: loop.run_until_complete(serve())):
        yield
        loop.call_soon_threadsafe(stop.set)
    loop.close()


@contextlib.contextmanager
def flask_on_wsgiref(receiver: Receiver, take: Take, port: int) -> Iterator[None]:
    app = flask.Flask(__name__)
    app.post(PATH)(flask_webhook(receiver)(take))
    with _wsgi(app, port):
        yield


class Urls:
    """Django's module of urls."""

    urlpatterns: tuple[Any, ...] = ()


@contextlib.contextmanager
def django_on_wsgiref(receiver: Receiver, take: Take, port: int) -> Iterator[None]:
    from django.test import override_settings

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="of tests", MIDDLEWARE=[])
        django.setup()
    Urls.urlpatterns = (path(PATH[1:], django_webhook(receiver)(take)),)
    with override_settings(ROOT_URLCONF=Urls), _wsgi(get_wsgi_application(), port):
        yield


SITES: list[Site] = [
    fastapi_on_uvicorn,
    starlette_on_hypercorn,
    flask_on_wsgiref,
    django_on_wsgiref,
]


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def _wsgi(app: Any, port: int) -> Iterator[None]:
    server = make_server("127.0.0.1", port, app, handler_class=_Quiet)
    with _thread(server.serve_forever):
        yield
        server.shutdown()
    server.server_close()


@contextlib.contextmanager
def _thread(work: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(START_S)
