"""Tokens of webhooks: for one endpoint, cached, renewed in time, and no access tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from auth.access_tokens import AccessTokens
from auth.errors import TokenRefused
from auth.push_tokens import LASTS_S, RENEWED_BEFORE_S, PushTokens
from auth.signing_keys import SigningKeys
from tests.unit.auth.keyring import Clock, MemoryRing, keys_of, made_keys

ISSUER = "https://packetboat.example"
ACME, OTHER = b"a" * 16, b"o" * 16


def tokens_of(keys: SigningKeys, clock: Clock) -> PushTokens:
    return PushTokens(keys, issuer=ISSUER, own_audience="packetboat", clock=clock)


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


async def test_a_receiver_reads_it_by_the_published_keys() -> None:
    clock = Clock()
    keys = await made_keys(clock)
    token = tokens_of(keys, clock).for_endpoint(ACME, "orders", "https://hook.example", "svc")
    read = jwt.decode(token, KeySet.import_key_set({"keys": list(keys.jwks())}), ["RS256"])
    assert read.header["typ"] == "JWT"
    assert read.claims["iss"] == ISSUER
    assert read.claims["aud"] == "https://hook.example"
    assert read.claims["sub"] == "svc"
    assert read.claims["tenant"] == "61616161-6161-6161-6161-616161616161"
    assert read.claims["subscription"] == "orders"
    assert read.claims["exp"] == clock.now_s + LASTS_S


async def test_it_is_kept_for_the_endpoint_and_renewed_before_it_is_over() -> None:
    clock = Clock()
    tokens = tokens_of(await made_keys(clock), clock)
    asked = (ACME, "orders", "https://hook.example", "svc")
    first = tokens.for_endpoint(*asked)
    clock.now_s += LASTS_S - RENEWED_BEFORE_S - 1
    assert tokens.for_endpoint(*asked) == first
    clock.now_s += 1
    renewed = tokens.for_endpoint(*asked)
    assert renewed != first
    assert claims_of(renewed)["exp"] == clock.now_s + LASTS_S


async def test_tenants_share_none() -> None:
    clock = Clock()
    tokens = tokens_of(await made_keys(clock), clock)
    mine = tokens.for_endpoint(ACME, "orders", "https://hook.example", "svc")
    theirs = tokens.for_endpoint(OTHER, "orders", "https://hook.example", "svc")
    assert claims_of(mine)["tenant"] != claims_of(theirs)["tenant"]


async def test_it_opens_nothing_of_ours() -> None:
    clock = Clock()
    keys = await made_keys(clock)
    tokens = tokens_of(keys, clock)
    with pytest.raises(LookupError, match="own"):
        tokens.for_endpoint(ACME, "orders", "packetboat", "svc")
    ours = AccessTokens(
        keys, issuer=ISSUER, audience="https://hook.example", lasts_s=60, clock=clock
    )
    token = tokens.for_endpoint(ACME, "orders", "https://hook.example", "svc")
    with pytest.raises(TokenRefused):
        await ours.read(token.encode())


async def test_without_a_key_it_says_so() -> None:
    clock = Clock()
    with pytest.raises(LookupError, match="key"):
        tokens_of(keys_of(MemoryRing(clock)), clock).for_endpoint(ACME, "s", "a", "b")


async def test_a_key_that_is_replaced_signs_no_cached_one_any_more() -> None:
    clock = Clock()
    keys = keys_of(MemoryRing(clock))
    await keys.rotate()
    tokens = tokens_of(keys, clock)
    first = tokens.for_endpoint(ACME, "s", "a", "b")
    await keys.replace()
    assert tokens.for_endpoint(ACME, "s", "a", "b") != first
