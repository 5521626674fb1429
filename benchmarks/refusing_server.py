"""A listener that always refuses: `python -m benchmarks.refusing_server PORT TOKEN`.

It refuses every publish as an overloaded server does, and does nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys

import uvloop

from auth.development import DevTokenVerifier
from auth.verifier import CachingVerifier
from edge.asgi import Receive, Scope, Send
from gateway import heap, server
from gateway.admission.admission import Admission, Limits
from gateway.app import create_app
from gateway.http.server import HttpServer
from gateway.readiness import Readiness
from harness.made_up_routes import made_up


async def publish(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("nobody is let in")


async def serve(port: int, token: str) -> None:
    """Serve until it is ended."""
    verifier = CachingVerifier(DevTokenVerifier(hashlib.sha256(token.encode()).digest()))
    await verifier.verify(token.encode())  # the token's tenant must be known
    app = create_app(
        [made_up("POST", "/topics/{topic}/messages", publish, "publish", "topic:topic")],
        verifier,
        Readiness(),
        admission=Admission(Limits(requests=0)),
    )
    listener = HttpServer(app, server.hypercorn_config(), turn_away=app.turned_away)
    await listener.start(server.listen("127.0.0.1", port))
    heap.freeze()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))
