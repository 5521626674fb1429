"""Row 25 of the fault matrix for tokens of tenants' own issuers: the list of what is accepted is
exact, and what is refused costs its issuer no more than one question in a while."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from auth.errors import TenantSuspended, TokenRefused, VerifierUnavailable
from auth.issuer_keys import IssuerKeys, IssuerUnreachable, read_key
from auth.oidc import IssuerVerifier
from auth.policies import PolicyCache
from metadata.tenancy.issuers import Issuer
from metadata.types import ChangeKind
from openapi.access import Trust
from tests.loop_cpu import MAX_CALLBACK_MS, measured
from tests.unit.auth.tenancy_fakes import (
    ACME,
    OTHER,
    WHEN,
    Policies,
    Tenants,
    change,
    directory_of,
    policy,
)

ISSUER = "https://login.example.com/realms/one"
NOW_S = 1_800_000_000.0
RSA = RSAKey.generate_key(2048, {"kid": "r1"}, private=True)
SECOND = RSAKey.generate_key(2048, {"kid": "r2"}, private=True)
EC = ECKey.generate_key("P-256", {"kid": "e1"}, private=True)
OKP = OKPKey.generate_key("Ed25519", {"kid": "o1"}, private=True)
TRUST = Issuer(
    tenant_id=ACME,
    uid=b"i" * 16,
    name="corp",
    issuer=ISSUER,
    audience="packetboat",
    algorithms=("RS256", "ES256", "EdDSA"),
    subject_claim="sub",
    required_claims={},
    labels={},
    version=1,
    created_at=WHEN,
    updated_at=WHEN,
    trust="document",
)


class World:
    """An issuer that answers what the test says, and a clock."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.trusted: list[Issuer] = [TRUST]
        self.keys: list[Any] = [RSA, EC, OKP]
        self.fetched: list[tuple[bytes, str]] = []
        self.down: str | None = None
        self.described: dict[str, object] = {
            "issuer": ISSUER,
            "jwks_uri": "https://keys.example.com/jwks",
        }
        self.gate = asyncio.Event()
        self.gate.set()
        self.tenants = Tenants()
        self.directory = directory_of(self.tenants)
        self.issuer_keys = IssuerKeys(self.fetch, clock=lambda: self.now_s)
        self.policies = PolicyCache(Policies(policy("viewer", ["issuer:corp#anna"], ["*"])))
        self.verifier = IssuerVerifier(
            self, self.issuer_keys, self.directory, self.policies, clock=lambda: self.now_s
        )

    async def by_issuer(self, issuer: str) -> tuple[Issuer, ...]:
        return tuple(each for each in self.trusted if each.issuer == issuer)

    async def fetch(self, tenant_id: bytes, url: str) -> bytes:
        self.fetched.append((tenant_id, url))
        await self.gate.wait()
        if self.down is not None:
            raise IssuerUnreachable(self.down)
        if url == ISSUER + "/.well-known/openid-configuration":
            return json.dumps(self.described).encode()
        assert url == "https://keys.example.com/jwks"
        listed = [k if isinstance(k, dict | str) else k.as_dict(private=False) for k in self.keys]
        return json.dumps({"keys": listed}).encode()

    async def refused(self, token: bytes) -> None:
        with pytest.raises(TokenRefused):
            await self.verifier.verify(token)


@pytest.fixture
def world() -> World:
    return World()


def claims(**more: Any) -> dict[str, Any]:
    said = {
        "iss": ISSUER,
        "aud": "packetboat",
        "sub": "anna",
        "iat": int(NOW_S),
        "exp": int(NOW_S) + 300,
    } | more
    return {name: value for name, value in said.items() if value is not None}


def encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")


def token(
    key: Any = RSA, algorithm: str = "RS256", header: dict[str, Any] | None = None, **more: Any
) -> bytes:
    """Return a token signed with `algorithm`, whatever its header names."""
    head = {"alg": algorithm, "kid": key.kid, "typ": "JWT"} | (header or {})
    head = {name: value for name, value in head.items() if value is not None}
    signed = (
        encoded(json.dumps(head).encode()) + b"." + encoded(json.dumps(claims(**more)).encode())
    )
    if algorithm == "HS256":
        return signed + b"." + encoded(hmac.digest(key.secret, signed, "sha256"))
    model = JWSRegistry.algorithms[algorithm]
    return signed + b"." + encoded(model.sign(signed, key))


@pytest.mark.parametrize(
    "made",
    [
        lambda: token(),
        lambda: token(EC, "ES256"),
        lambda: token(OKP, "EdDSA"),
        lambda: token(header={"typ": None}),
        lambda: token(header={"typ": "at+jwt"}),
        lambda: token(header={"typ": "application/at+JWT"}),
        lambda: token(header={"x5t": "abc", "nonce": "n"}),
        lambda: token(aud=["else", "packetboat"]),
        lambda: token(nbf=int(NOW_S), scope="anything"),
        lambda: token(exp=NOW_S + 0.5, iat=None),
        lambda: token(exp=int(NOW_S) - 29),
        lambda: token(EC, "ES256", {"kid": None}),
    ],
)
async def test_what_is_accepted(world: World, made: Callable[[], bytes]) -> None:
    principal = await world.verifier.verify(made())
    assert (principal.tenant_id, principal.subject) == (ACME, "issuer:corp#anna")
    assert principal.caller.may_all("read")
    assert not principal.caller.may_some("publish")
    assert principal.credential == "issuer:corp"
    assert principal.expires_at is not None


class PublicKeyAsSecret:
    kid = "r1"
    secret = RSA.as_pem(private=False)


def hs_with_public_key() -> bytes:
    return token(PublicKeyAsSecret, "HS256")


def tampered() -> bytes:
    head, _, signature = token().split(b".")
    return b".".join([head, token(sub="root").split(b".")[1], signature])


@pytest.mark.parametrize(
    "made",
    [
        hs_with_public_key,
        tampered,
        lambda: token(RSA, "RS384"),
        lambda: token(RSA, "PS256"),
        lambda: token(SECOND, header={"kid": "r1"}),
        lambda: token(EC, "ES256", {"kid": "r1"}),
        lambda: token(header={"kid": "../../etc/passwd"}),
        lambda: token(header={"kid": "k" * 500}),
        lambda: token(header={"kid": 7}),
        lambda: token(header={"typ": "logout+jwt"}),
        lambda: token(header={"typ": "dpop+jwt"}),
        lambda: token(header={"crit": ["exp"]}),
        lambda: token(exp=None),
        lambda: token(exp=int(NOW_S) - 31),
        lambda: token(exp="soon"),
        lambda: token(exp=True),
        lambda: token(nbf=int(NOW_S) + 31),
        lambda: token(iat=int(NOW_S) + 31),
        lambda: token(aud="other"),
        lambda: token(aud=None),
        lambda: token(aud=[]),
        lambda: token(aud=["packetboat"] * 33),
        lambda: token(aud=[["packetboat"]]),
        lambda: token(iss=ISSUER + "/"),
        lambda: token(iss=ISSUER.upper()),
        lambda: token(iss=None),
        lambda: token(iss=[ISSUER]),
        lambda: token(sub=None),
        lambda: token(sub=""),
        lambda: token(sub=7),
        lambda: token(sub="a\nb"),
        lambda: token(sub="s" * 257),
        lambda: token(more="x" * 8192),
        lambda: b"ey.ey.ey",
    ],
)
async def test_what_is_refused(world: World, made: Callable[[], bytes]) -> None:
    await world.refused(made())


async def test_without_the_name_of_a_key_there_must_be_but_one(world: World) -> None:
    await world.verifier.verify(token(header={"kid": None}))
    world.keys = [RSA, SECOND]
    await world.verifier.on_changes([change(ChangeKind.ISSUER)])
    await world.refused(token(header={"kid": None}))


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "rs256", "", None, 7, ["RS256"]])
async def test_an_algorithm_of_the_header_alone_is_none(world: World, algorithm: object) -> None:
    await world.refused(token(header={"alg": algorithm}))
    await world.refused(token(header={"alg": algorithm}).rpartition(b".")[0] + b".AA")
    assert world.fetched == []


async def test_an_issuer_configured_for_a_symmetric_algorithm_trusts_nobody(world: World) -> None:
    world.trusted = [replace(TRUST, algorithms=("HS256", "none"))]
    await world.refused(hs_with_public_key())


async def test_claims_that_must_be_there(world: World) -> None:
    world.trusted = [replace(TRUST, required_claims={"team": "blue"}, subject_claim="email")]
    good = {"team": "blue", "email": "anna"}
    assert (await world.verifier.verify(token(**good))).subject == "issuer:corp#anna"
    await world.verifier.verify(token(**good | {"team": ["red", "blue"]}))
    for bad in ({"team": "red"}, {"team": None}, {"team": [["blue"]]}, {"email": None}):
        await world.refused(token(**good | bad))


async def test_nobody_trusts_an_issuer_for_another_tenant(world: World) -> None:
    other = replace(TRUST, tenant_id=OTHER, name="theirs", audience="other")
    world.trusted = [TRUST, other]
    assert (await world.verifier.verify(token())).tenant_id == ACME
    assert (await world.verifier.verify(token(aud="other"))).tenant_id == OTHER
    await world.refused(token(aud=["packetboat", "other"]))


BETTER = [
    ("audience", "document"),
    ("audience", "operator"),
    ("audience", "unproved"),
    ("document", "unproved"),
    ("operator", "unproved"),
    ("unproved", "withdrawn"),
]


@pytest.mark.parametrize(("better", "lesser"), BETTER)
async def test_who_has_proved_it_better_has_the_token(
    world: World, better: Trust, lesser: Trust
) -> None:
    other = replace(TRUST, tenant_id=OTHER, name="theirs", audience="other", trust=lesser)
    world.trusted = [other, replace(TRUST, trust=better)]
    assert (await world.verifier.verify(token(aud=["other", "packetboat"]))).tenant_id == ACME


@pytest.mark.parametrize("trust", ["document", "operator", "unproved"])
async def test_between_equals_nobody_can_say(world: World, trust: Trust) -> None:
    other = replace(TRUST, tenant_id=OTHER, name="theirs", audience="other", trust=trust)
    world.trusted = [replace(TRUST, trust=trust), other]
    await world.refused(token(aud=["packetboat", "other"]))


async def test_what_0_2_registered_holds_until_somebody_proves_to_own_the_issuer(
    world: World,
) -> None:
    early = replace(TRUST, tenant_id=OTHER, name="theirs", audience="other", trust="unproved")
    world.trusted = [early, replace(TRUST, trust="audience")]
    assert (await world.verifier.verify(token(aud="other"))).tenant_id == OTHER
    world.trusted = [early, TRUST]
    await world.verifier.on_changes([change(ChangeKind.ISSUER)])
    await world.refused(token(aud="other"))
    beside = replace(TRUST, audience="else", trust="unproved")
    world.trusted = [early, TRUST, beside]
    await world.verifier.on_changes([change(ChangeKind.ISSUER)])
    assert (await world.verifier.verify(token(aud="else"))).tenant_id == ACME


async def test_what_an_operator_took_back_holds_no_more(world: World) -> None:
    world.trusted = [replace(TRUST, trust="withdrawn")]
    await world.refused(token())


async def test_a_tenant_that_is_suspended(world: World) -> None:
    world.tenants.states[ACME] = "suspended"
    with pytest.raises(TenantSuspended):
        await world.verifier.verify(token())


async def test_keys_are_asked_for_once(world: World) -> None:
    world.gate.clear()
    waiting = [asyncio.create_task(world.verifier.verify(token())) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # the first caller may go away
    await asyncio.sleep(0)
    world.gate.set()
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert not any(isinstance(one, BaseException) for one in done[1:])
    assert len(world.fetched) == 2
    await world.verifier.verify(token())
    assert len(world.fetched) == 2


async def test_a_new_key_is_found_and_unknown_ones_are_not_asked_for_each_time(
    world: World,
) -> None:
    await world.verifier.verify(token())
    world.keys = [SECOND]
    for _ in range(20):
        await world.refused(token(SECOND))  # asked a moment ago
    assert len(world.fetched) == 2
    world.now_s += 10
    await world.verifier.verify(token(SECOND))
    assert len(world.fetched) == 4
    await world.refused(token(RSA))  # rotated away
    for number in range(100):
        await world.refused(token(RSA, header={"kid": f"k{number}"}))
    assert len(world.fetched) == 4


async def test_what_is_wrong_in_a_token_costs_its_issuer_nothing(world: World) -> None:
    for bad in (token(exp=1), token(aud="x"), token(RSA, "RS512"), token(iss="https://else")):
        await world.refused(bad)
    assert world.fetched == []


async def test_an_issuer_that_is_down_is_asked_seldom_and_its_keys_go_on_for_a_while(
    world: World,
) -> None:
    world.down = "connection refused"
    for _ in range(10):
        with pytest.raises(VerifierUnavailable):
            await world.verifier.verify(token())
    assert len(world.fetched) == 1
    world.now_s += 10
    world.down = None
    good = token(exp=int(NOW_S) + 10**6)
    await world.verifier.verify(good)
    world.down = "connection refused"
    asked = len(world.fetched)
    world.now_s += 3600
    for _ in range(5):
        await world.verifier.verify(good)
        await asyncio.sleep(0)
    assert len(world.fetched) == asked + 1
    with pytest.raises(VerifierUnavailable):  # it may be a new key's; nobody can tell
        await world.verifier.verify(token(SECOND, exp=int(NOW_S) + 10**6))
    world.now_s += 6 * 3600
    with pytest.raises(VerifierUnavailable):
        await world.verifier.verify(good)
    world.now_s += 10
    world.down = None
    await world.verifier.verify(good)


async def test_a_key_that_was_taken_back_is_refused_once_the_keys_are_due(world: World) -> None:
    good = token(exp=int(NOW_S) + 10**6)
    await world.verifier.verify(good)
    world.keys = [SECOND]
    world.now_s += 601
    await world.verifier.verify(good)  # while the new keys are fetched
    for _ in range(10):
        await asyncio.sleep(0)
    await world.refused(good)


@pytest.mark.parametrize(
    "described",
    [
        {"issuer": ISSUER + "/", "jwks_uri": "https://keys.example.com/jwks"},
        {"jwks_uri": "https://keys.example.com/jwks"},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": 7},
    ],
)
async def test_a_description_that_does_not_fit(world: World, described: dict[str, object]) -> None:
    world.described = described
    with pytest.raises(VerifierUnavailable):
        await world.verifier.verify(token())


async def test_keys_that_are_not_for_us_are_left_out(world: World) -> None:
    with pytest.warns(SecurityWarning):
        weak = RSAKey.generate_key(1024, {"kid": "r1"}, private=True)
    world.keys = [
        weak,
        {"kty": "oct", "kid": "r1", "k": "AAAA"},
        {"kty": "RSA", "kid": "r1", "n": "!", "e": "AQAB"},
        {"kty": "RSA", "kid": "r1"},
        RSA.as_dict(private=False) | {"use": "enc"},
        RSA.as_dict(private=False) | {"key_ops": ["encrypt"]},
        RSA.as_dict(private=False) | {"key_ops": 5},
        RSA.as_dict(private=False) | {"alg": "RS512"},
        "text",
        SECOND,
    ]
    await world.refused(token())
    await world.refused(token(weak))
    await world.verifier.verify(token(SECOND))


async def test_more_keys_than_anybody_has(world: World) -> None:
    world.keys = [RSA] * 65
    with pytest.raises(VerifierUnavailable):
        await world.verifier.verify(token())


def test_private_parts_are_not_taken_along() -> None:
    key = read_key(RSA.as_dict(private=True))
    assert key is not None
    assert not key.key.is_private


async def test_a_changed_issuer_is_read_anew(world: World) -> None:
    await world.verifier.verify(token())
    world.trusted = []
    await world.verifier.on_changes([change(ChangeKind.TOPIC)])
    await world.verifier.verify(token())
    await world.verifier.on_changes([change(ChangeKind.ISSUER)])
    await world.refused(token())
    world.trusted = [TRUST]
    asked = len(world.fetched)
    await world.verifier.verify(token())
    assert len(world.fetched) == asked + 2


def hostile_keys(bits: int, count: int, kid: str = "r1") -> list[dict[str, str]]:
    """Return keys of one name, with exponents as long as the modulus."""
    keys = []
    for _ in range(count):
        modulus = secrets.randbits(bits) | 1 | 1 << (bits - 1)
        numbers = {"n": modulus, "e": modulus - 2}
        raw = {name: number.to_bytes(bits // 8, "big") for name, number in numbers.items()}
        text = {name: encoded(value).decode() for name, value in raw.items()}
        keys.append({"kty": "RSA", "kid": kid} | text)
    return keys


def unsigned(bits: int, kid: str = "r1") -> bytes:
    head = encoded(json.dumps({"alg": "RS256", "kid": kid}).encode())
    body = encoded(json.dumps(claims(jti=secrets.token_hex(4))).encode())
    return b".".join((head, body, encoded(b"\x7f" + secrets.token_bytes(bits // 8 - 1))))


async def test_an_issuers_keys_cost_the_loop_next_to_nothing(world: World) -> None:
    """This is proof 8 of the audit: 64 keys of one name, each as expensive as a signature."""
    world.keys = [EC, *hostile_keys(3072, 63)]
    async with measured() as callbacks:
        for _ in range(3):
            with pytest.raises((TokenRefused, VerifierUnavailable)):
                await world.verifier.verify(unsigned(3072))
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_many_keys_of_one_name_are_tried_no_further_than_some(world: World) -> None:
    genuine = [RSAKey.generate_key(2048, {"kid": "r1"}, private=True) for _ in range(2)]
    world.keys = [*genuine, *[RSA] * 60]
    await world.verifier.verify(token(genuine[1]))
    world.keys = [RSA] * 4 + genuine
    world.now_s += 7 * 3600
    fresh = token(genuine[1], exp=int(world.now_s) + 300, iat=int(world.now_s))
    await world.refused(fresh)
