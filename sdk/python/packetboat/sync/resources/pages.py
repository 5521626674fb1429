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
        """The items of this page."""
        ...

    @property
    def next_page_token(self) -> str | None:
        """The token of the next page; None on the last."""
        ...


def every(
    sender: Sender,
    call_of: Callable[[str | None], Call[PageOf[T]]],
    timeout_s: float | None = None,
) -> Iterator[T]:
    """Yield the items of all pages; each page is requested when the one before is used up,
    and has `timeout_s` to come.
    """
    token = None
    while True:
        page = sender.send(call_of(token), timeout_s)
        yield from page.items
        token = page.next_page_token
        if token is None:
            return
