"""A tenant for each test: nothing of one test is seen by another."""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import httpx

from packetboat.testing.server import Server

SCOPES = [f"{verb}:*" for verb in ("publish", "consume", "lock", "read", "manage", "administer")]
TIMEOUT_S = 60.0


class Access(NamedTuple):
    """A tenant, and a key that may do everything in it and does not expire."""

    name: str
    key: str


class Tenants:
    """Makes and deletes them, as an operator."""

    def __init__(self, server: Server) -> None:
        self._credential = server.credential
        self._http = httpx.Client(base_url=server.url, timeout=TIMEOUT_S, trust_env=False)

    def make(self) -> Access:
        name = f"test-{secrets.token_hex(6)}"
        self._call("POST", "/tenants", self._token(), {"name": name})
        key = {"name": "test", "scopes": SCOPES}
        return Access(name, self._call("POST", "/keys", self._token(name), key)["key"])

    def delete(self, name: str) -> None:
        """Delete a tenant at once; its resources are deleted later."""
        self._call("DELETE", f"/tenants/{name}?force=true", self._token())

    def close(self) -> None:
        self._http.close()

    def _token(self, tenant: str | None = None) -> str:
        """Not kept: it would expire when a test moves the clock."""
        form = {"grant_type": "client_credentials"} | ({"tenant": tenant} if tenant else {})
        answer = self._http.post("/oauth/token", data=form, auth=self._credential)
        return str(answer.raise_for_status().json()["access_token"])

    def _call(self, method: str, path: str, token: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        answer = self._http.request(method, path, headers=headers, json=body)
        return answer.raise_for_status().json()
