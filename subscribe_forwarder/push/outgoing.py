"""A message on its way to an endpoint, as requests are built of it."""

from __future__ import annotations

from typing import NamedTuple

from store_nodes.record_batch import Message


class Outgoing(NamedTuple):
    """One message and what is known of its delivery."""

    message: Message
    message_id: str
    publish_time_us: int
    """Wall clock, since 1970 UTC."""
    partition: int
    offset: int
    attempt: int
    """The number of the attempt, from 1."""
    fragment: bytes
    """The members of its JSON object as a pull shows them, without braces, `ack_id` and
    `attempt` (`reading.render.PartitionRenderer.fragment`)."""
