"""A Canaille (an OIDC server) with one user and one client, in memory: run by the interpreter of
the environment that has Canaille, with a port and the client's id and secret as arguments."""

from __future__ import annotations

import secrets
import sys
import warnings
from wsgiref.simple_server import WSGIRequestHandler, make_server

warnings.simplefilter("ignore")

from canaille import create_app  # type: ignore[import-not-found]  # noqa: E402
from canaille.app import models  # type: ignore[import-not-found]  # noqa: E402
from joserfc.jwk import RSAKey  # noqa: E402

CALLBACK = "http://127.0.0.1/callback"


class Quiet(WSGIRequestHandler):
    def log_message(self, *args: object) -> None:
        """Nothing: tokens go by."""


def main(port: int, client_id: str, secret: str) -> None:
    key = RSAKey.generate_key(2048, {"kid": secrets.token_hex(8)}, private=True)
    app = create_app(
        {
            "SECRET_KEY": secret,
            "SERVER_NAME": f"127.0.0.1:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "WTF_CSRF_ENABLED": False,
            "CANAILLE": {"DATABASE": "memory", "ENABLE_REGISTRATION": False},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)]},
        }
    )
    with app.app_context(), app.backend.session():
        user = models.User(
            user_name="anna",
            family_name="Anna",
            formatted_name="Anna",
            emails=["anna@example.com"],
            password=secret,
        )
        app.backend.save(user)
        client = models.Client(
            client_id=client_id,
            client_secret=secret,
            client_name="app",
            client_uri="http://127.0.0.1",
            redirect_uris=[CALLBACK],
            grant_types=["authorization_code"],
            response_types=["code"],
            scope=["openid", "profile"],
            token_endpoint_auth_method="client_secret_basic",
            id_token_signed_response_alg="RS256",
        )
        app.backend.save(client)
        client.audience = [client]
        app.backend.save(client)
        server = make_server("127.0.0.1", port, app, handler_class=Quiet)
        print("ready", flush=True)  # its socket listens: who comes now waits, and is not refused
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
