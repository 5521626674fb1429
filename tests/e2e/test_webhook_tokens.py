"""Tokens of webhooks as a receiver judges them: by what the installation publishes of itself."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import requests

from tests.e2e.installation import Installation
from tests.e2e.test_webhooks import Site, until
from tests.e2e.token_receiver import Refused, TokenReceiver
from tests.e2e.token_receiver import running as running_receiver

AUDIENCE = "https://hook.example"
HOUR_S = 3_600


@pytest.fixture(scope="module")
def site(running: Installation) -> Site:
    return Site(running)


@pytest.fixture
def receiver(site: Site) -> Iterator[TokenReceiver]:
    with running_receiver(TokenReceiver(site.url, AUDIENCE)) as made:
        yield made


def pushed(site: Site, receiver: TokenReceiver, **oidc: str) -> str:
    """Return the name of a subscription that sends tokens of that kind to the receiver."""
    return site.subscribe(receiver.url, start="latest", push={"oidc": oidc})


def delivered(site: Site, receiver: TokenReceiver, **oidc: str) -> dict[str, Any]:
    """Return the claims of one delivery."""
    name = pushed(site, receiver, **oidc)
    (published,) = site.publish(1)
    until(lambda: site.backlog(name)["messages"] == 0)
    ((claims, body),) = receiver.taken
    assert [one["message_id"] for one in msgspec.json.decode(body)["messages"]] == [published]
    assert claims["subscription"] == name
    return claims


def test_a_receiver_takes_what_bears_a_token_for_it(site: Site, receiver: TokenReceiver) -> None:
    claims = delivered(site, receiver, audience=AUDIENCE, subject="orders-service")
    assert (claims["iss"], claims["aud"]) == (site.url, AUDIENCE)
    assert (claims["sub"], claims["tenant"]) == ("orders-service", own_tenant(site))
    assert 0 < claims["exp"] - time.time() <= HOUR_S
    assert receiver.refused == []


def own_tenant(site: Site) -> str:
    """Return the tenant's id as its own access tokens name it."""
    return str(TokenReceiver(site.url, "packetboat").claims(access_token(site))["tenant"])


def test_a_token_names_the_subscription_where_no_subject_is_given(
    site: Site, receiver: TokenReceiver
) -> None:
    claims = delivered(site, receiver, audience=AUDIENCE)
    assert claims["sub"] == f"subscription:{claims['subscription']}"


def test_a_token_for_another_audience_is_refused_and_its_message_is_a_dead_letter(
    site: Site, receiver: TokenReceiver
) -> None:
    name = pushed(site, receiver, audience="https://another.example")
    site.publish(1)
    until(lambda: len(site.dead_letters(name)) == 1)
    until(lambda: len(site.attempts(name)) == 3)
    found = {(one["outcome"], one["status"]) for one in site.attempts(name)}
    assert found == {("refused", 401)}
    assert receiver.taken == []
    assert len(receiver.refused) == 3
    assert all("aud" in reason for reason in receiver.refused), receiver.refused


@pytest.fixture
def token(site: Site, receiver: TokenReceiver) -> str:
    """Return a token that the receiver has taken."""
    delivered(site, receiver, audience=AUDIENCE)
    (one,) = receiver.tokens
    return one


def test_whatever_is_wrong_with_a_token_it_is_refused(
    site: Site, receiver: TokenReceiver, token: str
) -> None:
    assert receiver.claims(token)
    head, body, signature = token.split(".")
    forged = "A" if signature[0] != "A" else "B"
    elsewhere = TokenReceiver(site.url.replace("127.0.0.1", "localhost"), AUDIENCE)
    later = TokenReceiver(site.url, AUDIENCE, now=lambda: int(time.time()) + HOUR_S + 1)
    for judge, given, why in (
        (receiver, f"{head}.{body}.{forged}{signature[1:]}", "bad_signature"),
        (receiver, f"{head}.{body}.", "bad_signature"),
        (receiver, "", "DecodeError"),
        (later, token, "expired_token"),
        (elsewhere, token, f"the document is of {site.url}"),
        (receiver, access_token(site), "invalid_claim: Invalid claim: 'aud'"),
    ):
        with pytest.raises(Refused, match=why):
            judge.claims(given)


def access_token(site: Site) -> str:
    """Return an access token of the same issuer, signed with the same keys."""
    client = site.call("POST", "/clients", {"name": f"app-{uuid.uuid4().hex[:8]}"}, 201)
    answer = requests.post(
        f"{site.url}/oauth/token",
        data={"grant_type": "client_credentials"},
        auth=(client["client_id"], client["client_secret"]),
        timeout=30,
    )
    return str(answer.json()["access_token"])


def test_it_opens_nothing_here(site: Site, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    assert requests.get(f"{site.url}/topics", headers=headers, timeout=30).status_code == 401
