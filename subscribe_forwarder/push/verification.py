"""The check whether the server at a url wants our messages: it must repeat a random challenge.

The challenge is a POST, signed and headed like a delivery, with

    Packetboat-Verification: <challenge>
    {"type": "packetboat.endpoint.verification", "subscription": …, "challenge": "<challenge>"}

and is answered by any 2xx whose body has the challenge in its first KiB: as plain text, or as
`{"challenge": "…"}`. A handshake with OPTIONS, as the CloudEvents webhook draft has it, would show
that something speaks for the origin; it does not show that the secret arrived, nor do most
frameworks let a handler of POSTs answer it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from metadata.types import Subscription
from subscribe_forwarder.push.requests import Requests, Unsendable
from subscribe_forwarder.push.sender import Sender
from subscribe_forwarder.push.verdict import Answer, judge

HEADER = "Packetboat-Verification"
TYPE = "packetboat.endpoint.verification"


class Verified(NamedTuple):
    """The outcome of a challenge; `reason` is empty where it was answered."""

    url: str
    reason: str
    answer: Answer | None


async def verify(
    subscription: Subscription, requests: Requests, sender: Sender, wall_s: Callable[[], float]
) -> Verified:
    """Asks once. Raises MetadataError."""
    config = subscription.push
    assert config is not None
    challenge = secrets.token_urlsafe(32)
    body = msgspec.json.encode(
        {"type": TYPE, "subscription": subscription.name, "challenge": challenge}
    )
    try:
        request = requests.challenge(subscription, f"verification_{challenge}", body, wall_s())
    except Unsendable as error:
        return Verified(config.url, str(error), None)
    request = request._replace(headers=[*request.headers, (HEADER, challenge)])
    answer = await sender.send(request, config.timeout_s)
    verdict = judge(answer, wall_s())
    if verdict.outcome != "delivered":
        return Verified(config.url, f"the challenge: {verdict.detail}", answer)
    if challenge.encode() not in answer.excerpt:
        return Verified(config.url, "it did not repeat the challenge in its answer", answer)
    return Verified(config.url, "", answer)
