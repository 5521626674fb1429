"""Part of a listing."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Part of a listing; `next_page_token` is None on the last."""

    items: tuple[T, ...]
    next_page_token: str | None = None
