"""h2spec, a program that tests servers of HTTP/2, against our listener and Hypercorn alone.

The listener may fail no test that Hypercorn alone passes. Both speak HTTP/2 without TLS, as a load
balancer speaks it to a server of ours: the listener has no TLS of its own. The program is built
from its Go module (tests/h2spec), whose versions and hashes are pinned.
"""

from __future__ import annotations

import asyncio
import functools
import re
import socket
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests/h2spec"
ANSWER_S = 2
"""Seconds within which an answer has to come."""
PATIENT_S = 15
"""Seconds of a second look, since another program may have had the processors at first."""
TIMEOUT_S = 600
_NO_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
Address = tuple[str, int]


class Case(NamedTuple):
    """A test of h2spec, by its section and its description."""

    section: str
    description: str

    def __str__(self) -> str:
        return f"{self.section} {self.description}"


@functools.cache
def program() -> Path:
    """Return h2spec's program. Raises NotHere."""
    from tests.go_programs import built

    return built(SOURCE, "tool")


def worse(address: Address) -> list[str]:
    """Return the tests that fail at an address and pass at Hypercorn alone. Raises NotHere."""
    ours = failures(address)
    with hypercorn_alone() as alone:
        theirs = failures(alone)
    new = ours - theirs
    if new:
        new &= failures(address, {one.section for one in new}, PATIENT_S)
    print(f"h2spec: {len(ours)} failures, of Hypercorn alone {len(theirs)}", flush=True)
    return [f"h2spec: {one} fails, and passes at Hypercorn alone" for one in sorted(new)]


def failures(address: Address, sections: Iterable[str] = (), answer_s: int = ANSWER_S) -> set[Case]:
    """Return the tests that fail at an address, of all or some sections. Raises NotHere."""
    host, port = address
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [str(program()), "-h", host, "-p", str(port), "-P", "/healthz"]
        command += ["-o", str(answer_s), "-j", str(report), *sorted(sections)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert report.exists(), done.stdout + done.stderr
        return failed_in(report.read_text(errors="replace"))


def failed_in(report: str) -> set[Case]:
    """Return the failed tests of a report in JUnit's form."""
    # h2spec writes the bytes of an unexpected frame as they are, also those that XML cannot have.
    cases = list(ElementTree.fromstring(_NO_XML.sub("?", report)).iter("testcase"))
    assert cases, "no test has run"
    return {
        Case(case.get("package", ""), re.sub(r"\s+", " ", case.get("classname", "")))
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }


@contextmanager
def hypercorn_alone() -> Iterator[Address]:
    """Run Hypercorn, as it is, with an application that answers everything."""
    # It listens before the process that serves is started, so nobody is refused meanwhile.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        alone = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve()), str(listener.fileno())],
            pass_fds=(listener.fileno(),),
        )
        try:
            # h2spec waits two seconds for an answer; a process that starts may need longer.
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=TIMEOUT_S).close()
            yield "127.0.0.1", port
        finally:
            alone.kill()
            alone.wait()


async def _application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def _serve_alone(descriptor: int) -> None:
    from hypercorn.asyncio import serve

    from gateway.server import hypercorn_config

    config = hypercorn_config()
    config.bind = [f"fd://{descriptor}"]
    asyncio.run(serve(_application, config))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    _serve_alone(int(sys.argv[1]))
