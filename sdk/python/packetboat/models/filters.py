# Generated from openapi/: `make generate`. Do not edit.
"""Previews of filters."""

from __future__ import annotations

from datetime import datetime

import msgspec


class FilterSample(msgspec.Struct, frozen=True):
    """A message that a filter was tried on."""

    message_id: str
    publish_time: datetime
    partition: int
    offset: int
    key: str | None = None
    attributes: dict[str, str] = {}


class FilterSamples(msgspec.Struct, frozen=True):
    """Some messages that match, and some others."""

    matched: tuple[FilterSample, ...] = ()
    unmatched: tuple[FilterSample, ...] = ()


class FilterChanges(msgspec.Struct, frozen=True):
    """Messages that another filter would treat otherwise than the present one, or than none."""

    newly_matched: int = 0
    no_longer_matched: int = 0


class FilterPreview(msgspec.Struct, frozen=True):
    """The effect of a filter on recent messages."""

    examined: int
    matched: int
    errors: int
    """Evaluations that failed or gave no boolean; such a message does not match."""
    samples: FilterSamples
    changes: FilterChanges
    """The difference to the present filter of the subscription, or to none."""
    first_error: str | None = None
