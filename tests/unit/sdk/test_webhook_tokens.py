"""Bearer tokens: what is believed, and how often keys are looked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from packetboat.webhooks import Answer, BadToken, Delivery, MissingHeader, Receiver, Tokens
from packetboat.webhooks.tokens import DEFAULT_KEEP_S, MIN_PAUSE_S, Fetched

from store_nodes.record_batch import Message
from tests.unit.sdk.webhook_support import NOW_S, Hook, headers_of, pair

ISSUER = "https://boat.example"
CLAIMS = {
    "iss": ISSUER,
    "aud": "https://hook.example",
    "sub": "subscription:hook",
    "tenant": "0f",
    "subscription": "hook",
    "exp": int(NOW_S) + 60,
}


def key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": name}, private=True)


FIRST, SECOND = key("first"), key("second")


class Issuer:
    """Publishes keys."""

    def __init__(self, *keys: RSAKey) -> None:
        self.keys = keys
        self.calls: list[str] = []
        self.issuer = ISSUER
        self.away = False
        self.now_s = NOW_S

    def fetch(self, url: str) -> Fetched:
        self.calls.append(url)
        if self.away:
            raise OSError("nobody answers")
        if url.endswith("openid-configuration"):
            document: Any = {"issuer": self.issuer, "jwks_uri": f"{ISSUER}/keys"}
        else:
            document = {"keys": [one.as_dict(private=False) for one in self.keys]}
        return Fetched(msgspec.json.encode(document), DEFAULT_KEEP_S)

    def tokens(self, **expected: Any) -> Tokens:
        fields: dict[str, Any] = {"issuer": ISSUER, "audience": CLAIMS["aud"], "tenant": "0f"}
        return Tokens(**(fields | expected), fetch=self.fetch, clock=lambda: self.now_s)


@pytest.fixture
def issuer() -> Issuer:
    return Issuer(FIRST)


def token(by: RSAKey = FIRST, algorithm: str = "RS256", **changed: Any) -> str:
    header = {"alg": algorithm, "kid": by.kid, "typ": "JWT"}
    return jwt.encode(header, CLAIMS | changed, by, algorithms=[algorithm])


def given(receiver: Receiver, bearer: str | None) -> Delivery:
    request = Hook().push(Message(b"1", "application/json"))
    headers = dict(headers_of(request))
    if bearer is not None:
        headers["Authorization"] = bearer
    found = receiver.verify(request.body, headers)
    assert isinstance(found, Delivery)
    return found


def receiver(tokens: Tokens, *secrets: str) -> Receiver:
    return Receiver(secrets, tokens=tokens, clock=lambda: NOW_S)


def test_a_token_alone_is_enough_where_no_secret_is_given(issuer: Issuer) -> None:
    one = receiver(issuer.tokens(subscription="hook", subject="subscription:hook"))
    assert given(one, f"Bearer {token()}").message.json() == 1
    assert given(one, f"bearer {token()}")


def test_with_secrets_both_are_asked_for(issuer: Issuer) -> None:
    from packetboat.webhooks import NotVerified

    one = receiver(issuer.tokens(), pair().told)
    with pytest.raises(NotVerified) as caught:
        given(one, f"Bearer {token()}")
    assert caught.value.header == "webhook-signature"


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": "https://other.example"},
        {"aud": "b"},
        {"tenant": "1f"},
        {"sub": "b"},
        {"subscription": "b"},
        {"exp": int(NOW_S) - 31},
        {"exp": "soon"},
        {"exp": None},
    ],
    ids=lambda changed: "-".join(map(str, *changed.items())),
)
def test_each_claim_is_held_to_what_is_expected(issuer: Issuer, changed: dict[str, Any]) -> None:
    one = receiver(issuer.tokens(subscription="hook", subject="subscription:hook"))
    with pytest.raises(BadToken):
        given(one, f"Bearer {token(**changed)}")


@pytest.mark.parametrize("bearer", ["Basic abc", "Bearer", "Bearer a.b", "Bearer ..", "Bearer é"])
def test_what_is_no_token_is_refused(issuer: Issuer, bearer: str) -> None:
    with pytest.raises(BadToken):
        given(receiver(issuer.tokens()), bearer)


def test_a_request_without_one_is_refused(issuer: Issuer) -> None:
    with pytest.raises(MissingHeader, match="authorization"):
        given(receiver(issuer.tokens()), None)


def test_another_key_of_the_same_name_signs_nothing(issuer: Issuer) -> None:
    with pytest.raises(BadToken):
        given(receiver(issuer.tokens()), f"Bearer {token(key('first'))}")


def test_no_other_algorithm_than_ours_is_taken(issuer: Issuer) -> None:
    with pytest.raises(BadToken):
        given(receiver(issuer.tokens()), f"Bearer {token(algorithm='PS256')}")


def test_keys_are_kept_and_a_new_one_is_found_soon(issuer: Issuer) -> None:
    one = receiver(issuer.tokens())
    for _ in range(3):
        given(one, f"Bearer {token()}")
    assert len(issuer.calls) == 2
    issuer.keys = (FIRST, SECOND)
    with pytest.raises(BadToken):
        given(one, f"Bearer {token(SECOND)}")
    assert len(issuer.calls) == 2, "what callers send makes no requests"
    issuer.now_s += MIN_PAUSE_S
    assert given(one, f"Bearer {token(SECOND)}")
    assert len(issuer.calls) == 4
    issuer.now_s += DEFAULT_KEEP_S
    later = {"exp": int(issuer.now_s) + 60}
    assert given(one, f"Bearer {token(**later)}")
    assert len(issuer.calls) == 6


def test_while_the_issuer_is_away_known_keys_hold_and_others_are_asked_to_come_again(
    issuer: Issuer,
) -> None:
    one = receiver(issuer.tokens())
    given(one, f"Bearer {token()}")
    issuer.away = True
    issuer.now_s += DEFAULT_KEEP_S
    later = {"exp": int(issuer.now_s) + 60}
    assert given(one, f"Bearer {token(**later)}")
    away = Issuer(FIRST)
    away.away = True
    request = Hook().push(Message(b"1", "application/json"))
    headers = {**headers_of(request), "Authorization": f"Bearer {token()}"}
    answer = receiver(away.tokens()).answer(request.body, headers, lambda _: None)
    assert isinstance(answer, Answer)
    assert answer.status == 503


def test_a_document_of_another_issuer_is_not_believed(issuer: Issuer) -> None:
    issuer.issuer = "https://other.example"
    with pytest.raises(OSError, match=r"document of https://other\.example"):
        given(receiver(issuer.tokens()), f"Bearer {token()}")


def test_an_issuer_is_reached_safely(issuer: Issuer) -> None:
    with pytest.raises(ValueError, match="https"):
        issuer.tokens(issuer="http://boat.example")
    assert issuer.tokens(issuer="http://127.0.0.1:8080")
