"""h2spec, a program that tests HTTP/2 servers, against our listener and against Hypercorn alone.

The listener may fail nothing that Hypercorn alone does not fail. Where the program is not on the
PATH nothing is compared, and that is said.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

from hypercorn.asyncio import serve

PROGRAM = "h2spec"
TIMEOUT_S = 600


def worse(address: tuple[str, int]) -> list[str]:
    """The tests that fail at that address, and pass at Hypercorn alone."""
    program = shutil.which(PROGRAM)
    if program is None:
        print(f"SKIPPED: {PROGRAM} is not on the PATH; HTTP/2 was not compared with Hypercorn's")
        return []
    ours = failures(program, *address)
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
            theirs = failures(program, "127.0.0.1", port)
        finally:
            alone.terminate()
            alone.wait()
    print(f"h2spec: {len(ours)} failures, of Hypercorn alone {len(theirs)}")
    return [
        f"h2spec: {test} fails, and passes at Hypercorn alone" for test in sorted(ours - theirs)
    ]


def failures(program: str, host: str, port: int) -> set[str]:
    """The tests that fail there."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [program, "-h", host, "-p", str(port), "-P", "/healthz", "-o", "2"]
        done = subprocess.run(
            [*command, "-j", str(report)], capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert report.exists(), done.stdout + done.stderr
        return failed_in(report.read_text())


def failed_in(report: str) -> set[str]:
    """Of a report in JUnit's form."""
    return {
        re.sub(r"\s+", " ", f"{case.get('package')} {case.get('classname')}")
        for case in ElementTree.fromstring(report).iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    }


async def _application(scope: Any, receive: Any, send: Any) -> None:
    """Reads the body and answers."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


def _alone(descriptor: int) -> None:
    from gateway.server import hypercorn_config

    config = hypercorn_config()
    config.bind = [f"fd://{descriptor}"]
    asyncio.run(serve(_application, config))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    _alone(int(sys.argv[1]))
