"""Two tenants and one issuer: no registration takes another tenant's tokens, or tells what it has.

The attack is that of issue 21: a token names several audiences (Auth0 adds `/userinfo`, Keycloak
`account`), and a second tenant registers one that the first has not.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey

from tests.e2e.installation import Installation
from tests.security.tenants import Actor, new_tenant

HEARD_S = 20.0
_serial = count()


class IdentityProvider:
    """Signs whatever it is told to, and publishes what an issuer does."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, private=True, auto_kid=True)
        self.tenants: list[str] = []
        """Tenants that its document names."""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def token(self, *audiences: str) -> str:
        now_s = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "svc",
            "aud": list(audiences),
            "exp": now_s + 600,
            "serial": next(_serial),  # so that no token is known from before
        }
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, self.key)

    def answer(self, path: str) -> object:
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": self.url + "/keys"}
        if path == "/keys":
            return {"keys": [self.key.as_dict(private=False)]}
        return {"tenants": self.tenants}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(answer(self.path)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    yield made
    made.server.shutdown()
    made.server.server_close()


def tenant(running: Installation) -> tuple[str, Actor]:
    return new_tenant(running, egress_allowed=["http://127.0.0.1:*"])


def acts_in(running: Installation, token: str) -> str | None:
    """Return the tenant that a token is for; None if it is refused."""
    answer = Actor(running.url, token).ask("GET", "/whoami")
    return str(answer.json()["tenant"]) if answer.status_code == 200 else None


def own_audience(actor: Actor) -> str:
    return str(actor.get("/whoami").get("token_audience", "of no release before 0.3"))


def test_a_registration_takes_no_other_tenants_tokens(
    running: Installation, provider: IdentityProvider
) -> None:
    name, acme = tenant(running)
    _, evil = tenant(running)
    audiences = "acme-api", provider.url + "/userinfo"
    provider.tenants = [own_audience(acme)]
    acme.ask("PUT", "/issuers/idp", 201, json={"issuer": provider.url, "audience": "acme-api"})
    assert acts_in(running, provider.token(*audiences)) == name
    evil.ask("PUT", "/issuers/x", json={"issuer": provider.url, "audience": audiences[1]})
    until_s = time.monotonic() + 2.5  # a change is heard within two seconds
    while time.monotonic() < until_s:
        assert acts_in(running, provider.token(*audiences)) == name
    assert acts_in(running, provider.token(audiences[1])) is None


def test_no_answer_tells_what_another_tenant_trusts(
    running: Installation, provider: IdentityProvider
) -> None:
    _, acme = tenant(running)
    _, evil = tenant(running)
    provider.tenants = [own_audience(acme)]
    acme.ask("PUT", "/issuers/idp", 201, json={"issuer": provider.url, "audience": "acme-api"})
    told = [
        evil.ask("PUT", f"/issuers/{name}", json={"issuer": provider.url, "audience": audience})
        for name, audience in (("a", "acme-api"), ("b", "nobody-has"))
    ]
    assert [each.status_code for each in told] == [told[0].status_code] * 2
    assert told[0].json().get("type") == told[1].json().get("type")


def test_an_issuer_that_many_share_tells_them_apart_by_their_audiences(
    running: Installation, provider: IdentityProvider
) -> None:
    (first, one), (second, other) = tenant(running), tenant(running)
    for actor in (one, other):
        made = actor.ask("PUT", "/issuers/ci", 201, json={"issuer": provider.url}).json()
        assert (made["trust"], made["audience"]) == ("audience", own_audience(actor))
    for name, actor in ((first, one), (second, other)):
        assert acts_in(running, provider.token("sts", own_audience(actor))) == name
    assert acts_in(running, provider.token(own_audience(one), own_audience(other))) is None
    other.ask(
        "PUT", "/issuers/x", 422, json={"issuer": provider.url, "audience": own_audience(one)}
    )
