# Generated from openapi/: `make generate`. Do not edit.
"""Dead letters, their redrives, and parked keys."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from packetboat.models.data import Data
from packetboat.models.messages import StoredMessage
from packetboat.models.methods import Redriving


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose attempts are used up, or that a consumer rejected."""

    id: str
    """The id of the dead letter in its subscription."""
    state: str
    """`open`, `redriven` or `discarded`."""
    reason: str
    """`exhausted` or `rejected`."""
    attempts: int
    dead_at: datetime
    message_id: str
    """The id of the message as it was published."""
    partition: int
    offset: int
    publish_time: datetime
    size_bytes: int
    letter_id: str
    """The id of the message in the dead-letter topic."""
    detail: str | None = None
    """The last comment of a consumer."""
    first_at: datetime | None = None
    """The time of its first delivery."""
    last_at: datetime | None = None
    key: str | None = None
    attributes: dict[str, str] = {}
    content_type: str | None = None
    redrive_id: str | None = None
    """The redrive that took it, or is to take it."""


class DeadLetterWithMessage(DeadLetter, frozen=True, kw_only=True):
    """A dead letter and its message."""

    message: StoredMessage | None = None
    """The message in the dead-letter topic; None when it is stored no more."""


class Undelivered(msgspec.Struct, frozen=True):
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""

    messages: int = 0
    reason: str | None = None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """A page of dead letters; `next_page_token` is None on the last."""

    items: tuple[DeadLetter, ...] = msgspec.field(name="dead_letters")
    examined: int = 0
    """The number of letters that the filter was tried on."""
    undelivered: Undelivered = Undelivered()
    """Exhausted and rejected messages whose dead letter could not be written yet, and why."""
    next_page_token: str | None = None


class Discarded(msgspec.Struct, frozen=True):
    """The number of dead letters that were discarded."""

    discarded: int
    complete: bool
    """Whether all were looked at; ask again while this is false."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to each message; members that are absent stay."""

    attributes: Mapping[str, str | None] | None = None
    """New values; None drops the attribute."""
    data: Data | msgspec.UnsetType = msgspec.UNSET
    """The new body."""
    content_type: str | None = None
    key: str | msgspec.UnsetType | None = msgspec.UNSET
    """None drops it."""


class Redrive(Redriving, msgspec.Struct, frozen=True):
    """Dead letters that are published again."""

    redrive_id: str
    state: str
    """`running`, `done`, `cancelling`, `cancelled` or `failed`."""
    to: str
    """`subscription`, or the name of a topic."""
    total: int
    """The number of letters to redrive."""
    redriven: int
    failed: int
    """The number of letters whose message is stored no more."""
    created_at: datetime
    updated_at: datetime
    detail: str | None = None
    """The reason that it waits or failed, or the messages that could not be redriven."""
    filter: str | None = None
    rate: float | None = None
    """Messages a second, at most."""


class DryRun(msgspec.Struct, frozen=True):
    """The dead letters that a redrive would publish."""

    matched: int
    examined: int
    complete: bool
    """Whether all were examined."""
    sample: tuple[DeadLetter, ...] = ()


class ParkedKey(msgspec.Struct, frozen=True):
    """A key that waits because its first message failed for good."""

    partition: int
    lane: int
    attempts: int
    reason: str
    waiting: int
    """Messages of the key behind it."""
    key: str | None = None
    """None when the message is stored no more."""
    detail: str | None = None
    message_id: str | None = None
    """The id of the first message, at which the key stopped."""
    since: datetime | None = None
    """The time of the last delivery of the first message."""
