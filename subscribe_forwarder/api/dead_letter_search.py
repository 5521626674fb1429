"""Going over dead letters page by page, as far as a request may: what a filter is true for."""

from __future__ import annotations

import binascii
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from edge.problem import FieldError, invalid
from edge.slices import Slices
from metadata.subscriptions.dead_letters import (
    START,
    DeadLetterPosition,
    DeadLetterRepository,
    StoredDeadLetter,
)
from openapi.dead_letters import State
from outbox.dead_letter_filter import Filter

READ_AT_ONCE = 500
MAX_EXAMINED_PER_PAGE = 5_000
MAX_EXAMINED = 50_000
"""The limit of dead letters that a dry run, a discard, or the count of a redrive examines."""
_TOKEN = struct.Struct(">Bq16s")
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)


class Found(NamedTuple):
    """`next_place`: where to go on; None when there are no more."""

    letters: list[StoredDeadLetter]
    examined: int
    next_place: DeadLetterPosition | None


class Search:
    """The dead letters of one subscription that are in one state."""

    def __init__(
        self,
        letters: DeadLetterRepository,
        tenant_id: bytes,
        subscription_uid: bytes,
        state: State = "open",
    ) -> None:
        self._letters = letters
        self._key = tenant_id, subscription_uid
        self._state = state

    async def page(
        self, wanted: Filter | None, after: DeadLetterPosition, limit: int, max_examined: int
    ) -> Found:
        """Find the first `limit` dead letters for which the filter is true.

        It examines at most `max_examined`.
        """
        found: list[StoredDeadLetter] = []
        examined = 0
        read_at_once = min(READ_AT_ONCE, limit if wanted is None else max_examined) + 1
        while True:
            some = await self._letters.page(
                *self._key, state=self._state, after=after, limit=read_at_once
            )
            slices = Slices()
            for letter in some:
                if slices.over:
                    await slices.rest()
                if len(found) == limit or examined == max_examined:
                    return Found(found, examined, after)
                examined += 1
                after = letter.place
                if wanted is None or wanted(letter):
                    found.append(letter)
            if len(some) < read_at_once:
                return Found(found, examined, None)

    async def pages(self, wanted: Filter | None) -> AsyncIterator[Found]:
        """Yield pages of dead letters, up to `MAX_EXAMINED`.

        The last page's `next_place` says whether there are more.
        """
        after, left = START, MAX_EXAMINED
        while True:
            found = await self.page(wanted, after, READ_AT_ONCE, min(left, READ_AT_ONCE))
            left -= found.examined
            yield found
            if found.next_place is None or left <= 0:
                return
            after = found.next_place


def token_of(place: DeadLetterPosition | None) -> str | None:
    if place is None:
        return None
    micros = (place.dead_at - _UNIX) // timedelta(microseconds=1)
    return urlsafe_b64encode(_TOKEN.pack(1, micros, place.uid)).decode()


def place_of(token: str | None) -> DeadLetterPosition | None:
    """Return the place of a page token; raises a 400 for a token that is not ours."""
    if token is None:
        return None
    try:
        version, micros, uid = _TOKEN.unpack(urlsafe_b64decode(token.encode("ascii")))
        moment = _UNIX + timedelta(microseconds=micros)
    except (binascii.Error, UnicodeEncodeError, struct.error, OverflowError):
        version = 0
    if version != 1:
        raise invalid(
            "The page token is not one of ours.",
            [FieldError("page_token", "`next_page_token` of the page before")],
            status=400,
        )
    return DeadLetterPosition(moment, uid)
