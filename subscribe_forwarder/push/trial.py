"""A sample sent to an endpoint now, to see what it answers: signed and headed like a delivery."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from metadata.types import Subscription
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import PartitionRenderer, time_json
from subscribe_forwarder.push.outgoing import Outgoing
from subscribe_forwarder.push.requests import Requests, Unsendable
from subscribe_forwarder.push.sender import Sender
from subscribe_forwarder.push.verdict import Answer, Verdict, judge

TYPE = "packetboat.endpoint.test"
ATTRIBUTE = "packetboat-test"


class Tried(NamedTuple):
    """The outcome of a test request; nothing of it was sent where there is no answer."""

    request_id: str
    """The `webhook-id` of the request."""
    verdict: Verdict | None
    answer: Answer | None
    detail: str


async def try_endpoint(
    subscription: Subscription, requests: Requests, sender: Sender, wall_s: Callable[[], float]
) -> Tried:
    """Raises MetadataError."""
    config = subscription.push
    assert config is not None
    now_s = wall_s()
    request_id = f"test_{secrets.token_urlsafe(16)}"
    try:
        request = requests.build(subscription, [_sample(subscription, request_id, now_s)], now_s)
    except Unsendable as error:
        return Tried(request_id, None, None, str(error))
    answer = await sender.send(request, config.timeout_s)
    verdict = judge(answer, wall_s())
    return Tried(request_id, verdict, answer, verdict.detail)


def _sample(subscription: Subscription, message_id: str, now_s: float) -> Outgoing:
    data = msgspec.json.encode({"type": TYPE, "subscription": subscription.name})
    message = Message(data, "application/json", attributes={ATTRIBUTE: "true"})
    time_us = int(now_s * 1_000_000)
    renderer = PartitionRenderer(subscription.topic_uid, 0)
    fragment = renderer.fragment(message, 0, time_json(time_us), message_id.encode("ascii"))
    return Outgoing(message, message_id, time_us, 0, 0, 1, fragment)
