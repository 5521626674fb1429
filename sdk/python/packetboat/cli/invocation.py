"""One run of the command: what it was given, where it prints, and the server it talks to."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer

from packetboat import profiles
from packetboat.cli import target
from packetboat.cli.output import Format, Output
from packetboat.cli.shared_options import given

if TYPE_CHECKING:
    from packetboat.cli.api import Api
    from packetboat.cli.connection import Transports
    from packetboat.cli.publish_run import Publisher
    from packetboat.options import Options
    from packetboat.sync.sender import Sender
    from packetboat.transport import Transport

KEY = "packetboat.invocation"


class Invocation:
    """The access of commands to options, output and server; the first use makes it."""

    def __init__(self, options: dict[str, Any], transports: Transports | None = None) -> None:
        self._given = options
        self._for_tests = transports
        self._opened: list[Sender | Transport] = []

    @classmethod
    def of(cls, context: typer.Context) -> Invocation:
        """Return the invocation of this run.

        A test passes its transports as the context's object.
        """
        found: Invocation | None = context.meta.get(KEY)
        if found is None:
            found = context.meta[KEY] = cls(given(context), context.find_root().obj)
        return found

    @cached_property
    def output(self) -> Output:
        return Output(self._given.get("output", Format.TABLE), bool(self._given.get("quiet")))

    @property
    def verbose(self) -> bool:
        return bool(self._given.get("verbose"))

    @property
    def timeout_s(self) -> float | None:
        """Seconds for a call with all its tries, if the user gave them."""
        return self._given.get("timeout")

    @cached_property
    def target(self) -> target.Target:
        return target.find(self._given, os.environ, profiles.load(profiles.path()))

    @cached_property
    def options(self) -> Options:
        """The options of a client of the SDK."""
        from packetboat.cli.connection import options_of

        return options_of(self.target)

    @cached_property
    def api(self) -> Api:
        from packetboat.cli.api import Api

        return Api(self.connect(self.options), self.timeout_s)

    def connect(self, options: Options) -> Sender:
        """Open a sender; the end of the command closes it."""
        from packetboat.cli.connection import connect

        blocking = self._for_tests.blocking if self._for_tests else None
        sender = connect(options, blocking, verbose=self.verbose)
        self._opened.append(sender)
        return sender

    @cached_property
    def plain_transport(self) -> Transport:
        """One try, without a credential, at the first server."""
        return self.plain_transport_to(self.options.urls[0])

    def plain_transport_to(self, url: str) -> Transport:
        """Open a transport to that address, with one try and without a credential."""
        from packetboat.transport import open_transport

        options = self.options.replace(credentials=None, urls=(url,))
        blocking = self._for_tests.blocking if self._for_tests else None
        transport = open_transport(options, blocking)
        self._opened.append(transport)
        return transport

    @asynccontextmanager
    async def publisher(self, max_batch_messages: int) -> AsyncIterator[Publisher]:
        """Open the publisher of the SDK; the end waits for messages that are not stored yet."""
        from packetboat.cli.publishing import open_publisher

        given = self._for_tests.asynchronous if self._for_tests else None
        settings = replace(self.options.publisher, max_batch_messages=max_batch_messages)
        if self.timeout_s is not None:
            settings = replace(settings, deadline_s=self.timeout_s)
        async with open_publisher(self.options, given, settings) as publisher:
            yield publisher

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()
