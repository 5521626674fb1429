"""Test the requests to an endpoint: bodies, headers and signatures, read with other libraries."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from cloudevents.core.bindings import http as ce_http
from cloudevents.core.formats.json import JSONFormat
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from edge import message_id
from edge.sealing import Sealer
from edge.signing import (
    Key,
    Signer,
    new_key,
    public_text,
    secret_text,
)
from metadata.subscriptions.push_config import (
    OidcToken,
    PushConfig,
    SigningKey,
    header_purpose,
    key_purpose,
)
from metadata.types import Subscription
from openapi.webhooks import PushFormat, SigningKind
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.render import PartitionRenderer, time_json
from subscribe_forwarder.push.cloud_events import header_value
from subscribe_forwarder.push.outgoing import Outgoing
from subscribe_forwarder.push.requests import NoTokens, PushRequest, Requests, Unsendable
from tests.unit.subscribe_forwarder.subscribe_support import TENANT, TOPIC_UID, subscription

SEALER = Sealer.from_text("one:" + "ab" * 32)
NOW = datetime.now(UTC)
NOW_S = NOW.timestamp()
RENDERER = PartitionRenderer(TOPIC_UID, 3)
TIME_US = 1_700_000_000_123_456


class AtTheStart(datetime):
    """A clock that stands at NOW: this file may be imported long before its tests run."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
        return NOW.astimezone(tz)


@pytest.fixture(autouse=True)
def their_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("standardwebhooks.webhooks.datetime", AtTheStart)


def outgoing(message: Message, offset: int = 7, attempt: int = 1) -> Outgoing:
    fragment = RENDERER.fragment(message, offset, time_json(TIME_US))
    return Outgoing(
        message, RENDERER.plain_id(offset).decode(), TIME_US, 3, offset, attempt, fragment
    )


def pushing(format_: PushFormat = "json", **fields: Any) -> Subscription:
    config = PushConfig(url="https://hook.example/in", format=format_, **fields)
    return msgspec.structs.replace(subscription(), type="push", push=config)


def signing_key(
    kind: SigningKind, plain: bytes, key_id: str, expires_at: datetime | None = None
) -> SigningKey:
    sealed = SEALER.seal(plain, key_purpose(TENANT, subscription().uid, key_id))
    return SigningKey(key_id, kind, sealed, NOW, expires_at=expires_at)


def build(
    of: Subscription, *messages: Message | Outgoing, now_s: float = NOW_S, **seams: Any
) -> PushRequest:
    requests = Requests(seams.get("sealer", SEALER), seams.get("tokens", NoTokens()))
    given = [one if isinstance(one, Outgoing) else outgoing(one) for one in messages]
    return requests.build(of, given, now_s)


def named(request: PushRequest) -> dict[str, str]:
    headers = {name.lower(): value for name, value in request.headers}
    assert len(headers) == len(request.headers), "a header is there twice"
    return headers


class TestSignatures:
    def test_the_vector_of_standard_webhooks(self) -> None:
        secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        signer = Signer([Key("v1", secret, float("inf"))])
        header = signer.header("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
        assert header == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    @pytest.mark.parametrize("size", [0, 1, 16_383, 16_384, 16_385, 300_000])
    def test_their_library_accepts_it_and_nothing_altered(self, size: int) -> None:
        secret = new_key()
        assert 24 <= len(secret) <= 64
        of = pushing("raw", signing=(signing_key("v1", secret, "k"),))
        request = build(of, Message(b"x" * size, "text/plain"))
        webhook = Webhook(secret_text(secret))
        webhook.verify(request.body, named(request), json_parse=False)
        for change in (
            {"webhook-id": "other"},
            {"webhook-timestamp": str(int(NOW_S) - 1)},
        ):
            with pytest.raises(WebhookVerificationError):
                webhook.verify(request.body, named(request) | change, json_parse=False)
        with pytest.raises(WebhookVerificationError):
            webhook.verify(request.body + b"y", named(request), json_parse=False)
        with pytest.raises(WebhookVerificationError):
            Webhook(secret_text(new_key())).verify(request.body, named(request), json_parse=False)

    def test_ed25519_by_the_specification(self) -> None:
        seed = new_key()
        of = pushing(signing=(signing_key("v1a", seed, "a"),))
        request = build(of, Message(b"{}", "application/json"))
        headers = named(request)
        version, _, signature = headers["webhook-signature"].partition(",")
        assert version == "v1a"
        text = public_text(seed)
        assert text.startswith("whpk_")
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(text[5:]))
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode()
        public.verify(base64.b64decode(signature), signed + request.body)
        with pytest.raises(InvalidSignature):
            public.verify(base64.b64decode(signature), signed + request.body + b" ")

    def test_while_keys_are_changed_both_hold_and_then_the_new_alone(self) -> None:
        old, new = new_key(), new_key()
        overlap = NOW + timedelta(hours=1)
        of = pushing(
            signing=(
                signing_key("v1", new, "new"),
                signing_key("v1", old, "old", overlap),
                signing_key("v1a", new_key(), "a"),
            )
        )
        requests = Requests(SEALER, NoTokens())
        message = outgoing(Message(b"{}", "application/json"))
        request = requests.build(of, [message], NOW_S)
        assert [each[:3] for each in named(request)["webhook-signature"].split(" ")] == [
            "v1,",
            "v1,",
            "v1a",
        ]
        for secret in (old, new):
            Webhook(secret_text(secret)).verify(request.body, named(request))
        later = requests.build(of, [message], overlap.timestamp())
        assert len(named(later)["webhook-signature"].split(" ")) == 2

    def test_without_keys_there_is_no_signature(self) -> None:
        assert "webhook-signature" not in named(build(pushing(), Message(b"")))

    def test_a_key_of_another_subscription_signs_nothing(self) -> None:
        """The row was copied from another subscription."""
        of = pushing(signing=(signing_key("v1", new_key(), "k"),))
        with pytest.raises(Unsendable, match="signing secret k"):
            build(msgspec.structs.replace(of, uid=bytes(16)), Message(b""))
        with pytest.raises(Unsendable, match="PACKETBOAT_SEAL_KEYS"):
            build(of, Message(b""), sealer=None)


class TestIds:
    def test_the_id_is_that_of_the_message_in_every_attempt_and_has_no_dots(self) -> None:
        of, message = pushing(), Message(b"{}", "application/json")
        first = named(build(of, outgoing(message, 7, 1)))
        later = named(build(of, outgoing(message, 7, 2), now_s=NOW_S + 100))
        assert first["webhook-id"] == later["webhook-id"] == first["packetboat-message-id"]
        assert str(message_id.parse(first["webhook-id"])) == first["webhook-id"]
        assert "." not in first["webhook-id"]
        assert (first["packetboat-attempt"], later["packetboat-attempt"]) == ("1", "2")
        assert int(later["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 100
        assert named(build(of, outgoing(message, 8)))["webhook-id"] != first["webhook-id"]

    def test_the_id_of_many_is_made_of_all(self) -> None:
        of, message = pushing(max_batch=3), Message(b"{}", "application/json")
        ones = [outgoing(message, offset) for offset in (1, 2, 3)]
        ids = {
            named(build(of, *some))["webhook-id"]
            for some in (ones, ones[:2], list(reversed(ones)), ones)
        }
        assert len(ids) == 3
        assert all("." not in each for each in ids)


class TestFormats:
    def test_json(self) -> None:
        message = Message(b'{"n":1}', "application/json", "k", {"a": "b"})
        request = build(pushing(), outgoing(message, attempt=2))
        value = json.loads(request.body)
        assert (value["subscription"], value["topic"]) == ("reader", "orders")
        (shown,) = value["messages"]
        assert (shown["data"], shown["key"], shown["attributes"]) == ({"n": 1}, "k", {"a": "b"})
        assert (shown["attempt"], shown["offset"], "ack_id" in shown) == (2, 7, False)
        assert named(request)["content-type"] == "application/json"

    def test_json_of_many_has_the_facts_of_none_in_its_headers(self) -> None:
        ones = [outgoing(Message(b"x", None, "k"), offset) for offset in range(3)]
        request = build(pushing(max_batch=3), *ones)
        assert [one["offset"] for one in json.loads(request.body)["messages"]] == [0, 1, 2]
        assert not {"packetboat-key", "packetboat-message-id"} & set(named(request))

    def test_raw(self) -> None:
        message = Message(b"\x00\xff", "image/png", "größe 100%", {"ä": '"\r\n\x7f😀'})
        request = build(pushing("raw"), message)
        headers = named(request)
        assert (request.body, headers["content-type"]) == (b"\x00\xff", "image/png")
        assert headers["packetboat-key"] == "gr%C3%B6%C3%9Fe%20100%25"
        assert json.loads(headers["packetboat-attributes"]) == message.attributes
        assert (headers["packetboat-topic"], headers["packetboat-subscription"]) == (
            "orders",
            "reader",
        )
        assert named(build(pushing("raw"), Message(b"")))["content-type"] == (
            "application/octet-stream"
        )

    def test_the_trace_goes_on(self) -> None:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        request = build(pushing(), Message(b"", traceparent=trace, tracestate="a=1,b=2"))
        assert named(request)["traceparent"] == trace
        assert named(request)["tracestate"] == "a=1,b=2"

    @pytest.mark.parametrize("format_", ["raw", "cloudevents_binary"])
    def test_what_a_publisher_chose_ends_no_header(self, format_: PushFormat) -> None:
        evil = "a\r\nX-Evil: 1"
        message = Message(b"", evil, evil, {evil: evil, "x": evil}, traceparent=evil)
        for _, value in build(pushing(format_), message).headers:
            assert value.isascii()
            assert value.isprintable()


def event_of(request: PushRequest) -> Any:
    message = ce_http.HTTPMessage(headers=dict(request.headers), body=request.body)
    return ce_http.from_http(message, JSONFormat())


MESSAGES = [
    Message(b'{"n":[1,"\\u00e9"]}', "application/json", "key", {"kind": "x", "Not-One": "y"}),
    Message("grüße".encode(), "text/plain; charset=utf-8", "schlüssel 1%", {"kind": "ä b"}),
    Message(b"\x00\xff\x01", "application/octet-stream"),
    Message(b"\x00", None, ""),
    Message(b"not json", "application/json"),
    Message(b"", "text/plain", None, {"ce-type": "com.example.made", "ce-source": "urn:x"}),
    Message(b"1", "application/json", "k", {"ce-subject": "s", "id": "never", "data": "never"}),
]


class TestCloudEvents:
    @pytest.mark.parametrize("message", MESSAGES)
    @pytest.mark.parametrize("format_", ["cloudevents_binary", "cloudevents_structured"])
    def test_their_library_reads_what_was_meant(
        self, format_: PushFormat, message: Message
    ) -> None:
        event = event_of(build(pushing(format_), outgoing(message, attempt=4)))
        attributes = message.attributes or {}
        assert event.get_id() == RENDERER.plain_id(7).decode()
        assert event.get_source() == attributes.get("ce-source", "/topics/orders")
        assert event.get_type() == attributes.get("ce-type", "packetboat.message")
        assert event.get_subject() == attributes.get("ce-subject", message.key or None)
        assert event.get_time() == datetime.fromtimestamp(TIME_US / 1e6, UTC)
        assert event.get_datacontenttype() == message.content_type
        shown = {
            name: str(event.get_extension(name))
            for name in ("partitionkey", "pbsubscription", "pbattempt", "pbpartition", "pboffset")
        }
        assert shown == {
            "partitionkey": message.key or "None",
            "pbsubscription": "reader",
            "pbattempt": "4",
            "pbpartition": "3",
            "pboffset": "7",
        }
        if "kind" in attributes:
            assert event.get_extension("kind") == attributes["kind"]
        others = {
            name: value for name, value in attributes.items() if name in ("Not-One", "id", "data")
        }
        assert json.loads(event.get_extension("pbattributes") or "{}") == others

    @pytest.mark.parametrize("message", MESSAGES)
    def test_data_in_json_is_the_body(self, message: Message) -> None:
        request = build(pushing("cloudevents_structured"), message)
        assert named(request)["content-type"].startswith("application/cloudevents+json")
        value = json.loads(request.body)
        if "data_base64" in value:
            assert base64.b64decode(value["data_base64"]) == message.data
        elif message.content_type == "application/json":
            assert value["data"] == json.loads(message.data)
        else:
            assert value["data"] == message.data.decode()

    def test_binary_bodies_are_the_very_bytes(self) -> None:
        for message in MESSAGES:
            request = build(pushing("cloudevents_binary"), message)
            assert request.body == message.data
            assert named(request).get("content-type") == message.content_type

    def test_a_batch_is_an_array_of_what_stands_alone(self) -> None:
        ones = [outgoing(message, offset) for offset, message in enumerate(MESSAGES)]
        request = build(pushing("cloudevents_batched", max_batch=10), *ones)
        kind = named(request)["content-type"]
        assert kind.startswith("application/cloudevents-batch+json")
        alone = [build(pushing("cloudevents_structured"), one).body for one in ones]
        assert json.loads(request.body) == [json.loads(each) for each in alone]

    @given(st.text(st.characters(exclude_categories=["Cs"])))
    def test_header_values_come_back(self, text: str) -> None:
        value = header_value(text)
        assert value.isascii()
        assert all("!" <= char <= "~" and char != '"' for char in value)
        assert unquote(value) == text


class TestSecrets:
    def test_headers_are_opened_and_kept_until_the_subscription_changes(self) -> None:
        uid = subscription().uid
        sealed = SEALER.seal(b"Bearer s3cret", header_purpose(TENANT, uid, "Authorization"))
        of = pushing(headers={"authorization": sealed})
        requests = Requests(SEALER, NoTokens())
        message = [outgoing(Message(b""))]
        assert named(requests.build(of, message, NOW_S))["authorization"] == "Bearer s3cret"
        assert of.push is not None
        changed = msgspec.structs.replace(
            of, version=2, push=msgspec.structs.replace(of.push, headers={})
        )
        assert "authorization" not in named(requests.build(changed, message, NOW_S))
        broken = msgspec.structs.replace(
            of, version=3, push=msgspec.structs.replace(of.push, headers={"X-A": sealed})
        )
        with pytest.raises(Unsendable, match="header X-A"):
            requests.build(broken, message, NOW_S)

    def test_a_token_for_the_endpoint(self) -> None:
        class Tokens:
            asked: Sequence[Any] = ()

            def for_endpoint(self, *asked: Any) -> str:
                self.asked = asked
                return "a.b.c"

        tokens = Tokens()
        of = pushing(oidc=OidcToken("https://them"))
        request = build(of, Message(b""), tokens=tokens)
        assert named(request)["authorization"] == "Bearer a.b.c"
        assert tokens.asked == (TENANT, "reader", "https://them", "subscription:reader")
        with pytest.raises(Unsendable, match="token"):
            build(of, Message(b""))

    def test_challenges_are_signed_like_messages(self) -> None:
        secret = new_key()
        of = pushing(signing=(signing_key("v1", secret, "k"),))
        request = Requests(SEALER, NoTokens()).challenge(of, "verify_1", b'{"a":1}', NOW_S)
        assert Webhook(secret_text(secret)).verify(request.body, named(request)) == {"a": 1}
        assert named(request)["webhook-id"] == "verify_1"
