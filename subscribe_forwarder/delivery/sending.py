"""Encodes leased messages as bytes that may leave.

Before the bytes leave, the leases of an exactly-once subscription must be committed, and the acks
of an at-most-once subscription. At-least-once needs neither: it allows repeated deliveries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openapi.subscriptions import DeliveryValue
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.pages import Encoding
from subscribe_forwarder.delivery.reader import Taken
from subscribe_forwarder.delivery.wait_list import Delivery

Encode = Callable[[Taken, bool], Sequence[Any]]
"""Encodes messages as `Encoding.parts` does."""


async def to_send(
    delivery: Delivery, guarantee: DeliveryValue, flusher: AckFlusher, encoding: Encoding
) -> list[Any]:
    """Return the messages of a response, as parts of its body.

    The caller sends or releases `delivery` after that. Raises the 503 Problem of a commit that
    failed; at-most-once messages are lost by then. The result may have fewer messages than were
    taken, even none, because a lease may have ended.
    """
    return await _committed(delivery, guarantee, flusher, encoding.parts)


async def commit_to_send(delivery: Delivery, guarantee: DeliveryValue, flusher: AckFlusher) -> None:
    """Commit what `to_send` commits, for a caller that encodes the messages later."""
    await _committed(delivery, guarantee, flusher, lambda taken, needs_acks: ())


async def _committed(
    delivery: Delivery, guarantee: DeliveryValue, flusher: AckFlusher, encode: Encode
) -> list[Any]:
    """Commit what the guarantee asks for; return what `encode` made of the messages before."""
    if guarantee == "at_most_once":
        encoded = _spend(delivery, encode)
    else:
        encoded = [one for part in delivery.taken for one in encode(part, True)]
    if guarantee != "at_least_once":
        await flusher.commit([part.reader for part in delivery.taken])
    return encoded


def _spend(delivery: Delivery, encode: Encode) -> list[Any]:
    """Ack all messages whose leases have not ended; return them encoded, without ack ids."""
    encoded: list[Any] = []
    spent: list[Taken] = []
    for part in delivery.taken:
        messages = encode(part, False)
        if part.reader.ledger.spend(part.grant):
            encoded += messages
            spent.append(part)
        else:
            part.reader.ledger.release(part.grant)
    delivery.taken = spent
    delivery.count = sum([part.message_count for part in spent])
    return encoded
