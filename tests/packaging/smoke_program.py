"""Run by every supported Python, of the installed wheel: all that is public can be imported, and
both clients publish to a server that is a stub. Prints what was published."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module, metadata

import msgspec
import packetboat
from packetboat import AsyncClient, Client

PUBLIC = ("packetboat", "packetboat.models", "packetboat.worker", "packetboat.tasks")
WITH_EXTRA = ("packetboat.webhooks",)
SERVER_PARTS = {"gateway", "metadata", "store_nodes", "tests"}


class Stub(BaseHTTPRequestHandler):
    """Says that each message of a batch is durable."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        count = len(msgspec.msgpack.decode(body)["messages"])
        topic = self.path.split("/")[2]
        receipts = [
            {
                "message_id": f"m{n}",
                "topic": topic,
                "partition": 0,
                "offset": n,
                "publish_time": None,
            }
            for n in range(count)
        ]
        answer = json.dumps({"results": receipts}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Standard error stays empty."""


async def publish_async(url: str) -> str:
    async with AsyncClient(url, "token") as client:
        return (await client.publish("orders", b"\x00")).message_id


def main() -> None:
    for module in (*PUBLIC, *WITH_EXTRA):
        for name in import_module(module).__all__:
            getattr(import_module(module), name)
    assert SERVER_PARTS.isdisjoint(sys.modules)
    assert "site-packages" in packetboat.__file__, packetboat.__file__
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with Client(url, "token") as client:
        topic = client.publish("orders", {"n": 1}).result().topic
    print(topic, asyncio.run(publish_async(url)), metadata.version("packetboat-client"))
    server.shutdown()
    server.server_close()


main()
