"""`make journeys`: writes the functions and files that a message passes into docs/journeys.

    python -m tests.journeys [publish] [pull] [ack] [push] [--rounds 12] [--summary]

A real `packetboat up` runs with a tracer in each process (traced.py). A journey is made a dozen
times, and for as long each time the platform is watched while nothing happens. A function belongs
to the journey if each round called it, and few of the idle times did: what a platform does all the
time is no part of it. Store nodes count as one, leader and followers together.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tests import inside
from tests.e2e.installation import Installation
from tests.journeys import pages
from tests.journeys.pages import Function
from tests.journeys.traced import Called
from tests.security.tenants import Actor

TRACED = Path(__file__).with_name("traced.py")
QUIET_AFTER_S = 0.05
"""Seconds after an answer in which followers and flushes end what the request began."""
QUIET_BEFORE_S = 0.3
"""Seconds before a journey in which followers hear that earlier messages are chosen."""
IDLE_SHARE = 0.25
"""A function that more of the idle times than this called belongs to no journey."""
WARM_ROUNDS = 5
PLACES = {" serve": "server", " store-node": "store nodes"}
"""Each traced process is known by a part of its command line, and listed under a name."""


Calls = dict[Function, int]
"""Maps each function to the moment of its first call, in nanoseconds after the journey began."""


class Site:
    """Asks the tracers in the processes of a running installation."""

    def __init__(self, installation: Installation, sockets: Path) -> None:
        self.actor = Actor(installation.url, installation.token)
        self._sockets = sockets
        self._pids = {
            pid: place
            for pid, line in installation.processes().items()
            for word, place in PLACES.items()
            if word in line
        }

    def traced(self, act: Callable[[], None]) -> Calls:
        """Return the functions that were called during the act, and shortly after it."""
        self._read()
        began_ns = time.monotonic_ns()
        act()
        time.sleep(QUIET_AFTER_S)
        calls: Calls = {}
        for place, called in self._read():
            function = Function(place, called.file, called.name)
            at_ns = called.first_ns - began_ns
            calls[function] = min(at_ns, calls.get(function, at_ns))
        return calls

    def _read(self) -> Iterator[tuple[str, Called]]:
        answers = [
            (place, msgspec.json.decode(inside.ask(self._sockets, pid), type=list[Called]))
            for pid, place in self._pids.items()
        ]
        return ((place, called) for place, those in answers for called in those)


@contextmanager
def running() -> Iterator[Site]:
    """Run an installation within the block."""
    with tempfile.TemporaryDirectory(prefix="packetboat-journeys-") as name:
        directory = Path(name)
        directory.chmod(0o711)  # Postgres runs as a lesser account when we are root.
        installation = Installation(directory / "data")
        sockets = inside.watch(installation, TRACED)
        with installation.started():
            yield Site(installation, sockets)


class Journeys:
    """Makes each journey as a client does. Each has a topic of its own, with one partition."""

    def __init__(self, site: Site) -> None:
        self._actor = site.actor
        self._pushed = threading.Event()
        self._ack_ids: list[str] = []
        for topic in ("publish", "pull", "push"):
            self._actor.post("/topics", 201, name=topic, partitions=1)
        self._actor.post("/topics/pull/subscriptions", 201, name="pull", start="earliest")
        url = f"http://127.0.0.1:{self._endpoint()}/"
        body = {"name": "push", "type": "push", "push": {"url": url, "verify": False}}
        self._actor.post("/topics/push/subscriptions", 201, **body)

    def _endpoint(self) -> int:
        """Start an endpoint that accepts each message; return its port."""
        pushed = self._pushed

        class Endpoint(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()
                pushed.set()

            def log_message(self, *_: Any) -> None: ...

        server = HTTPServer(("127.0.0.1", 0), Endpoint)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port

    def _publish(self, topic: str) -> None:
        body = json.dumps({"hello": "world"})
        self._actor.ask("POST", f"/topics/{topic}/messages", 201, data=body)

    def publish(self) -> None:
        self._publish("publish")

    def before_pull(self) -> None:
        self._publish("pull")
        time.sleep(QUIET_AFTER_S)

    def pull(self) -> None:
        (message,) = self._actor.get("/subscriptions/pull/messages", max_messages=1)["messages"]
        self._ack_ids.append(message["ack_id"])

    def before_ack(self) -> None:
        self.before_pull()
        self.pull()
        time.sleep(QUIET_AFTER_S)

    def ack(self) -> None:
        self._actor.post("/subscriptions/pull/ack", 200, ack_ids=[self._ack_ids.pop()])

    def push(self) -> None:
        """Publish, and wait for the request at the endpoint; the list leaves the publish out."""
        self._pushed.clear()
        self._publish("push")
        assert self._pushed.wait(30.0)


def journey(site: Site, act: Callable[[], None], before: Callable[[], None], rounds: int) -> Calls:
    """Return the functions of a journey, with the median moment of their first calls."""
    for _ in range(WARM_ROUNDS):
        before()
        act()
    made = list[Calls]()
    idle = Counter[Function]()
    for _ in range(rounds):
        before()
        time.sleep(QUIET_BEFORE_S)
        began_s = time.monotonic()
        made.append(site.traced(act))
        took_s = time.monotonic() - began_s - QUIET_AFTER_S
        time.sleep(QUIET_BEFORE_S)
        idle.update(site.traced(partial(time.sleep, took_s)).keys())
    always = set.intersection(*(set(calls) for calls in made))
    its = [function for function in always if idle[function] <= IDLE_SHARE * rounds]
    moments = {function: int(median(calls[function] for calls in made)) for function in its}
    return dict(sorted(moments.items(), key=lambda one: (_place_order(one[0]), one[1])))


def _place_order(function: Function) -> int:
    return list(PLACES.values()).index(function.place)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make journeys", description=__doc__)
    parser.add_argument("only", nargs="*", choices=[*HEADS, []], help="these journeys only")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--summary", action="store_true", help="print the numbers, write no page")
    options = parser.parse_args()
    with running() as site:
        journeys = Journeys(site)
        for name in options.only or HEADS:
            act = getattr(journeys, name)
            before = getattr(journeys, f"before_{name}", lambda: None)
            calls = journey(site, act, before, options.rounds)
            if name == "push":
                published = journey(site, journeys.publish, lambda: None, options.rounds)
                calls = {each: at for each, at in calls.items() if each not in published}
            files = {function.file for function in calls}
            print(f"\n{name}: {len(calls)} functions in {len(files)} files", flush=True)
            if not options.summary:
                pages.write(name, HEADS[name], list(calls))


HEADS = {"publish": "A publish", "pull": "A pull", "ack": "An ack", "push": "A push"}

if __name__ == "__main__":
    main()
