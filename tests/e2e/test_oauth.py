"""Authlib's own client gets a token from a running installation and uses it; an operator too."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from joserfc import jwt
from joserfc.jwk import KeySet

from gateway.operators import Credential
from harness.fork_server import run_forked
from tests.e2e.installation import Installation

TOLD_WITHIN_S = 5.0
"""The limit that docs/GUARANTEES.md gives for revocations."""


class Client:
    """One OAuth2 client of the development tenant."""

    def __init__(self, running: Installation, made: dict[str, Any]) -> None:
        self.url = running.url
        self.name = made["name"]
        self.client_id, self.secret = made["client_id"], made["client_secret"]

    def session(self, **more: Any) -> OAuth2Session:
        return OAuth2Session(self.client_id, self.secret, **more)

    def token(self, **more: Any) -> str:
        with self.session() as session:
            return str(session.fetch_token(f"{self.url}/oauth/token", **more)["access_token"])


@pytest.fixture(autouse=True)
def _plain_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Authlib's client refuses URLs without TLS, which the tests' installation does not end."""
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture
def admin(running: Installation) -> Iterator[requests.Session]:
    with running.session() as session:
        yield session


@pytest.fixture
def client(running: Installation, admin: requests.Session) -> Client:
    name = f"app-{uuid.uuid4().hex[:8]}"
    made = admin.post(f"{running.url}/clients", json={"name": name}, timeout=30)
    assert made.status_code == 201, made.text
    policy = {
        "name": name,
        "role": "publisher",
        "members": [f"client:{name}"],
        "resources": [f"topics/{name}-*"],
    }
    granted = admin.post(f"{running.url}/policies", json=policy, timeout=30)
    assert granted.status_code == 201, granted.text
    return Client(running, made.json())


def operator_of(running: Installation) -> Credential:
    return Credential.from_exports((running.directory / "operator.env").read_text())


def as_bearer(url: str, token: str, method: str, path: str, **more: Any) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} | more.pop("headers", {})
    return requests.request(method, url + path, headers=headers, timeout=30, **more)


def test_authlib_gets_a_token_and_uses_it(
    running: Installation, admin: requests.Session, client: Client
) -> None:
    topic = f"{client.name}-orders"
    assert admin.post(f"{running.url}/topics", json={"name": topic}, timeout=30).ok
    with client.session() as session:
        token = session.fetch_token(f"{running.url}/oauth/token")
        assert token["token_type"] == "Bearer"
        assert token["expires_in"] == 3600
        published = session.post(f"{running.url}/topics/{topic}/messages", data=b"x", timeout=30)
        assert published.status_code == 201, published.text
        refused = session.post(f"{running.url}/topics", json={"name": "another"}, timeout=30)
        assert refused.status_code == 403


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
def test_both_ways_to_show_a_secret(client: Client, way: str) -> None:
    with client.session(token_endpoint_auth_method=way) as session:
        assert session.fetch_token(f"{client.url}/oauth/token")["access_token"]


async def test_authlibs_asynchronous_client(client: Client) -> None:
    """The client uses a transport that speaks to the same installation."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        httpx_client = pytest.importorskip("authlib.integrations.httpx_client")
    async with httpx_client.AsyncOAuth2Client(client.client_id, client.secret) as session:
        token = await session.fetch_token(f"{client.url}/oauth/token", scope="publish")
        assert token["scope"] == "publish"


def test_a_wrong_secret_is_an_oauth_error(client: Client) -> None:
    wrong = OAuth2Session(client.client_id, "pbs_wrong")
    with wrong as session, pytest.raises(OAuthError, match="invalid_client"):
        session.fetch_token(f"{client.url}/oauth/token")


def test_what_a_receiver_finds_by_discovery(running: Installation, client: Client) -> None:
    found = requests.get(f"{running.url}/.well-known/openid-configuration", timeout=30).json()
    assert found["issuer"] == running.url
    answer = requests.get(found["jwks_uri"], timeout=30)
    assert answer.headers["Cache-Control"].startswith("public, max-age=")
    claims = jwt.decode(client.token(), KeySet.import_key_set(answer.json()), ["RS256"]).claims
    assert claims["iss"] == running.url
    assert claims["sub"] == f"client:{client.name}"


def test_a_revoked_token_holds_no_more(running: Installation, client: Client) -> None:
    token = client.token()
    assert as_bearer(running.url, token, "GET", "/whoami").status_code == 200
    with client.session() as session:
        asked = session.introspect_token(f"{running.url}/oauth/introspect", token=token)
        assert asked.json()["active"] is True
        answer = session.revoke_token(f"{running.url}/oauth/revoke", token=token)
        assert answer.status_code == 200
        asked = session.introspect_token(f"{running.url}/oauth/introspect", token=token)
        assert asked.json() == {"active": False}
    _refused_within(running, token)
    assert as_bearer(running.url, client.token(), "GET", "/whoami").status_code == 200


def test_all_tokens_of_a_client_are_revoked_at_once(
    running: Installation, admin: requests.Session, client: Client
) -> None:
    token = client.token()
    assert as_bearer(running.url, token, "GET", "/whoami").status_code == 200
    ended = admin.post(f"{running.url}/clients/{client.name}:revoke_tokens", timeout=30)
    assert ended.ok, ended.text
    _refused_within(running, token)
    assert as_bearer(running.url, client.token(), "GET", "/whoami").status_code == 200


def test_the_operator_of_an_installation(
    running: Installation, admin: requests.Session, client: Client
) -> None:
    file = running.directory / "operator.env"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    credential = operator_of(running)
    assert str(file) in running.output
    assert credential.client_secret not in running.output + running.logs()
    with OAuth2Session(credential.client_id, credential.client_secret) as session:
        above = session.fetch_token(f"{running.url}/oauth/token")
        assert above["scope"] == "operate run_exports"
        assert session.get(f"{running.url}/topics", timeout=30).status_code == 403
        inside = session.fetch_token(f"{running.url}/oauth/token", tenant="dev")["access_token"]
    seen = as_bearer(running.url, inside, "GET", f"/clients/{client.name}")
    assert seen.status_code == 200
    assert as_bearer(running.url, inside, "GET", "/whoami").json()["subject"] == "operator:first"
    with client.session() as session:
        refused = session.post(
            f"{running.url}/oauth/token",
            data={"grant_type": "client_credentials", "tenant": "platform"},
            auth=(client.client_id, client.secret),
            withhold_token=True,
            timeout=30,
        )
    assert refused.json()["error"] == "unauthorized_client"


def test_operators_are_made_listed_and_disabled_by_a_command(running: Installation) -> None:
    name = f"op-{uuid.uuid4().hex[:8]}"
    made = _operator(running, "create", name)
    assert made.returncode == 0, made.stderr
    found = re.search(r"^export PACKETBOAT_CLIENT_ID=.*\nexport .*\n", made.stdout, re.MULTILINE)
    assert found is not None
    credential = Credential.from_exports(found[0])
    with OAuth2Session(credential.client_id, credential.client_secret) as session:
        token = session.fetch_token(f"{running.url}/oauth/token")["access_token"]
    assert as_bearer(running.url, token, "GET", "/tenants").status_code == 200

    again = _operator(running, "create", name)
    assert again.returncode == 1
    assert "already" in again.stderr
    none = _operator(running, "create", "another", "--if-none")
    assert (none.returncode, none.stdout) == (0, "")
    listed = _operator(running, "list")
    assert credential.client_secret not in listed.stdout
    assert f"{name}\t{credential.client_id}\tactive" in listed.stdout

    assert _operator(running, "disable", name).returncode == 0
    _refused_within(running, token, "/tenants")
    disabled = OAuth2Session(credential.client_id, credential.client_secret)
    with disabled as session, pytest.raises(OAuthError, match="invalid_client"):
        session.fetch_token(f"{running.url}/oauth/token")
    assert _operator(running, "disable", "nobody").returncode == 1


def test_tokens_and_the_operator_outlive_a_restart(fresh: Installation) -> None:
    fresh.start()
    credential = operator_of(fresh)
    with OAuth2Session(credential.client_id, credential.client_secret) as session:
        token = session.fetch_token(f"{fresh.url}/oauth/token")["access_token"]
    kids = _kids(fresh)
    fresh.stop(signal.SIGTERM)
    url = fresh.url
    fresh.start()
    assert fresh.url == url
    assert _kids(fresh) == kids
    assert operator_of(fresh) == credential
    assert as_bearer(fresh.url, token, "GET", "/tenants").status_code == 200


def test_a_key_is_replaced_by_a_command_and_its_tokens_end_where_it_is_forgotten(
    running: Installation, client: Client
) -> None:
    before, kids = client.token(), _kids(running)
    assert as_bearer(running.url, before, "GET", "/whoami").status_code == 200
    replaced = _command(running, "signing-keys", "replace")
    assert replaced.returncode == 0, replaced.stderr
    assert re.search(r"\tRS256\tsigns\tuntil ", replaced.stdout)
    (new,) = _eventually(lambda: _kids(running) - kids)
    assert as_bearer(running.url, before, "GET", "/whoami").status_code == 200
    after = client.token()
    assert as_bearer(running.url, after, "GET", "/whoami").status_code == 200

    forgotten = _command(running, "signing-keys", "replace", "--forget")
    assert forgotten.returncode == 0, forgotten.stderr
    for token in (before, after):
        _refused_within(running, token)
    assert new not in _kids(running)
    assert as_bearer(running.url, client.token(), "GET", "/whoami").status_code == 200
    assert len(_command(running, "signing-keys", "list").stdout.splitlines()) == 1


def _eventually(look: Callable[[], set[str]]) -> set[str]:
    deadline_s = time.monotonic() + TOLD_WITHIN_S
    while not (found := look()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return found


def _kids(installation: Installation) -> set[str]:
    found = requests.get(f"{installation.url}/.well-known/jwks.json", timeout=30).json()
    return {key["kid"] for key in found["keys"]}


def _operator(running: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    return _command(running, "operator", *arguments)


def _command(
    running: Installation, group: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    command = [group, "--data-dir", str(running.directory), *arguments]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PACKETBOAT_")}
    return run_forked("gateway", command, env=environment, timeout_s=60)


def _refused_within(running: Installation, token: str, path: str = "/whoami") -> None:
    deadline_s = time.monotonic() + TOLD_WITHIN_S
    while (status := as_bearer(running.url, token, "GET", path).status_code) != 401:
        assert time.monotonic() < deadline_s, status
        time.sleep(0.02)
