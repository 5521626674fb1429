# Generated from aio/resources/dead_letters.py: `make generate`. Do not edit.
"""Dead letters of a subscription, and publishing them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from packetboat.calls import dead_letters as calls
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

State = Literal["open", "redriven", "discarded"]


class DeadLetters:
    """Dead letters of a subscription, and publishing them again."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        subscription: str,
        *,
        state: State | None = None,
        filter: str | None = None,
        page_size: int = 100,
        timeout_s: float | None = None,
    ) -> Iterator[DeadLetter]:
        """Oldest first, open ones unless said otherwise. `filter` is a CEL expression over reason,
        detail, attempts, key, attributes and more."""
        return every(
            self._sender,
            lambda token: calls.list_dead_letters(subscription, state, filter, page_size, token),
            timeout_s,
        )

    def page(
        self,
        subscription: str,
        *,
        state: State | None = None,
        filter: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> DeadLetterPage:
        """One page; `page_token` is that of the page before."""
        call = calls.list_dead_letters(subscription, state, filter, page_size, page_token)
        return self._sender.send(call, timeout_s)

    def get(
        self, subscription: str, letter: str, *, timeout_s: float | None = None
    ) -> DeadLetterWithMessage:
        """With its message. Raises NotFound."""
        return self._sender.send(calls.get_dead_letter(subscription, letter), timeout_s)

    def discard(
        self,
        subscription: str,
        *,
        ids: Sequence[str] | None = None,
        filter: str | None = None,
        timeout_s: float | None = None,
    ) -> Discarded:
        """Not to be redriven: these, or those for which the filter is true; give one of the two.
        Ask again where it is not `complete`."""
        return self._sender.send(calls.discard_dead_letters(subscription, ids, filter), timeout_s)

    def redrive(
        self,
        subscription: str,
        *,
        ids: Sequence[str] | None = None,
        filter: str | None = None,
        to: str | None = None,
        edit: Edit | None = None,
        rate: float | None = None,
        timeout_s: float | None = None,
    ) -> Redrive:
        """Publishes them again, at most `rate` messages a second: these, those for which the filter
        is true, or all open ones. To the subscription alone, or to the topic `to`, changed by
        `edit`. Returns when it has begun; `get_redrive` tells how far it is."""
        call = calls.redrive_dead_letters(subscription, ids, filter, to, edit, rate)
        return self._sender.send(call, timeout_s)

    def redrive_dry_run(
        self,
        subscription: str,
        *,
        ids: Sequence[str] | None = None,
        filter: str | None = None,
        to: str | None = None,
        edit: Edit | None = None,
        timeout_s: float | None = None,
    ) -> DryRun:
        """What `redrive` would publish again."""
        return self._sender.send(
            calls.redrive_dry_run(subscription, ids, filter, to, edit), timeout_s
        )

    def redrives(
        self, subscription: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[Redrive]:
        """Newest first."""
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
        """One page; `page_token` is that of the page before."""
        return self._sender.send(
            calls.list_redrives(subscription, page_size, page_token), timeout_s
        )

    def get_redrive(
        self, subscription: str, redrive: str, *, timeout_s: float | None = None
    ) -> Redrive:
        """How far it is. Raises NotFound."""
        return self._sender.send(calls.get_redrive(subscription, redrive), timeout_s)

    def cancel_redrive(
        self, subscription: str, redrive: str, *, timeout_s: float | None = None
    ) -> Redrive:
        """Redrives no more of it."""
        return self._sender.send(calls.cancel_redrive(subscription, redrive), timeout_s)
