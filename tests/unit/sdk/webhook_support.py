"""Webhooks as the server makes them, for receivers here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from msgspec.structs import replace
from packetboat.webhooks import DeliverLater, Delivery, Reject

from edge.sealing import Sealer
from edge.signing import new_key, public_text, secret_text
from metadata.subscriptions.push_config import (
    PushConfig,
    SigningKey,
    key_purpose,
)
from metadata.types import Subscription
from openapi.webhooks import PushFormat, SigningKind
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import PartitionRenderer, time_json
from subscribe_forwarder.push.outgoing import Outgoing
from subscribe_forwarder.push.requests import NoTokens, PushRequest, Requests
from subscribe_forwarder.push.verification import HEADER, TYPE
from tests.unit.subscribe_forwarder.subscribe_support import TENANT, TOPIC_UID, subscription

NOW_S = 1_700_000_300.0
TIME_US = 1_700_000_000_123_456
PUBLISHED = datetime.fromtimestamp(TIME_US / 1e6, UTC)
SEALER = Sealer.from_text("one:" + "ab" * 32)
RENDERER = PartitionRenderer(TOPIC_UID, 3)


class Pair(NamedTuple):
    """A key as the server has it, and what its receiver was shown."""

    plain: bytes
    kind: SigningKind
    told: str


def pair(kind: SigningKind = "v1") -> Pair:
    plain = new_key()
    told = secret_text(plain) if kind == "v1" else public_text(plain)
    return Pair(plain, kind, told)


class Hook:
    """A push subscription."""

    def __init__(self, *pairs: Pair, format: PushFormat = "json") -> None:
        of = subscription()
        signing = tuple(
            SigningKey(
                str(at), one.kind, SEALER.seal(one.plain, key_purpose(TENANT, of.uid, str(at))), NOW
            )
            for at, one in enumerate(pairs)
        )
        config = PushConfig(url="https://hook.example/in", format=format, signing=signing)
        self.subscription: Subscription = replace(of, type="push", push=config)
        self._requests = Requests(SEALER, NoTokens())

    def push(self, *messages: Message, attempt: int = 1, now_s: float = NOW_S) -> PushRequest:
        """Return the push request of messages from offset 7 on."""
        given = [outgoing(one, 7 + at, attempt) for at, one in enumerate(messages)]
        return self._requests.build(self.subscription, given, now_s)

    def challenge(self, text: str, now_s: float = NOW_S) -> PushRequest:
        body = b'{"type":"%b","subscription":"%b","challenge":"%b"}' % (
            TYPE.encode(),
            self.subscription.name.encode(),
            text.encode(),
        )
        request = self._requests.challenge(self.subscription, f"verification_{text}", body, now_s)
        return request._replace(headers=[*request.headers, (HEADER, text)])


NOW = datetime.fromtimestamp(NOW_S, UTC)


def outgoing(message: Message, offset: int, attempt: int) -> Outgoing:
    fragment = RENDERER.fragment(message, offset, time_json(TIME_US))
    message_id = RENDERER.plain_id(offset).decode()
    return Outgoing(message, message_id, TIME_US, 3, offset, attempt, fragment)


def message_id(offset: int) -> str:
    return RENDERER.plain_id(offset).decode()


class Takes:
    """A handler that does as the data of each message says."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    def __call__(self, delivery: Delivery) -> None:
        for message in delivery.messages:
            match message.json():
                case "retry":
                    raise DeliverLater("later", after_s=7)
                case "reject":
                    raise Reject("not an order")
                case "break":
                    raise Broken
                case data:
                    self.taken.append(data)


class Broken(Exception):
    """A handler's bug."""


def headers_of(request: PushRequest) -> Mapping[str, str]:
    named = dict(request.headers)
    assert len(named) == len(request.headers)
    return named
