# Generated from openapi/: `make generate`. Do not edit.
"""Calls of server."""

from __future__ import annotations

from packetboat.calls.call import (
    Call,
    fetch,
    get,
    nothing,
)
from packetboat.models import Fleet, WhoAmI


def who_am_i() -> Call[WhoAmI]:
    return fetch("/whoami", WhoAmI)


def list_forwarders() -> Call[Fleet]:
    return fetch("/forwarders", Fleet)


def healthz() -> Call[None]:
    return Call(get("/healthz"), nothing, safe=True)


def readyz() -> Call[None]:
    return Call(get("/readyz"), nothing)
