"""Access tokens: what is issued is read again, and nothing else is (RFC 8725, RFC 9068).

The table of attacks starts from a good token each time and changes one thing of it. All of them
end in the same TokenRefused, most of them before any signature is looked at.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from joserfc import jws, jwt
from joserfc.jwk import ECKey, RSAKey

from auth.access_tokens import LEEWAY_S, AccessTokens, parse_scope, scope_text
from auth.errors import TokenRefused, VerifierUnavailable
from auth.jws import MAX_TOKEN_BYTES
from auth.permissions import GRANTABLE, Permission
from auth.signing_keys import KeyPolicy, NoSigningKey, SigningKeys
from tests.unit.auth.keyring import Clock, MemoryRing, keys_of, made_keys

ISSUER, AUDIENCE = "https://packetboat.example", "packetboat"
TENANT = bytes(range(16))
SCOPE = frozenset({Permission.PUBLISH, Permission.READ})


def tokens_of(keys: SigningKeys, clock: Clock, **other: Any) -> AccessTokens:
    given: dict[str, Any] = {"issuer": ISSUER, "audience": AUDIENCE, "lasts_s": 3600} | other
    return AccessTokens(keys, clock=clock, **given)


class Forger:
    """Has seen a good token and the public keys, and, for some attacks, even signs with ours."""

    def __init__(self, keys: SigningKeys, clock: Clock) -> None:
        self.keys = keys
        self.clock = clock
        self.tokens = tokens_of(keys, clock)
        self.good, self.said = self.tokens.issue(
            tenant_id=TENANT, subject="client:orders", client_id="pbc_x", scope=SCOPE
        )

    def header(self) -> dict[str, Any]:
        return _json(self.good.split(".")[0])

    def claims(self) -> dict[str, Any]:
        return _json(self.good.split(".")[1])

    def signed(self, header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
        """By our own key: whatever is wrong is not the signature."""
        signer = self.keys.signer()
        payload = json.dumps(claims).encode()
        registry = jws.JWSRegistry(algorithms=[signer.algorithm], strict_check_header=False)
        known = {k: v for k, v in header.items() if k not in ("crit", "b64")}
        if known == header and header.get("alg") == signer.algorithm:
            return jws.serialize_compact(dict(header), payload, signer.key, registry=registry)
        return self.raw(json.dumps(header).encode(), payload)

    def raw(self, header: bytes, claims: bytes) -> str:
        """Sign any bytes with our own key."""
        signer = self.keys.signer()
        text = _b64(header) + b"." + _b64(claims)
        signature = _rs256(signer.key, text)
        return (text + b"." + _b64(signature)).decode()


def _rs256(key: Any, text: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    signature: bytes = key.private_key.sign(text, PKCS1v15(), SHA256())
    return signature


def _b64(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _json(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def header_with(**changed: Any) -> Callable[[Forger], str]:
    """Return a forger of a changed header, signed with our key; None removes a member."""

    def forge(forger: Forger) -> str:
        header = {k: v for k, v in (forger.header() | changed).items() if v is not None}
        return forger.raw(json.dumps(header).encode(), json.dumps(forger.claims()).encode())

    return forge


def claims_with(**changed: Any) -> Callable[[Forger], str]:
    def forge(forger: Forger) -> str:
        given = {k: v(forger) if callable(v) else v for k, v in changed.items()}
        claims = {k: v for k, v in (forger.claims() | given).items() if v is not None}
        return forger.raw(json.dumps(forger.header()).encode(), json.dumps(claims).encode())

    return forge


def none_signed(alg: str, signature: bytes = b"") -> Callable[[Forger], str]:
    def forge(forger: Forger) -> str:
        header = json.dumps(forger.header() | {"alg": alg}).encode()
        text = _b64(header) + b"." + _b64(json.dumps(forger.claims()).encode())
        return (text + b"." + _b64(signature)).decode()

    return forge


def hmac_with_the_public_key(form: Callable[[Any], bytes]) -> Callable[[Forger], str]:
    """Return a forger that uses the public key as the secret of an HMAC, in a certain form."""

    def forge(forger: Forger) -> str:
        header = json.dumps(forger.header() | {"alg": "HS256"}).encode()
        text = _b64(header) + b"." + _b64(json.dumps(forger.claims()).encode())
        secret = form(forger.keys.signer().key)
        return (text + b"." + _b64(hmac.digest(secret, text, hashlib.sha256))).decode()

    return forge


def signed_by_another(key: Any, algorithm: str, **more: Any) -> Callable[[Forger], str]:
    def forge(forger: Forger) -> str:
        header = forger.header() | {"alg": algorithm} | more
        registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        payload = json.dumps(forger.claims())
        return jws.serialize_compact(header, payload, key, registry=registry)

    return forge


def cut(forger: Forger) -> str:
    return forger.good[:-8]


def with_padding(forger: Forger) -> str:
    return forger.good + "=="


def other_claims(forger: Forger) -> str:
    """The signature is that of the good token."""
    header, _, signature = forger.good.split(".")
    claims = _b64(json.dumps(forger.claims() | {"scope": "administer"}).encode()).decode()
    return f"{header}.{claims}.{signature}"


def loose_bits(forger: Forger) -> str:
    """Write the same signature with other letters: most decoders ignore the left-over bits of the
    last one.
    """
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = letters.index(forger.good[-1])
    return forger.good[:-1] + letters[last ^ 1]


def text_of_twice(part: str, name: str, other: str) -> Callable[[Forger], str]:
    """An object that names one member twice: whichever a parser takes, another takes the other."""

    def forge(forger: Forger) -> str:
        header, claims = json.dumps(forger.header()), json.dumps(forger.claims())
        doubled = f'{{"{name}": "{other}", '
        if part == "header":
            header = doubled + header[1:]
        else:
            claims = doubled + claims[1:]
        return forger.raw(header.encode(), claims.encode())

    return forge


def raw_claims(text: bytes) -> Callable[[Forger], str]:
    return lambda forger: forger.raw(json.dumps(forger.header()).encode(), text)


def in_s(seconds: float) -> Callable[[Forger], int]:
    return lambda forger: int(forger.clock.now_s + seconds)


STRANGER = RSAKey.generate_key(2048, private=True)
CURVE = ECKey.generate_key("P-256", private=True)
PUBLIC_JWK = STRANGER.as_dict(private=False)
ATTACKS: dict[str, Callable[[Forger], str]] = {
    # No signature, and signatures of other kinds.
    "alg none": none_signed("none"),
    "alg None": none_signed("None", b"x"),
    "alg nOnE with a signature": none_signed("nOnE", b"signature"),
    "alg none, third part missing": lambda f: none_signed("none")(f).rpartition(".")[0],
    "alg empty": none_signed("", b"x"),
    "alg missing": header_with(alg=None),
    "alg a list": header_with(alg=["RS256"]),
    "alg RS384 by our key": header_with(alg="RS384"),
    "alg PS256 by our key": signed_by_another(STRANGER, "PS256"),
    "alg ES256 by another key": signed_by_another(CURVE, "ES256"),
    "alg RS256 by another key": signed_by_another(STRANGER, "RS256"),
    "alg HS256 with the public key, PEM": hmac_with_the_public_key(lambda k: k.as_pem(False)),
    "alg HS256 with the public key, DER": hmac_with_the_public_key(lambda k: k.as_der(False)),
    "alg HS256 with the public key, JWK": hmac_with_the_public_key(
        lambda k: json.dumps(k.as_dict(private=False)).encode()
    ),
    "alg HS256 with the modulus": hmac_with_the_public_key(
        lambda k: k.as_dict(private=False)["n"].encode()
    ),
    "alg HS256 with nothing": hmac_with_the_public_key(lambda k: b""),
    # Keys that come with the token, or from where it says.
    "jwk in the header": signed_by_another(STRANGER, "RS256", jwk=PUBLIC_JWK),
    "jku in the header": signed_by_another(STRANGER, "RS256", jku="https://evil.example/jwks"),
    "x5u in the header": signed_by_another(STRANGER, "RS256", x5u="https://evil.example/x"),
    "x5c in the header": signed_by_another(STRANGER, "RS256", x5c=["MIIB"]),
    "jku beside our own signature": header_with(jku="https://packetboat.example/jwks"),
    "jwk beside our own signature": header_with(jwk=PUBLIC_JWK),
    "kid missing": header_with(kid=None),
    "kid empty": header_with(kid=""),
    "kid unknown": header_with(kid="another"),
    "kid a number": header_with(kid=1),
    "kid null": lambda f: f.raw(
        json.dumps(f.header() | {"kid": None}).encode(), json.dumps(f.claims()).encode()
    ),
    "kid a list": header_with(kid=["a"]),
    "kid goes through directories": header_with(kid="../../../../dev/null"),
    "kid is SQL": header_with(kid="' OR 1=1 --"),
    "kid with a zero byte": header_with(kid="a\x00b"),
    "kid huge": header_with(kid="k" * 600),
    # Extensions.
    "crit": header_with(crit=["exp"]),
    "crit empty": header_with(crit=[]),
    "b64 false": header_with(b64=False, crit=["b64"]),
    "b64 true": header_with(b64=True),
    "zip": header_with(zip="DEF"),
    "cty JWT": header_with(cty="JWT"),
    # Types.
    "typ JWT": header_with(typ="JWT"),
    "typ missing": header_with(typ=None),
    "typ in capitals": header_with(typ="AT+JWT"),
    "typ a list": header_with(typ=["at+jwt"]),
    # The issuer and the audience.
    "iss another": claims_with(iss="https://evil.example"),
    "iss missing": claims_with(iss=None),
    "iss with a slash more": claims_with(iss=ISSUER + "/"),
    "iss a list": claims_with(iss=[ISSUER]),
    "aud another": claims_with(aud="elsewhere"),
    "aud missing": claims_with(aud=None),
    "aud empty": claims_with(aud=[]),
    "aud of others": claims_with(aud=["elsewhere", "there"]),
    "aud not of texts": claims_with(aud=[AUDIENCE, 1]),
    "aud an object": claims_with(aud={AUDIENCE: 1}),
    # When.
    "exp over": claims_with(exp=in_s(-LEEWAY_S - 1)),
    "exp over, by just the leeway": claims_with(exp=in_s(-LEEWAY_S)),
    "exp missing": claims_with(exp=None),
    "exp a text": claims_with(exp="9999999999"),
    "exp a fraction": claims_with(exp=9999999999.5),
    "exp true": claims_with(exp=True),
    "exp negative": claims_with(exp=-1),
    "exp enormous": claims_with(exp=10**400),
    "exp infinite": lambda f: raw_claims(json.dumps(f.claims() | {"exp": float("inf")}).encode())(
        f
    ),
    "exp not a number": lambda f: raw_claims(
        json.dumps(f.claims() | {"exp": float("nan")}).encode()
    )(f),
    "nbf later": claims_with(nbf=in_s(LEEWAY_S + 1)),
    "nbf a text": claims_with(nbf="soon"),
    "nbf null": lambda f: raw_claims(json.dumps(f.claims() | {"nbf": None}).encode())(f),
    "iat later": claims_with(iat=in_s(LEEWAY_S + 1)),
    "iat missing": claims_with(iat=None),
    "iat a text": claims_with(iat="now"),
    # The other claims.
    "jti missing": claims_with(jti=None),
    "jti no uuid": claims_with(jti="1"),
    "jti in another form": claims_with(jti="{12345678-1234-5678-1234-567812345678}"),
    "tenant missing": claims_with(tenant=None),
    "tenant a name": claims_with(tenant="acme"),
    "sub missing": claims_with(sub=None),
    "sub huge": claims_with(sub="x" * 600),
    "client_id missing": claims_with(client_id=None),
    "scope missing": claims_with(scope=None),
    "scope of nothing we know": claims_with(scope="publish root"),
    "scope public": claims_with(scope="public"),
    "act a text": claims_with(act="operator:root"),
    "act empty": claims_with(act={"sub": ""}),
    "act null": lambda f: raw_claims(json.dumps(f.claims() | {"act": None}).encode())(f),
    # Things said twice.
    "alg twice": text_of_twice("header", "alg", "none"),
    "kid twice": text_of_twice("header", "kid", "another"),
    "sub twice": text_of_twice("claims", "sub", "client:admin"),
    "tenant twice": text_of_twice("claims", "tenant", "x"),
    # Form.
    "cut": cut,
    "padded": with_padding,
    "white space before": lambda f: " " + f.good,
    "white space after": lambda f: f.good + "\n",
    "four parts": lambda f: f.good + ".e30",
    "five parts, as encrypted": lambda f: "e30.e30.e30.e30.e30",
    "two parts": lambda f: f.good.rpartition(".")[0],
    "dots": lambda f: "..",
    "nothing": lambda f: "",
    "other letters": lambda f: f.good.replace("-", "+").replace("_", "/") + "+",
    "not ASCII": lambda f: f.good + "é",
    "other claims": other_claims,
    "loose bits": loose_bits,
    "claims a list": raw_claims(b"[]"),
    "claims a text": raw_claims(b'"claims"'),
    "claims no JSON": raw_claims(b"{"),
    "claims in UTF-16": lambda f: raw_claims(json.dumps(f.claims()).encode("utf-16"))(f),
    "claims nested deep": raw_claims(b'{"a":' * 1200 + b"1" + b"}" * 1200),
    "header a list": lambda f: f.raw(b"[]", json.dumps(f.claims()).encode()),
    "huge": lambda f: f.good + "A" * MAX_TOKEN_BYTES,
    "huge claims, signed": claims_with(more="x" * MAX_TOKEN_BYTES),
    "huge header, signed": header_with(more="x" * 1000),
}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def forger(clock: Clock) -> Forger:
    return Forger(await made_keys(clock), clock)


async def test_what_is_issued_is_read(forger: Forger) -> None:
    assert await forger.tokens.read(forger.good.encode()) == forger.said
    assert forger.header() == {
        "alg": "RS256",
        "typ": "at+jwt",
        "kid": forger.keys.signer().kid,
    }
    assert forger.claims() == {
        "iss": ISSUER,
        "sub": "client:orders",
        "aud": AUDIENCE,
        "iat": 1_760_000_000,
        "exp": 1_760_003_600,
        "jti": forger.claims()["jti"],
        "client_id": "pbc_x",
        "tenant": "00010203-0405-0607-0809-0a0b0c0d0e0f",
        "scope": "publish read",
    }
    assert forger.said.scope == SCOPE


async def test_another_library_reads_it_by_the_published_key(forger: Forger) -> None:
    published = RSAKey.import_key(forger.keys.jwks()[0])
    token = jwt.decode(forger.good, published, algorithms=["RS256"])
    assert token.claims["sub"] == "client:orders"


@pytest.mark.parametrize("attack", ATTACKS)
async def test_nothing_else_is_read(forger: Forger, attack: str) -> None:
    forged = ATTACKS[attack](forger)
    assert forged != forger.good
    with pytest.raises(TokenRefused) as refused:
        await forger.tokens.read(forged.encode())
    # No word of the token, nor of the reason.
    assert refused.value.args == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": in_s(-LEEWAY_S + 1)},
        {"iat": in_s(LEEWAY_S)},
        {"nbf": in_s(LEEWAY_S)},
        {"aud": [AUDIENCE]},
        {"aud": ["elsewhere", AUDIENCE]},
        {"more": "of no interest"},
        {"scope": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_the_accepted_ones_beside_those_refused(
    forger: Forger, changed: dict[str, Any]
) -> None:
    """For each row of the table a similar token is accepted, so it is that one change which is
    refused.
    """
    await forger.tokens.read(claims_with(**changed)(forger).encode())


async def test_the_forger_signs_as_we_do(forger: Forger) -> None:
    """Otherwise the table would prove only that its signatures are wrong."""
    again = forger.raw(json.dumps(forger.header()).encode(), json.dumps(forger.claims()).encode())
    assert await forger.tokens.read(again.encode()) == forger.said


async def test_refusals_take_bounded_time_and_looks(clock: Clock) -> None:
    ring = MemoryRing(clock)
    keys = keys_of(ring)
    await keys.rotate()
    forger = Forger(keys, clock)
    looks = ring.looks
    forged = [header_with(kid=f"unknown-{n}")(forger).encode() for n in range(50)]
    started_s = time.perf_counter()
    for token in forged:
        with pytest.raises(TokenRefused):
            await forger.tokens.read(token)
    for attack in ("huge", "claims nested deep", "huge header, signed"):
        token = ATTACKS[attack](forger).encode()
        with pytest.raises(TokenRefused):
            await forger.tokens.read(token)
    elapsed_s = time.perf_counter() - started_s
    # One look a second at most, whatever is asked for.
    assert ring.looks - looks <= 1 + elapsed_s


async def test_a_token_of_an_operator_inside_a_tenant(forger: Forger) -> None:
    token, said = forger.tokens.issue(
        tenant_id=TENANT,
        subject="operator:root",
        client_id="pbc_o",
        scope=GRANTABLE,
        operator="operator:root",
    )
    assert _json(token.split(".")[1])["act"] == {"sub": "operator:root"}
    assert await forger.tokens.read(token.encode()) == said


async def test_tokens_are_issued_after_the_moment_from_which_they_hold(forger: Forger) -> None:
    """Seconds are whole in a token: one issued in the second of a revocation is of the next."""
    valid_from_s = forger.clock.now_s + 0.7
    _, said = forger.tokens.issue(
        tenant_id=TENANT, subject="s", client_id="c", scope=SCOPE, not_before_s=valid_from_s
    )
    assert said.issued_at > valid_from_s


async def test_an_installation_with_other_keys_refuses_it(forger: Forger, clock: Clock) -> None:
    keys = keys_of(MemoryRing(clock))
    await keys.rotate()
    other = tokens_of(keys, clock)
    with pytest.raises(TokenRefused):
        await other.read(forger.good.encode())


async def test_es256(clock: Clock) -> None:
    tokens = tokens_of(await made_keys(clock, KeyPolicy(algorithm="ES256")), clock)
    token, said = tokens.issue(tenant_id=TENANT, subject="s", client_id="c", scope=SCOPE)
    assert _json(token.split(".")[0])["alg"] == "ES256"
    assert await tokens.read(token.encode()) == said


async def test_without_keys_nothing_is_issued_and_nothing_guessed(
    forger: Forger, clock: Clock
) -> None:
    ring = MemoryRing(clock)
    ring.down = True
    tokens = tokens_of(keys_of(ring), clock)
    with pytest.raises(NoSigningKey):
        tokens.issue(tenant_id=TENANT, subject="s", client_id="c", scope=SCOPE)
    with pytest.raises(VerifierUnavailable):
        await tokens.read(forger.good.encode())


def test_scopes() -> None:
    assert parse_scope("") == frozenset()
    assert parse_scope("read publish") == SCOPE
    assert scope_text(SCOPE) == "publish read"
    assert parse_scope(scope_text(GRANTABLE)) == GRANTABLE
    for text in ("public", "read  publish", " read", "READ", "read\tpublish", "read,publish"):
        assert parse_scope(text) is None
