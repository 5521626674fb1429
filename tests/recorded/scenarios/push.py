"""Push subscriptions: their endpoints, attempts, keys to sign with, replays and tests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import principals

NO_MESSAGE = "AQGiGV794H1LiEmU4B33Cy0AAAAAAAAAAAAAAAAA"


class Endpoint(BaseHTTPRequestHandler):
    """Takes what comes to `/taken`, and fails at everything else."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(204 if self.path == "/taken" else 500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def endpoint() -> Iterator[str]:
    """Yield the address of an endpoint on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def push(ask: Client) -> None:
    """Send the requests about push subscriptions."""
    principals(ask)
    allowed = {"egress_allowed": ["http://127.0.0.1:*"]}
    ask.set_up("PUT", f"/tenants/{ask.tenant}", allowed, as_="operator")
    retained = {"partitions": 1, "retention": {"mode": "retain"}}
    ask.set_up("PUT", "/topics/orders", retained)
    ask.set_up("PUT", "/topics/events", {"partitions": 1})
    ask.set_up("PUT", "/subscriptions/pulled", {"topic": "orders"})
    with endpoint() as url:
        ask.mask.name(url, "<endpoint>")
        _made(ask, url)
        _delivered(ask)
        _secrets(ask)
        _of_pulled(ask)


def _made(ask: Client, url: str) -> None:
    least = {"topic": "orders", "type": "push", "push": {"url": f"{url}/taken"}}
    ask("put-least", "PUT", "/subscriptions/least", least)
    full = {
        "url": f"{url}/taken",
        "format": "cloudevents_structured",
        "headers": {"X-Shop": "7"},
        "signing": ["v1", "v1a"],
        "oidc": {"audience": "https://shop.example", "subject": "shop"},
        "timeout_seconds": 5,
        "max_concurrency": 2,
        "max_batch": 1,
        "disable_after_seconds": 3600,
        "verify": False,
        "events_topic": "events",
    }
    ask("put-full", "PUT", "/subscriptions/full", {**least, "push": full})
    failing = {"url": f"{url}/failing", "verify": False}
    ask("put-failing", "PUT", "/subscriptions/failing", {**least, "push": failing})
    wrong = {
        "no-url": {"url": "shop"},
        "ftp": {"url": "ftp://shop.example"},
        "plain-http": {"url": "http://shop.example/hook"},
        "inside": {"url": "https://10.0.0.1/hook"},
        "bad-header": {"headers": {"a b": "x"}},
        "our-header": {"headers": {"Host": "x"}},
        "no-format": {"format": "xml"},
        "batch-of-raw": {"format": "raw", "max_batch": 2},
        "no-events-topic": {"events_topic": "none"},
        "no-audience": {"oidc": {}},
    }
    for name, fields in wrong.items():
        body = {**least, "push": {**full, **fields}}
        ask(f"put-{name}", "PUT", f"/subscriptions/x-{name}", body)
    change = {"push": {"headers": {"X-Shop": None, "X-New": "8"}, "oidc": None, "format": None}}
    ask("patch", "PATCH", "/subscriptions/full", change)
    ask("patch-other-url", "PATCH", "/subscriptions/full", {"push": {"url": f"{url}/taken?a=1"}})
    ask("patch-to-pull-and-push", "PATCH", "/subscriptions/full", {"type": "pull"})
    ask("patch-back-to-push", "PATCH", "/subscriptions/full", {"type": "push", "push": full})
    ask("get", "GET", "/subscriptions/full")


def _delivered(ask: Client) -> None:
    # Its endpoint fails from the first message on, and the state tells it some seconds later.
    ask("verify-failing", "POST", "/subscriptions/failing:verify")
    sent = ask.set_up("POST", "/topics/orders/messages", {"n": 1}).json["message_id"]
    attempts = "/subscriptions/full/attempts"
    # A forwarder may not know for a moment that the subscription pushes again.
    taken = lambda got: got.json.get("attempts")  # noqa: E731
    ask("attempts", "GET", attempts, until=taken)
    ask("attempts-of-message", "GET", f"{attempts}?message_id={sent}&page_size=1")
    ask("attempts-failed", "GET", f"{attempts}?outcome=failed")
    ask("attempts-no-outcome", "GET", f"{attempts}?outcome=lost")
    ask("attempts-bad-message", "GET", f"{attempts}?message_id=nonsense")
    ask("attempts-missing", "GET", "/subscriptions/none/attempts")
    ask("attempts-foreign", "GET", attempts, as_="stranger")
    path = "/subscriptions/full"
    ask("test", "POST", f"{path}:test")
    ask("test-failing", "POST", "/subscriptions/failing:test")
    ask("test-unverified", "POST", "/subscriptions/least:test")
    ask("test-missing", "POST", "/subscriptions/none:test")
    ask("test-as-reader", "POST", f"{path}:test", as_="reader")
    ask("verify-missing", "POST", "/subscriptions/none:verify")
    ask("enable", "POST", f"{path}:enable")
    said = lambda got: got.json["reason"]  # noqa: E731
    ask("verify", "POST", "/subscriptions/least:verify", until=said)
    ask("enable-unverified", "POST", "/subscriptions/least:enable", until=said)
    ask("enable-missing", "POST", "/subscriptions/none:enable")
    ask("replay", "POST", f"{path}:replay", {"message_ids": [sent]})
    ask(
        "replay-range",
        "POST",
        f"{path}:replay",
        {"from": "2001-01-01T00:00:00Z", "max_messages": 1},
    )
    ask("replay-unknown", "POST", f"{path}:replay", {"message_ids": [NO_MESSAGE]})
    ask("replay-bad-id", "POST", f"{path}:replay", {"message_ids": ["nonsense"]})
    both = {"message_ids": [sent], "from": "2001-01-01T00:00:00Z"}
    ask("replay-both", "POST", f"{path}:replay", both)
    ask("replay-nothing", "POST", f"{path}:replay", {})
    ask("replay-missing", "POST", "/subscriptions/none:replay", {"message_ids": [sent]})
    ask("replay-as-reader", "POST", f"{path}:replay", {"message_ids": [sent]}, as_="reader")
    ask("pull", "GET", f"{path}/messages")
    ask("pull-by-post", "POST", f"{path}:pull", {})
    ask("stream", "GET", f"{path}/messages:stream?max_seconds=0")


def _secrets(ask: Client) -> None:
    secrets = "/subscriptions/full/signing_secrets"
    ask("secrets", "GET", secrets)
    ask("secrets-missing", "GET", "/subscriptions/none/signing_secrets")
    ask("secrets-as-reader", "GET", secrets, as_="reader")
    ask("add-secret", "POST", secrets, {})
    full = {"kind": "v1a", "expires_previous_after_seconds": 60}
    added = ask("add-secret-full", "POST", secrets, full)
    ask("add-secret-stale", "POST", secrets, {}, headers={"If-Match": '"1"'})
    ask("add-secret-missing", "POST", "/subscriptions/none/signing_secrets", {})
    ask("add-secret-as-reader", "POST", secrets, {}, as_="reader")
    made = f"{secrets}/{added.json['id']}"
    ask("delete-secret-stale", "DELETE", made, headers={"If-Match": '"1"'})
    ask("delete-secret-as-reader", "DELETE", made, as_="reader")
    ask("delete-secret", "DELETE", made)
    ask("delete-secret-again", "DELETE", made)
    failing = "/subscriptions/failing/signing_secrets"
    (last,) = ask.set_up("GET", failing).json["signing_secrets"]
    ask("delete-last-secret", "DELETE", f"{failing}/{last['id']}")
    for _ in range(9):
        ask.set_up("POST", failing, {})
    ask("add-too-many-secrets", "POST", failing, {})


def _of_pulled(ask: Client) -> None:
    path = "/subscriptions/pulled"
    ask("attempts-of-pulled", "GET", f"{path}/attempts")
    ask("test-of-pulled", "POST", f"{path}:test")
    ask("verify-of-pulled", "POST", f"{path}:verify")
    ask("enable-of-pulled", "POST", f"{path}:enable")
    ask("replay-of-pulled", "POST", f"{path}:replay", {"from": "2001-01-01T00:00:00Z"})
    ask("secrets-of-pulled", "GET", f"{path}/signing_secrets")
    ask("add-secret-of-pulled", "POST", f"{path}/signing_secrets", {})
