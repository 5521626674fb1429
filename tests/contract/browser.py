"""A Chromium without a window, driven over the pipe of its DevTools protocol.

It resolves no name, so that it reaches addresses of this machine alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FIRST_FREE_DESCRIPTOR = 10


def chromium() -> str:
    """Return the path of Chromium; skip the test where there is none."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        pytest.skip("no Chromium is installed: Debian's package `chromium` has it")
    return found


class Browser:
    """One page; `events` are what the browser told of it, oldest first."""

    def __init__(self, profile: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self._profile = profile
        self._calls = 0
        self._session: str | None = None
        self._read = b""

    def __enter__(self) -> Browser:
        ours, theirs = os.pipe(), os.pipe()
        command, told = (
            fcntl.fcntl(end, fcntl.F_DUPFD, FIRST_FREE_DESCRIPTOR) for end in (ours[0], theirs[1])
        )
        options = (
            "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --remote-debugging-pipe"
            " --no-first-run --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'"
        )
        self._process = subprocess.Popen(
            f"exec {chromium()} {options} --user-data-dir={self._profile} 3<&{command} 4>&{told}",
            shell=True,
            executable="/bin/bash",  # sh has no descriptors of two digits
            pass_fds=(command, told),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (ours[0], theirs[1], command, told):
            os.close(end)
        self._commands, self._told = ours[1], theirs[0]
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._told)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Return the result of one command; raises RuntimeError with the browser's own text."""
        self._calls += 1
        sent = {"id": self._calls, "method": method, "params": parameters}
        if self._session is not None:
            sent["sessionId"] = self._session
        os.write(self._commands, json.dumps(sent).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") != self._calls:
                self.events.append(message)
                continue
            if "error" in message:
                raise RuntimeError(message["error"]["message"])
            result: dict[str, Any] = message["result"]
            return result

    def evaluate(self, expression: str) -> Any:
        """Return the value of a script's expression; wait for it where it is a promise."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Returns when the expression is true, looked at each time the page is drawn."""
        self.evaluate(
            "new Promise(done => { const look = () =>"
            f" ({expression}) ? done(true) : setTimeout(look, 20); look(); }})"
        )

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            part = os.read(self._told, 1 << 20)
            if not part:
                raise RuntimeError("the browser ended")
            self._read += part
        message, _, self._read = self._read.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told
