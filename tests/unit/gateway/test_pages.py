"""The pages that anybody may ask for keep nobody waiting, however many are asked for at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from starlette.responses import Response

from gateway.http import pages
from gateway.http.pages import Pages
from gateway.readiness import Readiness
from tests.unit.edge.test_slices import Clock, Passes, clock

__all__ = ["clock"]
ASKED = 40
PAGE_S = 0.0003
"""Processor time in which the description of the API is sent, or more."""


async def asked(path: str) -> Counter[int]:
    """Return the number of answers in each pass of the loop, when ASKED are asked for at once."""
    application = Pages(Readiness()).application()
    passes, answered = Passes(), Counter[int]()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        answered[passes.number] += message["type"] == "http.response.start"

    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
    }
    await asyncio.gather(*(application(dict(scope), receive, send) for _ in range(ASKED)))
    passes.end()
    assert answered.total() == ASKED
    return answered


@pytest.mark.parametrize("path", ["/openapi.json", "/openapi.yaml", "/docs", "/none"])
async def test_pages_take_a_part_of_a_pass(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES_S", 1e-9)
    assert max((await asked(path)).values()) == 1


async def test_a_pass_has_one_page_as_long_as_the_description_of_the_api(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass had a millisecond of them, and of each a third as much again before and after."""
    answer = Response.__call__

    async def long(self: Response, scope: Any, receive: Any, send: Any) -> None:
        clock.now_s += PAGE_S
        await answer(self, scope, receive, send)

    monkeypatch.setattr(Response, "__call__", long)
    assert max((await asked("/openapi.json")).values()) == 1


async def test_health_waits_for_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGES_S", 1e-9)
    assert max((await asked("/healthz")).values()) == ASKED
