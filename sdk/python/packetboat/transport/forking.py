"""After os.fork the child must not speak on its parent's connections: two who write to one socket
are one who writes nonsense."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Has something that a child of this process must not share with it."""

    def _forked(self) -> None:
        """This is the child, and has one thread. Locks of before may be held for ever."""


_watched: WeakSet[Forkable] = WeakSet()


def watch(thing: Forkable) -> None:
    """Call the thing's `_forked` in each child."""
    _watched.add(thing)


class Sockets:
    """The open sockets of a transport."""

    def __init__(self) -> None:
        self._streams: WeakSet[Any] = WeakSet()

    def saw(self, network_stream: Any) -> None:
        """Note the connection on which an answer came; None where there is no network."""
        if network_stream is not None:
            self._streams.add(network_stream)

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Note connections before they answer, from the events that httpx reports of a request."""
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self.saw(info.get("return_value"))

    def shut(self) -> None:
        """Ends what other threads wait for on them; closing alone would let them wait."""
        for stream in list(self._streams):
            connection = stream.get_extra_info("socket")
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def abandon(self) -> None:
        """Give up the sockets in the child of a fork.

        They are not closed, because TLS would then say good-bye to the server in the name of the
        parent, which continues with them. Code that still has the number of such a descriptor
        writes to /dev/null from now on.
        """
        for stream in list(self._streams):
            connection = stream.get_extra_info("socket")
            if connection is None or connection.fileno() < 0:
                continue
            if isinstance(connection, socket.socket):
                os.close(connection.detach())
            else:
                nowhere = os.open(os.devnull, os.O_RDWR)
                os.dup2(nowhere, connection.fileno(), inheritable=False)
                os.close(nowhere)
        self._streams = WeakSet()


def _in_the_child() -> None:
    for thing in list(_watched):
        thing._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)
