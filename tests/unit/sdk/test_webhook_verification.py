"""Test which requests are accepted: signatures, secrets that change, timestamps, repeated
headers.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import pytest
from packetboat.webhooks import (
    BadSignature,
    BadTimestamp,
    Challenge,
    Delivery,
    MissingHeader,
    NotVerified,
    Receiver,
    WebhookError,
    verify,
)
from packetboat.webhooks.signatures import MAX_SIGNATURES
from standardwebhooks import Webhook

from openapi.webhooks import SigningKind
from store_nodes.record_batch import Message
from subscribe_forwarder.push.requests import PushRequest
from tests.unit.sdk.webhook_support import NOW_S, Hook, Pair, headers_of, pair

ORDER = Message(b'{"order":1}', "application/json")


def receiver(*pairs: Pair, now_s: float = NOW_S, **options: Any) -> Receiver:
    return Receiver([one.told for one in pairs], clock=lambda: now_s, **options)


def taken(one: Receiver, request: PushRequest, **changed: str) -> Delivery:
    headers = {**headers_of(request), **{k.replace("_", "-"): v for k, v in changed.items()}}
    delivery = one.verify(request.body, headers)
    assert isinstance(delivery, Delivery)
    return delivery


@pytest.mark.parametrize("kind", ["v1", "v1a"])
def test_what_the_server_signed_is_taken_and_nothing_altered(kind: SigningKind) -> None:
    key = pair(kind)
    request, one = Hook(key).push(ORDER), receiver(key)
    assert taken(one, request).message.json() == {"order": 1}
    for changed in (
        {"webhook_id": "another"},
        {"webhook_timestamp": str(int(NOW_S) - 1)},
        {"webhook_signature": f"{kind}," + base64.b64encode(bytes(32)).decode()},
    ):
        with pytest.raises(BadSignature) as caught:
            taken(one, request, **changed)
        assert caught.value.header == "webhook-signature"
    with pytest.raises(BadSignature, match="as it came"):
        one.verify(request.body + b" ", headers_of(request))
    with pytest.raises(BadSignature, match="secrets of this"):
        taken(receiver(pair(kind)), request)


def test_what_the_reference_library_signs_is_taken() -> None:
    from datetime import UTC, datetime

    key = pair()
    body = Hook(key).push(ORDER).body
    at = datetime.fromtimestamp(int(NOW_S), UTC)
    signature = Webhook(key.told).sign("msg_1", at, body.decode())
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(NOW_S)),
        "Webhook-Signature": signature,
    }
    assert isinstance(receiver(key).verify(body, headers), Delivery)


@pytest.mark.parametrize("kind", ["v1", "v1a"])
def test_while_secrets_change_either_end_may_be_first(kind: SigningKind) -> None:
    old, new = pair(kind), pair(kind)
    for signed in ([old], [old, new], [new]):
        request = Hook(*signed).push(ORDER)
        assert taken(receiver(old, new), request).message.json() == {"order": 1}
        assert taken(receiver(new, old), request).message.json() == {"order": 1}
    assert taken(receiver(old), Hook(new, old).push(ORDER))
    assert taken(receiver(new), Hook(old, new).push(ORDER))


def test_of_two_kinds_one_is_enough() -> None:
    shared, private = pair("v1"), pair("v1a")
    request = Hook(shared, private).push(ORDER)
    assert taken(receiver(shared), request)
    assert taken(receiver(private), request)
    with pytest.raises(BadSignature, match=r"v1a, secrets here are for v1: .*push\.signing"):
        taken(receiver(shared), Hook(private).push(ORDER))


def test_signatures_that_nobody_can_read_do_no_harm_and_too_many_are_not_looked_at() -> None:
    key = pair()
    request = Hook(key).push(ORDER)
    good = headers_of(request)["webhook-signature"]
    assert taken(receiver(key), request, webhook_signature=f"v9,?? v1,*** nonsense {good}")
    with pytest.raises(BadSignature, match="none that can be read"):
        taken(receiver(key), request, webhook_signature="?? v1,***")
    flood = " ".join(["v1,AAAA"] * MAX_SIGNATURES)
    with pytest.raises(BadSignature):
        taken(receiver(key), request, webhook_signature=f"{flood} {good}")


@pytest.mark.parametrize("apart_s", [-300, -1, 0, 299, 300])
def test_within_the_tolerance_it_is_taken(apart_s: int) -> None:
    key = pair()
    assert taken(receiver(key, now_s=NOW_S + apart_s), Hook(key).push(ORDER))


@pytest.mark.parametrize(
    ("apart_s", "advice"), [(301, "clock here fast"), (-301, "clock here slow")]
)
def test_beyond_it_the_text_says_which_clock_to_look_at(apart_s: int, advice: str) -> None:
    key = pair()
    with pytest.raises(BadTimestamp, match=advice) as caught:
        taken(receiver(key, now_s=NOW_S + apart_s), Hook(key).push(ORDER))
    assert (caught.value.header, caught.value.status) == ("webhook-timestamp", 401)
    assert taken(receiver(key, now_s=NOW_S + apart_s, tolerance_s=400), Hook(key).push(ORDER))


@pytest.mark.parametrize("text", ["soon", "-1", "1e9", "٣", "1" * 16, " 17"])
def test_a_timestamp_is_digits(text: str) -> None:
    key = pair()
    with pytest.raises(BadTimestamp):
        taken(receiver(key), Hook(key).push(ORDER), webhook_timestamp=text)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_each_header_is_there_once(name: str) -> None:
    key = pair()
    request, one = Hook(key).push(ORDER), receiver(key)
    lacking = [(key, value) for key, value in request.headers if key != name]
    with pytest.raises(MissingHeader, match="it is not there") as caught:
        one.verify(request.body, lacking)
    assert caught.value.header == name
    with pytest.raises(MissingHeader, match="more than once"):
        one.verify(request.body, [*request.headers, (name.upper(), "x")])


def test_an_error_names_no_secret() -> None:
    key = pair()
    with pytest.raises(NotVerified) as caught:
        taken(receiver(key), Hook(pair()).push(ORDER))
    assert key.told not in str(caught.value)
    assert isinstance(caught.value, WebhookError)


@pytest.mark.parametrize("text", ["", "whsec_", "whsec_§", "abc", "whpk_AAAA", "whsec-AAAA"])
def test_what_is_no_secret_is_said_at_once(text: str) -> None:
    with pytest.raises(ValueError, match="whsec_"):
        Receiver(text)


def test_a_receiver_that_would_check_nothing_is_not_made() -> None:
    with pytest.raises(ValueError, match="signing secret"):
        Receiver([])
    with pytest.raises(ValueError, match="format"):
        Receiver(pair().told, format="xml")  # type: ignore[arg-type]


def test_a_challenge_is_believed_when_it_is_signed() -> None:
    key = pair()
    request = Hook(key).challenge("abc-123")
    found = receiver(key).verify(request.body, headers_of(request))
    assert found == Challenge(Hook(key).subscription.name, "abc-123")
    with pytest.raises(BadSignature):
        receiver(pair()).verify(request.body, headers_of(request))


def test_the_function_takes_what_is_signed_now(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    key = pair()
    request = Hook(key).push(ORDER, now_s=time.time())
    found = verify(request.body, headers_of(request), key.told)
    assert isinstance(found, Delivery)
    assert found.message.json() == {"order": 1}


def test_without_cryptography_the_text_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = pair("v1a").told
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ImportError, match=r"sdk/python\[webhooks\]"):
        Receiver(told)
    assert Receiver(pair().told)
