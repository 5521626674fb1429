"""Webhooks in Starlette and FastAPI.

    @app.post("/orders")                    # FastAPI
    @webhook(receiver)
    async def orders(delivery: Delivery) -> None: ...

    Route("/orders", webhook(receiver)(orders), methods=["POST"])       # Starlette

A handler may be a coroutine function, or a plain one, which is run in a thread.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import cast

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from packetboat.webhooks.answers import Pace
from packetboat.webhooks.deliveries import Delivery
from packetboat.webhooks.receiver import AsyncHandler, Handler, Receiver

Endpoint = Callable[[Request], Awaitable[Response]]


def webhook(receiver: Receiver) -> Callable[[Handler | AsyncHandler], Endpoint]:
    """Wrap the handler of a Delivery in a view; `errors` has the exceptions that it may raise."""

    def decorate(handler: Handler | AsyncHandler) -> Endpoint:
        handle = _coroutine_function(handler)

        async def endpoint(request: Request) -> Response:
            headers = request.headers.items()
            answer = await receiver.answer_async(await request.body(), headers, handle)
            return Response(answer.body, answer.status, dict(answer.headers))

        # Not functools.wraps: FastAPI would read the handler's own signature.
        endpoint.__name__ = getattr(handler, "__name__", "webhook")
        endpoint.__doc__ = handler.__doc__
        return endpoint

    return decorate


def _coroutine_function(handler: Handler | AsyncHandler) -> AsyncHandler:
    if inspect.iscoroutinefunction(handler):
        return handler
    plain = cast("Handler", handler)

    async def in_thread(delivery: Delivery) -> Pace | None:
        return await run_in_threadpool(plain, delivery)

    return in_thread
