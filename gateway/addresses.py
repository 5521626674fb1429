"""Listening sockets, and what people are told where an address is not this machine's or taken."""

from __future__ import annotations

import errno
import os
import socket


class CannotListen(Exception):
    """The text names the setting and says what is wrong with it."""


def bound(host: str, port: int, *, shared: bool = False, of: str = "") -> socket.socket:
    """Return a bound TCP socket; `shared` lets several processes bind the same port.

    CannotListen names the settings; they begin with `of` unless they are those of the API.
    """
    wanted = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, family=wanted, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise CannotListen(f"{_host(of, host)}: no host of this name is known") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise CannotListen(_why(error, host, port, of)) from error
    return listener


def _why(error: OSError, host: str, port: int, of: str) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{_host(of, host)}: not an address of this machine"
    at = f"PACKETBOAT_{of}PORT={port}"
    named = at if of else f"{at} (--port)"
    if error.errno == errno.EADDRINUSE:
        return f"{named}: in use at {host}; choose another port, or stop who has it"
    if error.errno == errno.EACCES:
        return f"{named}: this user may not listen there; take one from 1024 on"
    reason = os.strerror(error.errno) if error.errno else str(error)
    return f"PACKETBOAT_{of}HOST={host!r}, {at}: {reason}"


def _host(of: str, host: str) -> str:
    return f"PACKETBOAT_{of}HOST={host!r}" + ("" if of else " (--host)")
