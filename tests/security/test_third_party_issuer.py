"""A real OIDC server of other people, Canaille, whose tokens a tenant trusts.

It runs in an environment of its own, made from the package index on first use and kept: its
dependencies are no business of this project's."""

from __future__ import annotations

import os
import re
import secrets
import socket
import subprocess
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urljoin, urlsplit

import pytest
import requests

from tests.e2e.installation import Installation
from tests.security.tenants import Actor, new_tenant

RELEASE = "0.3.6"
INSTALL_S = 600
WAIT_S = 30.0
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "packetboat"
SERVER = Path(__file__).with_name("canaille_server.py")
CLIENT = "packetboat-app"
CALLBACK = "http://127.0.0.1/callback"
"""URL at which nobody listens, since the test is the browser."""


@pytest.fixture(scope="module")
def canaille_python() -> Path:
    """Return the interpreter of an environment with Canaille."""
    home = CACHE / f"canaille-{RELEASE}"
    python, made = home / "bin" / "python", home / "made"
    if made.exists():
        return python
    venv.create(home, with_pip=True, clear=True)
    wanted = f"canaille[front,oidc]=={RELEASE}"
    install = [str(python), "-m", "pip", "install", "--quiet", wanted]
    try:
        subprocess.run(install, check=True, capture_output=True, text=True, timeout=INSTALL_S)
    except (subprocess.SubprocessError, OSError) as error:
        reason = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"{wanted} is not there and cannot be installed: {reason[-300:]}")
    made.touch()
    return python


class Issuer:
    """Start it again, and it has other keys."""

    def __init__(self, python: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._python = python
        self._secret = secrets.token_urlsafe(24)
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [str(self._python), str(SERVER), str(self.port), CLIENT, self._secret]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(WAIT_S)
            self._process = None

    def token(self) -> str:
        """Return an ID token of the user, who logs in as people do."""
        browser = requests.Session()
        asked = {
            "response_type": "code",
            "client_id": CLIENT,
            "redirect_uri": CALLBACK,
            "scope": "openid profile",
            "nonce": secrets.token_hex(8),
        }
        answer = browser.get(
            f"{self.url}/oauth/authorize", params=asked, allow_redirects=False, timeout=WAIT_S
        )
        for _ in range(10):
            where = answer.headers.get("Location")
            if where is not None and where.startswith(CALLBACK):
                return self._redeem(parse_qs(urlsplit(where).query)["code"][0])
            if where is not None:
                at = urljoin(answer.url, where)
                answer = browser.get(at, allow_redirects=False, timeout=WAIT_S)
                continue
            fields = re.findall(r'<input[^>]*name="([^"]+)"', answer.text)
            form = {"password": self._secret} if "password" in fields else {"login": "anna"}
            answer = browser.post(answer.url, data=form, allow_redirects=False, timeout=WAIT_S)
        raise AssertionError(f"the log-in never ended: {answer.status_code} {answer.text[:500]}")

    def _redeem(self, code: str) -> str:
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        login = CLIENT, self._secret
        answer = requests.post(f"{self.url}/oauth/token", data=form, auth=login, timeout=WAIT_S)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id_token"])


@pytest.fixture
def issuer(canaille_python: Path) -> Iterator[Issuer]:
    made = Issuer(canaille_python)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def until(actor: Actor, status: int) -> None:
    until_s = time.monotonic() + WAIT_S
    while (got := actor.ask("GET", "/topics").status_code) != status:
        assert time.monotonic() < until_s, f"{got} instead of {status}"
        time.sleep(0.1)


def test_tokens_of_somebody_else_s_issuer(running: Installation, issuer: Issuer) -> None:
    reached = {"egress_allowed": ["http://127.0.0.1:*"]}
    allowed = {"issuers_allowed": [f"{issuer.url}#{CLIENT}"]}  # it can name no other audience
    tenant, owner = new_tenant(running, **reached, **allowed)
    anna = Actor(running.url, issuer.token())
    assert anna.ask("GET", "/whoami").status_code == 401  # nobody trusts it yet

    trust = {"issuer": issuer.url, "audience": CLIENT}
    owner.ask("PUT", "/issuers/corp", 201, json=trust)
    until(anna, 403)  # the identity is known, but there is no policy
    identity = anna.get("/whoami")
    assert identity["tenant"] == tenant
    assert identity["subject"] == "issuer:corp#anna"
    assert identity["grants"] == []

    rule = {"role": "admin", "members": ["issuer:corp#anna"], "resources": ["topics/a-*"]}
    owner.ask("PUT", "/policies/people", 201, json=rule)
    until(anna, 200)
    anna.post("/topics", 201, name="a-1", partitions=1)
    anna.post("/topics", 403, name="b-1")

    # Another tenant may trust the same issuer, for another audience: this token is not for it.
    _, other = new_tenant(running, **reached)
    other.ask("PUT", "/issuers/corp", 201, json={"issuer": issuer.url})
    assert anna.get("/whoami")["tenant"] == tenant

    # Tampered with, a token is nobody's.
    head, claims, signature = str(anna.token).split(".")
    forged = Actor(running.url, f"{head}.{claims}.{signature[:-4]}AAAA")
    assert forged.ask("GET", "/whoami").status_code == 401

    # New keys are found; the issuer is asked once in a while and not for each token.
    issuer.stop()
    issuer.start()
    later = Actor(running.url, issuer.token())
    until(later, 200)

    # Keys that are known stay in use while it is down.
    issuer.stop()
    assert later.ask("GET", "/topics").status_code == 200
    owner.ask("DELETE", "/issuers/corp", 204)
    until(later, 401)
