"""The way to the server: the SDK's own, told on stderr with `--verbose`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from packetboat.cli.output import printable
from packetboat.cli.target import Target
from packetboat.options import Options, Tls
from packetboat.settings import credentials_of
from packetboat.sync.sender import Sender
from packetboat.transport import Request, Response, StreamResponse, Transport, open_transport


def options_of(target: Target) -> Options:
    profile = target.profile
    return Options(
        urls=target.urls, credentials=credentials_of(profile), tls=Tls(ca_file=profile.ca_file)
    )


def connect(options: Options, transport: Transport | None, *, verbose: bool) -> Sender:
    """`transport`: of a test."""
    chosen = open_transport(options, transport)
    return Sender(options, Told(chosen) if verbose else chosen)


class Told:
    """Says what is sent and what is answered; never a header, where secrets are."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    def send(self, request: Request) -> Response:
        began_s = time.monotonic()
        _say(f"> {request.method} {request.path} ({len(request.body)} bytes)")
        response = self._inner.send(request)
        taken_ms = (time.monotonic() - began_s) * 1000
        number = response.headers.get("x-request-id", "-")
        _say(f"< {response.status} in {taken_ms:.0f} ms ({len(response.body)} bytes) {number}")
        return response

    @contextmanager
    def stream(self, request: Request) -> Iterator[StreamResponse]:
        _say(f"> {request.method} {request.path}")
        with self._inner.stream(request) as response:
            _say(f"< {response.status}")
            yield response

    def close(self) -> None:
        self._inner.close()


def _say(text: str) -> None:
    sys.stderr.write(printable(text) + "\n")
