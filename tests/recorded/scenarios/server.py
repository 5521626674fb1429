"""The server itself: health, description, access tokens, forwarders, and refusals of any path."""

from __future__ import annotations

from typing import Any

from tests.recorded.client import Client

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def server(ask: Client) -> None:
    """Send the requests that need no resource."""
    ask.principal("reader", ["read"])
    ask("whoami", "GET", "/whoami")
    ask("whoami-operator", "GET", "/whoami", as_="operator")
    ask("whoami-key", "GET", "/whoami", as_="reader")
    ask("whoami-nobody", "GET", "/whoami", as_="nobody")
    ask.use("impostor", "nonsense")
    ask("whoami-impostor", "GET", "/whoami", as_="impostor")
    ask("whoami-basic", "GET", "/whoami", headers={"Authorization": "Basic eDp5"}, as_="nobody")
    ask("root", "GET", "/", as_="nobody")
    ask("healthz", "GET", "/healthz", as_="nobody")
    ask("readyz", "GET", "/readyz", as_="nobody")
    for path in ("/openapi.yaml", "/openapi.json", "/docs", "/docs/page.js"):
        name = path.strip("/").replace("/", "-").replace(".", "-")
        ask(name, "GET", path, as_="nobody", brief=True)
    ask("docs-missing", "GET", "/docs/none.js", as_="nobody")
    ask("forwarders", "GET", "/forwarders", as_="operator", only=_shape)
    ask("forwarders-as-owner", "GET", "/forwarders")
    ask("no-path", "GET", "/nothing")
    ask("no-path-nobody", "GET", "/nothing", as_="nobody")
    ask("no-method", "PUT", "/topics")
    ask("no-method-at-all", "BREW", "/topics")
    ask("method-override", "POST", "/locks/a", headers={"X-HTTP-Method-Override": "DELETE"})
    ask("head", "HEAD", "/topics")
    ask("head-missing", "HEAD", "/topics/none")
    ask("head-of-pull", "HEAD", "/subscriptions/none/messages")
    ask("trailing-slash", "GET", "/topics/")
    ask("double-slash", "GET", "//topics")
    ask("own-request-id", "GET", "/nothing", headers={"X-Request-Id": "chosen-by-client"})
    ask("bad-request-id", "GET", "/nothing", headers={"X-Request-Id": "a b"})
    crossing = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    ask("preflight", "OPTIONS", "/topics/a/messages", headers=crossing, as_="nobody")
    ask("options", "OPTIONS", "/topics")
    ask("of-origin", "GET", "/topics", headers={"Origin": "https://app.example"})
    ask(
        "content-type-of-text",
        "POST",
        "/topics",
        data=b"{}",
        headers={"Content-Type": "text/plain"},
    )
    part = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n'
    parts = {"Content-Type": "multipart/form-data; boundary=b"}
    ask("multipart", "POST", "/topics", data=part, headers=parts)
    ask.big("body-too-large", "POST", "/topics", b"{}".ljust(256 * 1024 + 1))
    ask.big("too-many-values", "POST", "/topics", b'{"name":[%s]}' % b",".join([b"1"] * 40_001))
    ask.big("too-deep", "POST", "/topics", b'{"name":' + b"[" * 10_001 + b"]" * 10_001 + b"}")
    many = {f"X-Header-{number}": "1" for number in range(300)}
    ask("too-many-headers", "GET", "/topics", headers=many, shown_headers={"X-Header-*": "300"})
    long = {"X-Header": "x" * 70_000}
    ask("headers-too-long", "GET", "/topics", headers=long)
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    ask("websocket", "GET", "/backlog:stream?max_seconds=0", headers=upgrade)


def oauth(ask: Client) -> None:
    """Send the requests about access tokens."""
    client = ask.set_up("POST", "/clients", {"name": "app"}).json
    ask.mask.look(client)
    login = f"client_id={client['client_id']}&client_secret={client['client_secret']}"
    grant = "grant_type=client_credentials"

    def send(name: str, path: str, form: str) -> Any:
        return ask(name, "POST", path, data=form.encode(), headers=FORM, as_="nobody")

    token = send("token", "/oauth/token", f"{grant}&{login}").json["access_token"]
    send("token-of-scope", "/oauth/token", f"{grant}&{login}&scope=read+publish")
    send("token-of-no-scope", "/oauth/token", f"{grant}&{login}&scope=fly")
    send("token-of-other-tenant", "/oauth/token", f"{grant}&{login}&tenant=dev")
    send("token-without-secret", "/oauth/token", f"{grant}&client_id={client['client_id']}")
    send("token-wrong-secret", "/oauth/token", f"{grant}&{login}x")
    send("token-no-client", "/oauth/token", f"{grant}&client_id=pbc_none&client_secret=pbs_none")
    send("token-no-grant", "/oauth/token", login)
    send("token-other-grant", "/oauth/token", f"grant_type=password&{login}")
    send("token-twice", "/oauth/token", f"{grant}&{grant}&{login}")
    ask("token-json", "POST", "/oauth/token", {"grant_type": "client_credentials"}, as_="nobody")
    send("introspect", "/oauth/introspect", f"token={token}&{login}")
    send("introspect-nonsense", "/oauth/introspect", f"token=nonsense&{login}")
    send("introspect-without-client", "/oauth/introspect", f"token={token}")
    send("introspect-nothing", "/oauth/introspect", login)
    send("revoke", "/oauth/revoke", f"token={token}&token_type_hint=access_token&{login}")
    send("revoke-nonsense", "/oauth/revoke", f"token=nonsense&{login}")
    send("revoke-nothing", "/oauth/revoke", login)
    ask.use("revoked", token)
    refused = lambda got: got.status == 401  # noqa: E731
    ask("whoami-revoked", "GET", "/whoami", as_="revoked", until=refused)
    send("introspect-revoked", "/oauth/introspect", f"token={token}&{login}")
    discovery = "/.well-known"
    ask("metadata", "GET", f"{discovery}/oauth-authorization-server", as_="nobody")
    ask("openid", "GET", f"{discovery}/openid-configuration", as_="nobody")
    ask("jwks", "GET", f"{discovery}/jwks.json", as_="nobody", only=_shape)


def _shape(value: Any) -> Any:
    """Return a body with the types of its members; of a list, those of its first."""
    if isinstance(value, dict):
        return {key: _shape(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_shape(member) for member in value[:1]]
    return f"<{type(value).__name__}>"
