# Generated from aio/resources/dead_letters.py: `make generate`. Do not edit.
"""Dead letters of a subscription, and redriving them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from packetboat.calls import messaging as calls
from packetboat.models import (
    DeadLetter,
    DeadLetterPage,
    DeadLetterWithMessage,
    Discarded,
    DryRun,
    Edit,
    Page,
    Redrive,
)
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class DeadLetters:
    """Dead letters of a subscription, and redriving them."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        subscription: str,
        *,
        filter: str | None = None,
        state: Literal["open", "redriven", "discarded"] | None = None,
        page_size: int = 100,
        timeout_s: float | None = None,
    ) -> Iterator[DeadLetter]:
        """Iterate over dead letters, the oldest first, and over open ones unless `state` is given.
        `filter` is a CEL expression over reason, detail, attempts, key, attributes and more."""
        return every(
            self._sender,
            lambda token: calls.list_dead_letters(subscription, filter, state, page_size, token),
            timeout_s,
        )

    def page(
        self,
        subscription: str,
        *,
        filter: str | None = None,
        state: Literal["open", "redriven", "discarded"] | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> DeadLetterPage:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.list_dead_letters(subscription, filter, state, page_size, page_token), timeout_s
        )

    def get(
        self, subscription: str, letter: str, *, timeout_s: float | None = None
    ) -> DeadLetterWithMessage:
        """Return the dead letter with its message. Raise NotFound where there is none of this
        id."""
        return self._sender.send(calls.get_dead_letter(subscription, letter), timeout_s)

    def discard(
        self,
        subscription: str,
        *,
        filter: str | None = None,
        ids: Sequence[str] | None = None,
        timeout_s: float | None = None,
    ) -> Discarded:
        """Discard dead letters, by their ids or by a filter; give one of the two. Ask again where
        the answer is not `complete`."""
        return self._sender.send(calls.discard_dead_letters(subscription, filter, ids), timeout_s)

    def redrive(
        self,
        subscription: str,
        *,
        filter: str | None = None,
        ids: Sequence[str] | None = None,
        to: str | None = None,
        edit: Edit | None = None,
        rate: float | None = None,
        timeout_s: float | None = None,
    ) -> Redrive:
        """Publish dead letters again, at most `rate` messages a second: these, those for which the
        filter is true, or all open ones. They go to the subscription alone, or to the topic `to`,
        changed by `edit`. Return when the redrive has begun; `get_redrive` tells how far it is."""
        return self._sender.send(
            calls.redrive_dead_letters(subscription, filter, ids, to, edit, rate), timeout_s
        )

    def redrive_dry_run(
        self,
        subscription: str,
        *,
        filter: str | None = None,
        ids: Sequence[str] | None = None,
        to: str | None = None,
        edit: Edit | None = None,
        timeout_s: float | None = None,
    ) -> DryRun:
        """Say which dead letters `redrive` would publish again."""
        return self._sender.send(
            calls.redrive_dry_run(subscription, filter, ids, to, edit), timeout_s
        )

    def redrives(
        self, subscription: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[Redrive]:
        """Iterate over redrives, the newest first."""
        return every(
            self._sender,
            lambda token: calls.list_redrives(subscription, page_size, token),
            timeout_s,
        )

    def redrives_page(
        self,
        subscription: str,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[Redrive]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.list_redrives(subscription, page_size, page_token), timeout_s
        )

    def get_redrive(
        self, subscription: str, redrive: str, *, timeout_s: float | None = None
    ) -> Redrive:
        """Return how far a redrive is. Raise NotFound where there is none of this id."""
        return self._sender.send(calls.get_redrive(subscription, redrive), timeout_s)

    def cancel_redrive(
        self, subscription: str, redrive: str, *, timeout_s: float | None = None
    ) -> Redrive:
        """Redrive no more of its dead letters."""
        return self._sender.send(calls.cancel_redrive(subscription, redrive), timeout_s)
