"""Renders leased messages as bytes that may leave.

Before the bytes leave, the leases of an exactly-once subscription must be committed, and the acks
of an at-most-once subscription. At-least-once needs neither: it allows repeated deliveries.
"""

from __future__ import annotations

from openapi.subscriptions import DeliveryValue
from subscribe_forwarder.delivery.flush import AckFlusher
from subscribe_forwarder.delivery.reader import Taken
from subscribe_forwarder.delivery.reading.render import delivery_without_ack_id
from subscribe_forwarder.delivery.wait_list import Delivery


async def to_send(delivery: Delivery, guarantee: DeliveryValue, flusher: AckFlusher) -> list[bytes]:
    """Return the messages of a response; the caller sends or releases `delivery` after that.

    Raises the 503 Problem of a commit that failed; at-most-once messages are lost by then. The
    result may have fewer messages than were taken, even none, because a lease may have ended.
    """
    if guarantee == "at_least_once":
        return delivery.render()
    at_most_once = guarantee == "at_most_once"
    messages = _spend(delivery) if at_most_once else delivery.render()
    await flusher.commit([part.reader for part in delivery.taken])
    return messages


def _spend(delivery: Delivery) -> list[bytes]:
    messages: list[bytes] = []
    spent: list[Taken] = []
    for part in delivery.taken:
        rendered = _without_ack_ids(part)
        if part.reader.ledger.spend(part.grant):
            messages += rendered
            spent.append(part)
        else:
            part.reader.ledger.release(part.grant)
    delivery.taken = spent
    delivery.count = len(messages)
    return messages


def _without_ack_ids(part: Taken) -> list[bytes]:
    renderer, ledger = part.reader.tail.renderer, part.reader.ledger
    return [
        delivery_without_ack_id(batch.fragment(index, renderer), ledger.attempt(batch.base + index))
        for batch, index in part.places
    ]
