"""Finds exhausted and rejected messages that nobody works on: of subscriptions without a consumer.

A message that was to become a dead letter when its owner died is told of by the next owner's
ledger, which is opened when somebody pulls. So that this waits for nobody, subscriptions with such
messages are looked for in Postgres and opened here.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from edge.problem import Problem
from metadata.errors import MetadataError
from metadata.subscriptions.dead_letters import DeadLetterRepository
from store_nodes.errors import StoreError
from subscribe_forwarder.delivery.dead_letter_writer import DeadLetterWriter
from subscribe_forwarder.forwarder import SubscribeForwarder

LOOK_EVERY_S = 10.0
MAX_SUBSCRIPTIONS = 1000
"""The limit of subscriptions in one look."""


async def find_undelivered(
    letters: DeadLetterRepository,
    forwarder: SubscribeForwarder,
    dead_letter_writer: DeadLetterWriter,
    *,
    look_every_s: float = LOOK_EVERY_S,
) -> None:
    """Look every `look_every_s` seconds, for ever."""
    while True:
        if forwarder.not_ready_reason() is None:
            with suppress(MetadataError):
                for tenant_id, name in await letters.undelivered(MAX_SUBSCRIPTIONS):
                    with suppress(Problem, StoreError, MetadataError):
                        hub = await forwarder.hub(tenant_id, name, part=True)
                        for reader in hub.readers.values():
                            if not reader.frozen:
                                dead_letter_writer.look(reader)
        await asyncio.sleep(look_every_s)
