"""The way to the server: the SDK's own, told on stderr with `--verbose`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from packetboat import settings
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed
from packetboat.cli.output import printable
from packetboat.cli.target import Target
from packetboat.options import Options, Tls
from packetboat.sync.sender import Sender
from packetboat.transport import (
    AsyncTransport,
    Request,
    Response,
    StreamResponse,
    Transport,
    open_transport,
)


class Transports(NamedTuple):
    """The transports with which a test replaces the network."""

    blocking: Transport
    asynchronous: AsyncTransport | None = None


def options_of(target: Target) -> Options:
    try:
        return Options(
            urls=target.urls,
            urls_from=target.url_from,
            credentials=settings.credentials_of(target.profile),
            tls=Tls(ca_file=target.profile.ca_file),
        )
    except ValueError as error:
        raise CommandFailed(f"{error} (from {target.url_from})", ExitCode.USAGE) from None


def connect(options: Options, transport: Transport | None, *, verbose: bool) -> Sender:
    """Open a sender; `transport` is the one of a test."""
    if not verbose:
        return Sender(options, open_transport(options, transport))
    network = transport or open_transport(options.replace(credentials=None))
    return Sender(options, open_transport(options, Told(network)))


class Told:
    """Says what is sent and what is answered; never a header or body, where secrets are."""

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
