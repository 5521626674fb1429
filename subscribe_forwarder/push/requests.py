"""Makes requests to endpoints: body, headers and signature of one delivery.

    raw          the message's bytes, its attributes as JSON in `Packetboat-Attributes`
    json         {"subscription": …, "topic": …, "messages": [as a pull shows them]}
    cloudevents  see `cloud_events`

`webhook-id` is the message's id: the same in every attempt, and for every subscription. A request
of many messages has one made of all their ids.
"""

from __future__ import annotations

import math
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol

import msgspec

from edge.sealing import SealBroken, Sealer
from edge.signing import Key, Signer
from metadata.subscriptions.push_config import BATCHING, PushConfig, header_purpose, key_purpose
from metadata.types import Subscription
from openapi.webhooks import PushFormat
from subscribe_forwarder.delivery.reading.render import time_json
from subscribe_forwarder.push import cloud_events
from subscribe_forwarder.push.outgoing import Outgoing

USER_AGENT = "Packetboat/1"
MAX_COMPILED = 10_000
_JSON = ("Content-Type", "application/json")
_Header = tuple[str, str]


class PushRequest(NamedTuple):
    """One POST, as it will leave; `tenant_id` says whose rules of egress hold."""

    url: str
    headers: list[_Header]
    body: bytes
    tenant_id: bytes


class Unsendable(Exception):
    """No request can be made now; the text says why and what to do, and names no secret."""


class EndpointTokens(Protocol):
    """Makes bearer tokens that an endpoint can check (OpenID Connect)."""

    def for_endpoint(self, tenant_id: bytes, subscription: str, audience: str, subject: str) -> str:
        """Return a token with some minutes left to live. Raises LookupError, saying what lacks."""


class NoTokens:
    """The maker of tokens of a server without a key: it raises LookupError."""

    def for_endpoint(self, tenant_id: bytes, subscription: str, audience: str, subject: str) -> str:
        raise LookupError("this server has no key to sign tokens with")


class _Compiled(NamedTuple):
    """The parts that all requests of one version of a subscription share."""

    version: int
    headers: list[_Header]
    signer: Signer


class Requests:
    """Makes requests, and keeps the opened secrets of a subscription while it stays as it is."""

    def __init__(self, sealer: Sealer | None, tokens: EndpointTokens) -> None:
        self._sealer = sealer
        self._tokens = tokens
        self._compiled: OrderedDict[bytes, _Compiled] = OrderedDict()

    def build(
        self, subscription: Subscription, messages: Sequence[Outgoing], now_s: float
    ) -> PushRequest:
        """Make a request of one message, or of some where the format batches.

        `now_s` is seconds since 1970. Raises Unsendable.
        """
        config = subscription.push
        assert config is not None
        assert len(messages) == 1 or (messages and config.format in BATCHING)
        compiled = self._compiled.get(subscription.uid)
        if compiled is None or compiled.version != subscription.version:
            compiled = self._compile(subscription, config)
        headers, body = _MAKERS[config.format](subscription, messages)
        webhook_id = messages[0].message_id if len(messages) == 1 else _id_of(messages)
        return self._finish(subscription, config, compiled, webhook_id, now_s, headers, body)

    def challenge(
        self, subscription: Subscription, challenge_id: str, body: bytes, now_s: float
    ) -> PushRequest:
        """Make a request that brings no message: signed and headed as the others.

        Raises Unsendable.
        """
        config = subscription.push
        assert config is not None
        compiled = self._compile(subscription, config)
        headers = [_JSON, ("Packetboat-Subscription", subscription.name)]
        return self._finish(subscription, config, compiled, challenge_id, now_s, headers, body)

    def forget(self, subscription_uid: bytes) -> None:
        """Remove its opened secrets from memory."""
        self._compiled.pop(subscription_uid, None)

    def _finish(
        self,
        subscription: Subscription,
        config: PushConfig,
        compiled: _Compiled,
        webhook_id: str,
        now_s: float,
        headers: list[_Header],
        body: bytes,
    ) -> PushRequest:
        """Add the configured headers, the signature and the token to a request."""
        headers += compiled.headers
        headers.append(("webhook-id", webhook_id))
        headers.append(("webhook-timestamp", str(int(now_s))))
        signature = compiled.signer.header(webhook_id, now_s, body)
        if signature:
            headers.append(("webhook-signature", signature))
        if config.oidc is not None:
            token = self._token(subscription, config.oidc.audience, config.oidc.subject)
            headers.append(("Authorization", f"Bearer {token}"))
        return PushRequest(config.url, headers, body, subscription.tenant_id)

    def _token(self, subscription: Subscription, audience: str, subject: str | None) -> str:
        subject = subject or f"subscription:{subscription.name}"
        try:
            return self._tokens.for_endpoint(
                subscription.tenant_id, subscription.name, audience, subject
            )
        except LookupError as error:
            raise Unsendable(f"No token could be made for the endpoint: {error.args[0]}") from error

    def _compile(self, subscription: Subscription, config: PushConfig) -> _Compiled:
        tenant_id, uid = subscription.tenant_id, subscription.uid
        headers = [("User-Agent", USER_AGENT)]
        for name, sealed in config.headers.items():
            value = self._open(sealed, header_purpose(tenant_id, uid, name), f"header {name}")
            headers.append((name, value.decode()))
        keys = []
        for key in config.signing:
            plain = self._open(
                key.sealed, key_purpose(tenant_id, uid, key.id), f"signing secret {key.id}"
            )
            until = math.inf if key.expires_at is None else key.expires_at.timestamp()
            keys.append(Key(key.kind, plain, until))
        compiled = _Compiled(subscription.version, headers, Signer(keys))
        self._compiled[uid] = compiled
        self._compiled.move_to_end(uid)
        if len(self._compiled) > MAX_COMPILED:
            self._compiled.popitem(last=False)
        return compiled

    def _open(self, sealed: bytes, purpose: str, what: str) -> bytes:
        if self._sealer is None:
            detail = "cannot be opened: this process has no PACKETBOAT_SEAL_KEYS"
            raise Unsendable(f"The {what} {detail}")
        try:
            return self._sealer.open(sealed, purpose)
        except SealBroken as error:
            raise Unsendable(f"The {what} cannot be opened: {error}; give it again") from error


def _raw(subscription: Subscription, messages: Sequence[Outgoing]) -> tuple[list[_Header], bytes]:
    one = messages[0]
    headers = _facts_of_one(subscription, one)
    headers.append(("Content-Type", _plain(one.message.content_type) or cloud_events.OCTETS))
    if one.message.attributes:
        text = _ascii(msgspec.json.encode(one.message.attributes).decode())
        headers.append(("Packetboat-Attributes", text))
    return headers, one.message.data


def _json(subscription: Subscription, messages: Sequence[Outgoing]) -> tuple[list[_Header], bytes]:
    """Return the headers and the body of the format `json`."""
    # The names are letters, digits and `._-`: they need no escapes.
    body = b'{"subscription":"%b","topic":"%b","messages":[%b]}' % (
        subscription.name.encode("ascii"),
        subscription.topic_name.encode("ascii"),
        b",".join([b'{%b,"attempt":%d}' % (one.fragment, one.attempt) for one in messages]),
    )
    return [_JSON, *_facts(subscription, messages)], body


def _binary(
    subscription: Subscription, messages: Sequence[Outgoing]
) -> tuple[list[_Header], bytes]:
    one = messages[0]
    headers = _facts_of_one(subscription, one)
    headers += cloud_events.binary_headers(_event(subscription, one))
    content_type = _plain(one.message.content_type)
    if content_type:
        headers.append(("Content-Type", content_type))
    return headers, one.message.data


def _structured(
    subscription: Subscription, messages: Sequence[Outgoing]
) -> tuple[list[_Header], bytes]:
    one = messages[0]
    headers = _facts_of_one(subscription, one)
    headers.append(("Content-Type", cloud_events.STRUCTURED_TYPE))
    return headers, cloud_events.structured(_event(subscription, one), one.message)


def _batched(
    subscription: Subscription, messages: Sequence[Outgoing]
) -> tuple[list[_Header], bytes]:
    headers = _facts(subscription, messages)
    headers.append(("Content-Type", cloud_events.BATCH_TYPE))
    events = [cloud_events.structured(_event(subscription, one), one.message) for one in messages]
    return headers, cloud_events.batched(events)


_MAKERS: dict[
    PushFormat, Callable[[Subscription, Sequence[Outgoing]], tuple[list[_Header], bytes]]
] = {
    "raw": _raw,
    "json": _json,
    "cloudevents_binary": _binary,
    "cloudevents_structured": _structured,
    "cloudevents_batched": _batched,
}


def _facts(subscription: Subscription, messages: Sequence[Outgoing]) -> list[_Header]:
    """Return the headers that name the subscription, the topic and the metadata of one message."""
    if len(messages) == 1:
        return _facts_of_one(subscription, messages[0])
    return [
        ("Packetboat-Subscription", subscription.name),
        ("Packetboat-Topic", subscription.topic_name),
    ]


def _facts_of_one(subscription: Subscription, one: Outgoing) -> list[_Header]:
    """Return the headers of a request with one message."""
    headers = [
        ("Packetboat-Subscription", subscription.name),
        ("Packetboat-Topic", subscription.topic_name),
        ("Packetboat-Message-Id", one.message_id),
        ("Packetboat-Attempt", str(one.attempt)),
    ]
    if one.message.key is not None:
        headers.append(("Packetboat-Key", cloud_events.header_value(one.message.key)))
    traceparent = _plain(one.message.traceparent)
    if traceparent:
        headers.append(("traceparent", traceparent))
        tracestate = _plain(one.message.tracestate)
        if tracestate:
            headers.append(("tracestate", tracestate))
    return headers


def _event(subscription: Subscription, one: Outgoing) -> dict[str, str | int]:
    return cloud_events.attributes_of(
        one.message,
        message_id=one.message_id,
        time=time_json(one.publish_time_us)[1:-1].decode(),
        topic=subscription.topic_name,
        subscription=subscription.name,
        partition=one.partition,
        offset=one.offset,
        attempt=one.attempt,
    )


def _id_of(messages: Sequence[Outgoing]) -> str:
    digest = sha256(" ".join([one.message_id for one in messages]).encode("ascii")).digest()
    return f"batch_{urlsafe_b64encode(digest[:24]).decode()}"


def _plain(text: str | None) -> str:
    """Return a publisher's text if a header may have it, else an empty text."""
    return text if text is not None and text.isascii() and text.isprintable() else ""


def _ascii(json_text: str) -> str:
    """Return the same JSON in ASCII, as a header can have it."""
    if json_text.isascii() and "\x7f" not in json_text:
        return json_text
    return "".join([char if char < "\x7f" else _escape(char) for char in json_text])


def _escape(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join([f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)])
