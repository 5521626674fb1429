"""A page of another origin, in a real browser, listens to a stream and acks: CORS and a ticket."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.contract.browser import Browser
from tests.e2e.installation import Installation

NAME = "contract-browser"
LISTEN = """
(async (api, token, name) => {
  const headers = { Authorization: `Bearer ${token}` };
  const made = await fetch(`${api}/subscriptions/${name}/stream_tickets`,
                           { method: "POST", headers });
  const { path } = await made.json();
  const source = new EventSource(`${api}${path}`);
  const message = await new Promise((resolve, reject) => {
    source.onmessage = event => resolve(JSON.parse(event.data));
    source.onerror = () => reject(new Error("the stream was refused"));
  });
  source.close();
  const acked = await fetch(`${api}/subscriptions/${name}/ack`, {
    method: "POST",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ ack_ids: [message.ack_id] }),
  });
  return [made.status, message.data, acked.status, acked.headers.has("x-request-id")];
})(%r, %r, %r)
"""


class Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>a page</title>")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Yield the address of a page that is not of the server's origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def test_a_page_of_another_origin_listens_and_acks(
    served: Installation, browser: Browser, elsewhere: str
) -> None:
    http = served.session()
    made = http.put(f"{served.url}/topics/{NAME}", json={})
    made.raise_for_status()
    http.put(f"{served.url}/subscriptions/{NAME}", json={"topic": NAME}).raise_for_status()
    sent = http.post(f"{served.url}/topics/{NAME}/messages", json={"order": 1})
    sent.raise_for_status()
    with browser as page:
        page.call("Page.navigate", url=elsewhere)
        page.until("document.title === 'a page'")
        found = page.evaluate(LISTEN % (served.url, served.token, NAME))
    assert found == [201, {"order": 1}, 200, True]


def test_a_ticket_that_is_none_is_refused(served: Installation) -> None:
    path = "/subscriptions/contract-reader/messages:stream?ticket=AAAA"
    answer = served.session().get(served.url + path, headers={"Authorization": ""})
    assert answer.status_code == 401
