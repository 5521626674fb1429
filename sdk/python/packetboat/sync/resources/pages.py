# Generated from aio/resources/pages.py: `make generate`. Do not edit.
"""Listings, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from packetboat.calls.call import Call
from packetboat.sync.sender import Sender

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class PageOf(Protocol[T_co]):
    """Any part of a listing."""

    @property
    def items(self) -> tuple[T_co, ...]:
        """Of this page."""
        ...

    @property
    def next_page_token(self) -> str | None:
        """What asks for the next page; None on the last."""
        ...


def every(
    sender: Sender,
    call_of: Callable[[str | None], Call[PageOf[T]]],
    timeout_s: float | None = None,
) -> Iterator[T]:
    """The items of all pages; the next page is asked for when the last one was used up, each within
    `timeout_s`."""
    token = None
    while True:
        page = sender.send(call_of(token), timeout_s)
        yield from page.items
        token = page.next_page_token
        if token is None:
            return
