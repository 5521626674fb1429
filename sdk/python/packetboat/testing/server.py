"""The server that tests have: a process of its own, which starts and moves all that belongs to it.

Nothing of the server is imported here: the project under test may have modules with the names of
its parts. The process is told what to do by lines of JSON on its standard input and answers each
with one; at the end of its input it ends, also when the process of the tests is killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any

PROGRAM = "packetboat_server"
MODULE = f"{PROGRAM}.serve_tests"
STOP_S = 60.0
_LOG_BYTES = 3000


class NotStarted(Exception):
    """The server did not come up, or something of it ended; with the end of its log."""


class Server:
    """Use `start`, and `stop` whatever comes of it."""

    def __init__(self, nodes: int = 1) -> None:
        self._nodes = nodes
        self._process: subprocess.Popen[str] | None = None
        self._stack = ExitStack()
        self._log = self._stack.enter_context(tempfile.TemporaryFile("w+"))  # noqa: SIM115
        self.port: int = 0
        """The port on 127.0.0.1."""
        self.credential: tuple[str, str] = ("", "")
        """Client id and secret of an operator, who is above all tenants."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Server:
        """Returns when it is ready, in some seconds. Raises NotStarted."""
        if find_spec(PROGRAM) is None:
            raise NotStarted("the fixture `packetboat` needs packetboat-server beside the client")
        # -P: not the directory of the tests, which may have modules of any name.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, str(self._nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,  # Ctrl-C is the tests' to handle; they end it.
        )
        told = self._answer()
        self.port = told["port"]
        self.credential = (told["client_id"], told["client_secret"])
        return self

    def advance(self, seconds: float) -> float:
        """Advance the server's time by `seconds`.

        Return the seconds by which it is ahead of ours since its start. Raises NotStarted.
        """
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"advance_s": seconds}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise NotStarted(f"the server ended:\n{self._log_end()}") from None
        return float(self._answer()["ahead_s"])

    def stop(self) -> None:
        """Nothing of it is left."""
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            # The pipe is broken if the server has ended by itself, and its last caller has been
            # told so.
            with suppress(BrokenPipeError):
                self._process.stdin.close()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process.stdout.close()
        self._stack.close()

    def _answer(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise NotStarted(f"the server ended:\n{self._log_end()}")
        told = json.loads(line)
        if "error" in told:
            raise NotStarted(told["error"])
        return told

    def _log_end(self) -> str:
        self._log.seek(0)
        return self._log.read()[-_LOG_BYTES:]
