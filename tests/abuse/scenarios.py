"""Attacks by whole tenants, each beside as many ordinary requests: those of the audit that load.

A scenario makes what it needs in the attacker's tenant and names two things to send: what is
hostile and what is ordinary. Where the product refuses to make what the attack needs, what was
refused is sent again and again.
"""

from __future__ import annotations

import base64
import http.server
import json
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from auth.issuer_keys import MAX_KEYS, MAX_RSA_BITS
from tests.abuse import heavy
from tests.abuse.site import Site
from tests.security.tenants import Actor, fresh, new_tenant

POLICIES = 60
MEMBERS = 500
KEY_BITS = MAX_RSA_BITS


class Load(NamedTuple):
    """Two endless streams of requests, and the number of connections that send them."""

    hostile: list[bytes]
    ordinary: list[bytes]
    connections: int
    within_s: float = 60.0


Scenario = Callable[[Site], Load]


def request(actor: Actor | None, method: str, path: str, body: Any = None, **fields: str) -> bytes:
    """Return the bytes of a request; `body` is bytes or a value to send as JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: abuse"]
    if actor is not None:
        lines.append(f"Authorization: Bearer {actor.token}")
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    if raw or method != "GET":
        lines += ["Content-Type: application/json", f"Content-Length: {len(raw)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def expressions(site: Site) -> Load:
    """Return replays with a filter, by a key that may read one topic."""
    topic = _topic(site)
    for _ in range(20):
        site.owner.post(f"/topics/{topic}/messages", 201, x=1)
    viewer = site.owner.key(f"read:topics/{topic}")
    path = f"/topics/{topic}/partitions/0/messages?offset=0&max_messages=100&filter="
    hostile = [path + quote(text, safe="") for text in _new_filters()]
    return Load(
        [request(viewer, "GET", each) for each in hostile],
        [request(viewer, "GET", path + "true")],
        2,
    )


def schema_of_a_topic(site: Site) -> Load:
    """Return bodies of 32 KiB for a topic whose schema is an automaton."""
    return _published(
        site, heavy.definitions()["an automaton"], heavy.bodies()["a text for automata"]
    )


def enum_of_a_topic(site: Site) -> Load:
    """Return bodies of many values for a topic whose schema is a long enum."""
    return _published(site, heavy.definitions()["a long enum"], heavy.bodies()["values of an enum"])


def _published(site: Site, definition: Any, body: bytes) -> Load:
    schema = {"name": fresh("schema"), "type": "json_schema", "definition": definition}
    plain = request(site.owner, "POST", f"/topics/{_topic(site)}/messages", body)
    made = site.owner.ask("POST", "/schemas", json=schema)
    if made.status_code != 201:
        return Load([request(site.owner, "POST", "/schemas", schema)], [plain], 1)
    topic = _topic(site, schema=schema["name"])
    return Load([request(site.owner, "POST", f"/topics/{topic}/messages", body)], [plain], 1)


def validate(site: Site) -> Load:
    """Return the same bodies for `:validate`, which needs only `read`."""
    definition = heavy.definitions()["an automaton"]
    schema = {"name": fresh("schema"), "type": "json_schema", "definition": definition}
    made = site.owner.ask("POST", "/schemas", json=schema)
    text = heavy.bodies()["a text for automata"].decode()[1:-1]
    plain = site.owner.post(
        "/schemas", 201, name=fresh("schema"), type="json_schema", definition={}
    )
    viewer = site.owner.key("read")
    body = {"data": text}
    ordinary = request(viewer, "POST", f"/schemas/{plain.json()['name']}:validate", body)
    if made.status_code != 201:
        return Load([request(site.owner, "POST", "/schemas", schema)], [ordinary], 1)
    return Load(
        [request(viewer, "POST", f"/schemas/{schema['name']}:validate", body)], [ordinary], 1
    )


def avro(site: Site) -> Load:
    """Return batches of 200 Avro arrays of nulls, four bytes each."""
    schema = {"name": fresh("schema"), "type": "avro", "definition": heavy.NULLS}
    made = site.owner.ask("POST", "/schemas", json=schema)
    item = {"data_base64": heavy.avro_nulls(), "content_type": "avro/binary"}
    batch = {"messages": [item] * 200}
    plain = request(site.owner, "POST", f"/topics/{_topic(site)}/messages:batch", batch)
    if made.status_code != 201:
        return Load([request(site.owner, "POST", "/schemas", schema)], [plain], 1)
    topic = _topic(site, schema=schema["name"])
    return Load([request(site.owner, "POST", f"/topics/{topic}/messages:batch", batch)], [plain], 1)


def metrics(_: Site) -> Load:
    """The page of metrics, without a token, also under names that a proxy may not know."""
    paths = ("/metrics", "/%6detrics", "/metric%73")
    return Load(
        [request(None, "GET", path) for path in paths], [request(None, "GET", "/healthz")], 4
    )


def policies(site: Site) -> Load:
    """Return tokens of a tenant with many policies, a new one for each request."""
    owner = site.owner
    for number in range(POLICIES):
        members = heavy.stars("client:", MEMBERS)
        made = owner.ask(
            "PUT",
            f"/policies/p{number}",
            json={"role": "viewer", "members": members, "resources": ["*"]},
        )
        if made.status_code not in (200, 201):
            break
    return Load(_with_tokens(owner, 60), _with_tokens(site.witness, 60), 2)


def _with_tokens(owner: Actor, count: int) -> list[bytes]:
    """First requests of tokens that nobody has used: each has a policy to be looked for."""
    made = owner.post("/clients", 201, name=fresh("client")).json()
    secret = f"{made['client_id']}:{made['client_secret']}".encode()
    basic = {"Authorization": "Basic " + base64.b64encode(secret).decode()}
    found = []
    for _ in range(count):
        answer = owner.session.post(
            owner.url + "/oauth/token",
            data={"grant_type": "client_credentials"},
            headers=basic,
            timeout=30.0,
        )
        if answer.status_code != 200:
            break
        found.append(request(Actor(owner.url, answer.json()["access_token"]), "GET", "/whoami"))
    assert found, "there is no token"
    return found


def keys_of_an_issuer(site: Site) -> Load:
    """Tokens that nobody signed, of an issuer whose keys cost as much as keys may: each is tried
    with several of them."""
    provider = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    issuer = f"http://127.0.0.1:{provider.server_port}"
    owner = new_tenant(site.installation, egress_allowed=["http://127.0.0.1:*"])[1]
    owner.post("/issuers", 201, name="costly", issuer=issuer)
    audience = owner.get("/whoami")["token_audience"]
    tokens = [_unsigned(issuer, audience, number) for number in range(1000)]
    _until_known(owner.url, tokens.pop())
    return Load(
        [request(Actor(owner.url, token), "GET", "/whoami") for token in tokens],
        _with_tokens(site.owner, 60),
        4,
    )


def _until_known(url: str, token: str) -> None:
    """Returns once that issuer's keys have been fetched: its tokens are refused then, and before
    that nobody knows them, or they can't be judged."""
    for _ in range(100):
        if _Provider.asked:
            return
        Actor(url, token).ask("GET", "/whoami")
        time.sleep(0.1)
    raise AssertionError("the issuer was not asked for its keys")


def _unsigned(issuer: str, audience: str, number: int) -> str:
    claims = {"iss": issuer, "aud": audience, "sub": "a", "exp": int(time.time()) + 7200}
    parts = (
        json.dumps({"alg": "RS256", "kid": "k"}).encode(),
        json.dumps(claims | {"number": number}).encode(),
        b"\x7f" + bytes(KEY_BITS // 8 - 1),
    )
    return ".".join(_base64(part) for part in parts)


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


class _Provider(http.server.BaseHTTPRequestHandler):
    """Publishes as many keys as are taken, of one name. Half have an exponent as long as the
    modulus, and are to be passed over; the others have the longest that is taken."""

    asked = False

    def do_GET(self) -> None:
        host, port = self.server.server_address[:2]
        issuer = f"http://{host!s}:{port}"
        answer: dict[str, Any] = {"issuer": issuer, "jwks_uri": issuer + "/keys"}
        if self.path == "/keys":
            answer = {"keys": [self._key(number) for number in range(MAX_KEYS)]}
            type(self).asked = True
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _key(self, number: int) -> dict[str, str]:
        modulus = (1 << KEY_BITS) - 2 * number - 1
        exponent = modulus - 2 if number % 2 else 2**32 - 1
        parts = {
            name: _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))
            for name, value in (("n", modulus), ("e", exponent))
        }
        return {"kty": "RSA", "kid": "k"} | parts

    def log_message(self, format: str, *args: object) -> None: ...


def replays_that_wait(site: Site) -> Load:
    """Return as many waiting reads as a process has room for."""
    topic = _topic(site)
    path = f"/topics/{topic}/partitions/0/messages?offset=0&wait_seconds="
    hostile = [request(site.owner, "GET", path + "60")]
    return Load(hostile, [request(site.owner, "GET", path + "0")], 80, 3.0)


def backlog_streams(site: Site) -> Load:
    """Return as many streams of backlogs as a process has room for."""
    return Load(
        [request(site.owner, "GET", "/backlog:stream?max_seconds=600")],
        [request(site.owner, "GET", "/backlog:stream?max_seconds=0")],
        220,
        3.0,
    )


def pulls_that_wait(site: Site) -> Load:
    """Return pulls of an empty subscription."""
    topic = _topic(site)
    site.owner.post(f"/topics/{topic}/subscriptions", 201, name=topic)
    pull = f"/subscriptions/{topic}:pull"
    hostile = request(site.owner, "POST", pull, {"max_messages": 1, "wait_seconds": 60})
    ordinary = request(site.owner, "POST", pull, {"max_messages": 1, "wait_seconds": 0})
    return Load([hostile], [ordinary], 400, 3.0)


def locks_that_wait(site: Site) -> Load:
    """Waits for a lock that is held."""
    name = fresh("lock")
    site.owner.post(f"/locks/{name}:acquire", 200, ttl_seconds=600)
    path = f"/locks/{name}:acquire"
    hostile = request(site.owner, "POST", path, {"ttl_seconds": 60, "wait_seconds": 60})
    ordinary = request(site.owner, "POST", path, {"ttl_seconds": 60, "wait_seconds": 0})
    return Load([hostile], [ordinary], 400, 3.0)


def previews(site: Site) -> Load:
    """Return previews of filters, each with its own."""
    topic = _topic(site)
    for _ in range(5):
        batch = [{"data": "x" * 1000}] * 200
        site.owner.post(f"/topics/{topic}/messages:batch", 200, messages=batch)
    path = f"/topics/{topic}:preview_filter"
    return Load(
        [request(site.owner, "POST", path, {"filter": text}) for text in _new_filters()],
        [request(site.owner, "POST", path, {"filter": "true"})],
        16,
    )


def acks_that_publish(site: Site) -> Load:
    """Acks with a hundred outputs each, of leases that are not there any more or never were."""
    topic = _topic(site)
    site.owner.post(f"/topics/{topic}/subscriptions", 201, name=topic, start="earliest")
    batch = [{"data": "x"}] * 1000
    site.owner.post(f"/topics/{topic}/messages:batch", 200, messages=batch)
    pulled = site.owner.post(
        f"/subscriptions/{topic}:pull", 200, max_messages=1000, wait_seconds=20
    )
    outputs = [{"topic": topic, "data": "y" * 1000}] * 100
    acks = [
        {"ack_id": message["ack_id"], "publish": outputs} for message in pulled.json()["messages"]
    ]
    path = f"/subscriptions/{topic}/ack"
    return Load(
        [request(site.owner, "POST", path, ack) for ack in acks],
        [request(site.owner, "POST", f"/topics/{topic}/messages:batch", {"messages": batch[:100]})],
        4,
    )


def changes(site: Site) -> Load:
    """Return changes of one topic by 48 connections at once."""
    topic = _topic(site)
    path = f"/topics/{topic}"
    return Load(
        [request(site.owner, "PATCH", path, {"labels": {"x": str(n)}}) for n in range(97)],
        [request(site.owner, "GET", path)],
        48,
    )


def large_answer(site: Site) -> bytes:
    """Return a request whose answer has 8 MiB."""
    topic = _topic(site)
    for _ in range(8):
        site.owner.ask("POST", f"/topics/{topic}/messages", 201, data=b"x" * 1_000_000)
    return request(site.owner, "GET", f"/topics/{topic}/partitions/0/messages?offset=0")


SCENARIOS: dict[str, Scenario] = {
    "expressions": expressions,
    "schema: automaton": schema_of_a_topic,
    "schema: enum": enum_of_a_topic,
    "schema: validate": validate,
    "schema: Avro nulls": avro,
    "metrics": metrics,
    "policies": policies,
    "keys of an issuer": keys_of_an_issuer,
    "replays that wait": replays_that_wait,
    "backlog streams": backlog_streams,
    "pulls that wait": pulls_that_wait,
    "locks that wait": locks_that_wait,
    "previews": previews,
    "acks that publish": acks_that_publish,
    "changes": changes,
}
PROOFS = {
    "expressions": 1,
    "schema: automaton": 2,
    "schema: enum": 2,
    "schema: validate": 2,
    "schema: Avro nulls": 2,
    "metrics": 7,
    "keys of an issuer": 8,
    "policies": 9,
    "replays that wait": 10,
    "backlog streams": 10,
    "pulls that wait": 10,
    "locks that wait": 10,
    "previews": 10,
    "acks that publish": 11,
    "changes": 13,
}
"""The number of the audit's proof, for each."""


def _new_filters() -> list[str]:
    """Return costly filters, so many that a server has always forgotten the next one."""
    texts = heavy.expressions().values()
    return [text + " " * number for number in range(50) for text in texts]


def _topic(site: Site, **more: Any) -> str:
    name = fresh("topic")
    site.owner.post("/topics", 201, name=name, partitions=1, **more)
    return name
