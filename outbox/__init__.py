"""Messages that the platform itself publishes: dead letters, redrives, schedules, outputs of
acks.
"""

from __future__ import annotations

from outbox.item import Item, StoredPosition
from outbox.outbox import Outbox, TopicFull

__all__ = ["Item", "Outbox", "StoredPosition", "TopicFull"]
