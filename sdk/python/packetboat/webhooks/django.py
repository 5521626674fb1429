"""Webhooks in Django.

    @webhook(receiver)
    def orders(delivery: Delivery) -> None: ...

    urlpatterns = [path("orders", orders)]

A handler that is a coroutine function makes an asynchronous view. Views are exempt from CSRF
protection: signatures say who sends.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import cast

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from packetboat.webhooks.answers import Answer
from packetboat.webhooks.receiver import AsyncHandler, Handler, Receiver

View = Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]


def webhook(receiver: Receiver) -> Callable[[Handler | AsyncHandler], View]:
    """Wrap the handler of a Delivery in a view; `errors` has the exceptions that it may raise."""

    def decorate(handler: Handler | AsyncHandler) -> View:
        if inspect.iscoroutinefunction(handler):
            view = _asynchronous(receiver, handler)
        else:
            view = _plain(receiver, cast("Handler", handler))
        view.__name__ = getattr(handler, "__name__", "webhook")
        view.__doc__ = handler.__doc__
        return cast("View", csrf_exempt(view))

    return decorate


def _plain(receiver: Receiver, handler: Handler) -> View:
    def view(request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return _response(receiver.answer(request.body, request.headers, handler))

    return view


def _asynchronous(receiver: Receiver, handler: AsyncHandler) -> View:
    async def view(request: HttpRequest) -> HttpResponse:
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        return _response(await receiver.answer_async(request.body, request.headers, handler))

    return view


def _response(answer: Answer) -> HttpResponse:
    return HttpResponse(answer.body, status=answer.status, headers=dict(answer.headers))
