"""Dead letters, their redrives, and keys that wait aside."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from packetboat.models.messages import Data, StoredMessage


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A message whose attempts are used up, or that was rejected."""

    id: str
    """Names it in its subscription."""
    state: str
    """`open`, `redriven` or `discarded`."""
    reason: str
    """`exhausted` or `rejected`."""
    detail: str | None = None
    """What the consumer said last."""
    attempts: int
    first_at: datetime | None = None
    """When it was first handed out."""
    last_at: datetime | None = None
    dead_at: datetime
    message_id: str
    """Of the message as it was published."""
    partition: int
    offset: int
    publish_time: datetime
    key: str | None = None
    attributes: dict[str, str] = {}
    content_type: str | None = None
    size_bytes: int
    letter_id: str
    """Of the message in the dead-letter topic."""
    redrive_id: str | None = None


class DeadLetterWithMessage(DeadLetter, frozen=True, kw_only=True):
    """With the message as the dead-letter topic has it; None when it is stored no more."""

    message: StoredMessage | None = None


class Undelivered(msgspec.Struct, frozen=True):
    """Messages whose dead letter could not be written yet, and why."""

    messages: int = 0
    reason: str | None = None


class DeadLetterPage(msgspec.Struct, frozen=True):
    """Part of a listing; `next_page_token` is None on the last. A filter is tried on `examined`."""

    items: tuple[DeadLetter, ...] = msgspec.field(name="dead_letters")
    next_page_token: str | None = None
    examined: int = 0
    undelivered: Undelivered = Undelivered()


class Discarded(msgspec.Struct, frozen=True):
    """How many. Not `complete`: there are more to look at, ask again."""

    discarded: int
    complete: bool


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed of each message that is redriven; what is not given stays."""

    attributes: Mapping[str, str | None] | None = None
    """New values; None drops the attribute."""
    data: Data | msgspec.UnsetType = msgspec.UNSET
    content_type: str | None = None
    key: str | msgspec.UnsetType | None = msgspec.UNSET
    """None drops it."""


class Redrive(msgspec.Struct, frozen=True):
    """Dead letters that are published again."""

    redrive_id: str
    state: str
    """`running`, `done`, `cancelling`, `cancelled` or `failed`."""
    to: str
    """`subscription`, or the name of a topic."""
    total: int
    redriven: int
    failed: int
    """Those whose message is stored no more."""
    created_at: datetime
    updated_at: datetime
    detail: str | None = None
    """Why it waits or failed, or what could not be redriven."""
    filter: str | None = None
    rate: float | None = None
    """Messages a second."""

    @property
    def finished(self) -> bool:
        """Nothing of it is to be redriven any more."""
        return self.state in ("done", "cancelled", "failed")


class DryRun(msgspec.Struct, frozen=True):
    """What would be redriven. Not `complete`: there are more than were examined."""

    matched: int
    examined: int
    complete: bool
    sample: tuple[DeadLetter, ...] = ()


class ParkedKey(msgspec.Struct, frozen=True):
    """A key that waits aside, as its first message is used up."""

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
    since: datetime | None = None
