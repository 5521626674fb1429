"""Webhooks in Flask.

@app.post("/orders")
@webhook(receiver)
def orders(delivery: Delivery) -> None: ...
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

from flask import Response, request

from packetboat.webhooks.receiver import Handler, Receiver

View = Callable[[], Response]


def webhook(receiver: Receiver) -> Callable[[Handler], View]:
    """Wrap the handler of a Delivery in a view; `errors` has the exceptions that it may raise."""

    def decorate(handler: Handler) -> View:
        if inspect.iscoroutinefunction(handler):
            raise TypeError("a webhook's handler in Flask is a plain function")

        @functools.wraps(handler)
        def view() -> Response:
            answer = receiver.answer(request.get_data(), request.headers.items(), handler)
            return Response(answer.body, answer.status, dict(answer.headers))

        return view

    return decorate
