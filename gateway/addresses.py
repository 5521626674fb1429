"""Listening sockets, and what people are told where an address is not this machine's or taken."""

from __future__ import annotations

import errno
import os
import socket

HOST, PORT = "PACKETBOAT_HOST", "PACKETBOAT_PORT"


class CannotListen(Exception):
    """The text names the setting and says what is wrong with it."""


def bound(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """A bound TCP socket; `shared` lets several processes bind the same port. CannotListen."""
    wanted = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, family=wanted, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise CannotListen(f"{HOST}={host!r} (--host): no host of this name is known") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise CannotListen(_why(error, host, port)) from error
    return listener


def _why(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{HOST}={host!r} (--host): not an address of this machine"
    if error.errno == errno.EADDRINUSE:
        return f"{PORT}={port} (--port): in use at {host}; choose another port, or stop who has it"
    if error.errno == errno.EACCES:
        return f"{PORT}={port} (--port): this user may not listen there; take one from 1024 on"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"{HOST}={host!r}, {PORT}={port}: {reason}"
