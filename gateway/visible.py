"""Listings of what the caller may read: the others are not counted, named or hinted at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from edge.asgi import Scope, caller_of
from edge.parameters import Query
from edge.slices import Slices
from metadata.paging import Named, token_after
from metadata.types import Page
from openapi.common import MAX_PAGE_SIZE, PAGE_SIZE

T = TypeVar("T", bound=Named)


async def visible_page(
    scope: Scope, kind: str, read: Callable[[int, str | None], Awaitable[Page[T]]]
) -> Page[T]:
    """Return the page of the query; `read` takes its size and the token of the page before.

    A caller that may read some names gets pages as full as another's, and tokens made of names that
    it may read.
    """
    query, caller = Query(scope), caller_of(scope)
    size = query.integer(PAGE_SIZE)
    token = query.page_token()
    if caller.may_all("read", kind):
        return await read(size, token)
    kept: list[T] = []
    slices = Slices()
    while True:
        page = await read(MAX_PAGE_SIZE, token)
        for item in page.items:
            if slices.over:
                await slices.rest()  # a caller may have tens of thousands of patterns
            if caller.may("read", kind, item.name):
                if len(kept) == size:
                    return Page(tuple(kept), token_after(kept[-1].name))
                kept.append(item)
        token = page.next_token
        if token is None:
            return Page(tuple(kept), None)
