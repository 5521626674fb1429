"""Another tenant, which does what tenants do and sees how long it takes. A process of its own:

    python -m tests.abuse.witness URL TOKEN TOPIC

It publishes a small message 80 times a second, over four connections. Beside that it reads, waits,
previews and changes: a bound that an attacker has taken whole shows as a refusal. For each line of
its input it says what it saw since the last one, as JSON.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable
from itertools import cycle
from urllib.parse import urlsplit

import msgspec

PUBLISHERS = 4
EVERY_S = 0.05
OTHERS_EVERY_S = 0.2
PATIENCE_S = 60.0


class Seen(msgspec.Struct):
    """The answers since the witness was last asked."""

    publish_ms: list[float]
    other_ms: list[float]
    refused: list[str]
    """The refused and failed requests, with the reason of each."""


class Asker(threading.Thread):
    """One connection, and what is asked over it, again and again."""

    def __init__(
        self, url: str, token: str, requests: Iterable[tuple[str, str, bytes]], every_s: float
    ) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._open: Callable[[], http.client.HTTPConnection] = lambda: http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=PATIENCE_S
        )
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._requests = cycle(requests)
        self._every_s = every_s
        self.took_ms: list[float] = []
        self.refused: list[str] = []

    def run(self) -> None:
        connection, pause = self._open(), threading.Event()
        for method, path, body in self._requests:
            began_s = time.perf_counter()
            try:
                connection.request(method, path, body or None, self._headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status >= 400:
                    self.refused.append(f"{method} {path}: {answer.status} {_kind(text)}")
            except (OSError, http.client.HTTPException) as error:
                self.refused.append(f"{method} {path}: {type(error).__name__}")
                connection.close()
                connection = self._open()
            took_s = time.perf_counter() - began_s
            self.took_ms.append(took_s * 1000)
            pause.wait(max(0.0, self._every_s - took_s))

    def taken(self) -> tuple[list[float], list[str]]:
        """Return the milliseconds and the refusals since the last call."""
        took_ms, self.took_ms = self.took_ms, []
        refused, self.refused = self.refused, []
        return took_ms, refused


def _kind(problem: bytes) -> str:
    try:
        return str(json.loads(problem)["type"]).rpartition("/")[2]
    except (ValueError, KeyError, TypeError):
        return ""


def main(url: str, token: str, topic: str) -> None:
    publish = [("POST", f"/topics/{topic}/messages", b'"x"')]
    others = [
        ("GET", f"/topics/{topic}/partitions/0/messages?offset=0&max_messages=1", b""),
        ("PATCH", f"/topics/{topic}", b'{"labels":{"seen":"by the witness"}}'),
        ("GET", "/backlog:stream?max_seconds=0", b""),
        ("POST", f"/topics/{topic}:preview_filter", b'{"filter":"true"}'),
        ("POST", f"/subscriptions/{topic}:pull", b'{"max_messages":1}'),
    ]
    publishers = [Asker(url, token, publish, EVERY_S) for _ in range(PUBLISHERS)]
    other = Asker(url, token, others, OTHERS_EVERY_S)
    for each in (*publishers, other):
        each.start()
    for _ in sys.stdin:
        took = [each.taken() for each in (*publishers, other)]
        seen = Seen(
            [ms for took_ms, _ in took[:-1] for ms in took_ms],
            took[-1][0],
            [text for _, refused in took for text in refused],
        )
        sys.stdout.buffer.write(msgspec.json.encode(seen) + b"\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
