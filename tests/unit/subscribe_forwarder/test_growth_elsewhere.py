"""Growth barriers, lifted by committed cursors of partitions that are served elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from metadata.types import CursorKey, CursorState, Epoch
from subscribe_forwarder.delivery.growth import Growth
from subscribe_forwarder.delivery.state.lanes import Lane
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    topic,
)
from tests.unit.subscribe_forwarder.test_generations import grown


def read_to(end: int, generation: int) -> CursorState:
    """Return the cursor of partition 0, with everything below `end` settled."""
    return CursorState(
        key=CursorKey(TENANT, SUBSCRIPTION_UID, 0),
        topic_uid=TOPIC_UID,
        epoch=Epoch(0, 1),
        generation=generation,
        start=0,
        floor=end,
        read_to=end,
    )


def test_a_committed_cursor_of_before_a_seek_lifts_no_barrier() -> None:
    """The cursor tells what was read before the seek; after the seek the older messages
    come again.
    """
    cursor = SimpleNamespace(generation=2)
    reader: Any = SimpleNamespace(cursor=cursor, keys=None, limit=None)
    readers = {Lane(1, 0): reader}
    growth = Growth(lambda _: None)
    growth.follow(grown(topic(1), 2, {0: 5}), readers)
    assert reader.limit == 0
    growth.hear([read_to(5, generation=1)])
    assert not growth.lift(readers)
    assert reader.limit == 0
    growth.hear([read_to(5, generation=2)])
    assert growth.lift(readers)
    assert reader.limit is None
