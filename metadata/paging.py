"""Page tokens: opaque to clients, the last name of the page to us."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from typing import Protocol, TypeVar

from metadata.errors import BadPageToken
from metadata.types import Page


class Named(Protocol):
    """An object that is listed by name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)
_VERSION = b"1"


def name_after(page_token: str | None) -> str:
    """Return the name after which a page begins. Raises BadPageToken."""
    if page_token is None:
        return ""
    try:
        raw = urlsafe_b64decode(page_token.encode("ascii"))
        name = raw[1:].decode()
    except (binascii.Error, UnicodeError) as error:
        raise BadPageToken("the page token is not one of ours") from error
    if raw[:1] != _VERSION or "\0" in name:
        raise BadPageToken("the page token is not one of ours")
    return name


def page_of(items: Sequence[T], page_size: int) -> Page[T]:
    """Return a page of `page_size + 1` items that were read, and the token of the next page if
    there was one item more.
    """
    if len(items) <= page_size:
        return Page(tuple(items), None)
    kept = tuple(items[:page_size])
    return Page(kept, token_after(kept[-1].name))


def token_after(name: str) -> str:
    """Return the token of the page that begins after `name`."""
    return urlsafe_b64encode(_VERSION + name.encode()).decode()
