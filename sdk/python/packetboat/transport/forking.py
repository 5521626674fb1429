"""After os.fork the child must not speak on its parent's connections: two who write to one socket
are one who writes nonsense."""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet


class Forkable(Protocol):
    """Has something that a child of this process must not share with it."""

    def forked(self) -> None:
        """This is the child, and has one thread. Locks of before may be held for ever."""


_watched: WeakSet[Forkable] = WeakSet()


def watch(thing: Forkable) -> None:
    """It is told in each child."""
    _watched.add(thing)


class Sockets:
    """Those that a transport has open."""

    def __init__(self) -> None:
        self._streams: WeakSet[Any] = WeakSet()

    def saw(self, network_stream: Any) -> None:
        """The connection that an answer came on; None where there is no network."""
        if network_stream is not None:
            self._streams.add(network_stream)

    def leave_to_the_parent(self) -> None:
        """Not closed: TLS would say good-bye to the server, in the parent's name. What still has
        the number of such a descriptor writes to nowhere from now on."""
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in list(self._streams):
            socket = stream.get_extra_info("socket")
            if socket is not None and socket.fileno() >= 0:
                os.dup2(nowhere, socket.fileno(), inheritable=False)
        os.close(nowhere)
        self._streams = WeakSet()


def _in_the_child() -> None:
    for thing in list(_watched):
        thing.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)
