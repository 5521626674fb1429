"""An endpoint that takes a webhook only from the sender that its bearer token names.

It knows an issuer and its own audience, and learns all else as OpenID Connect Discovery has it:
the issuer's document, the keys that it names. It answers a refused request with 401.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import requests
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from joserfc.jwt import JWTClaimsRegistry

TIMEOUT_S = 10.0


class Refused(Exception):
    """The token is none that this endpoint believes; the text says why."""


class TokenReceiver:
    """Use `running`. `now`: seconds since 1970, where it is not the time it is."""

    def __init__(self, issuer: str, audience: str, now: Callable[[], int] | None = None) -> None:
        self._issuer = issuer
        self.audience = audience
        self._now = now
        self.url = ""
        self.taken: list[tuple[dict[str, Any], bytes]] = []
        """Claims and body."""
        self.tokens: list[str] = []
        """The tokens of all requests, taken or refused."""
        self.refused: list[str] = []

    def receive(self, authorization: str, body: bytes) -> int:
        """Judge a request; return the status of its answer."""
        token = authorization.removeprefix("Bearer ")
        self.tokens.append(token)
        try:
            self.taken.append((self.claims(token), body))
        except Refused as error:
            self.refused.append(str(error))
            return 401
        return 204

    def claims(self, token: str) -> dict[str, Any]:
        """Raises Refused."""
        keys, algorithms = self._published()
        expected = JWTClaimsRegistry(
            self._now,
            iss={"essential": True, "value": self._issuer},
            aud={"essential": True, "value": self.audience},
            exp={"essential": True},
        )
        try:
            read = jwt.decode(token, keys, algorithms)
            expected.validate(read.claims)
        except (JoseError, ValueError) as error:
            raise Refused(f"{type(error).__name__}: {error}") from error
        return read.claims

    def _published(self) -> tuple[KeySet, list[str]]:
        document = _get(f"{self._issuer}/.well-known/openid-configuration")
        if document["issuer"] != self._issuer:
            raise Refused(f"the document is of {document['issuer']}")
        keys = KeySet.import_key_set(_get(document["jwks_uri"]))
        return keys, document["id_token_signing_alg_values_supported"]


def _get(url: str) -> Any:
    answer = requests.get(url, timeout=TIMEOUT_S, allow_redirects=False)
    answer.raise_for_status()
    return msgspec.json.decode(answer.content)


@contextlib.contextmanager
def running(receiver: TokenReceiver) -> Iterator[TokenReceiver]:
    """Run the receiver in a thread, at a port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.receive(self.headers.get("Authorization", ""), body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.url = f"http://127.0.0.1:{server.server_port}/in"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join(TIMEOUT_S)
