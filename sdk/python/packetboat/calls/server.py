"""The installation: whether it is ready, who delivers, and who a token is."""

from __future__ import annotations

from packetboat.calls.call import Call, fetch, get, nothing
from packetboat.models import Fleet, WhoAmI


def who_am_i() -> Call[WhoAmI]:
    return fetch("/whoami", WhoAmI)


def list_forwarders() -> Call[Fleet]:
    return fetch("/forwarders", Fleet)


def healthz() -> Call[None]:
    return Call(get("/healthz"), nothing, safe=True)


def readyz() -> Call[None]:
    """Not sent again: that it is not ready is the answer."""
    return Call(get("/readyz"), nothing)
