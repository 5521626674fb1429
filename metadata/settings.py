"""Settings of every process that talks to Postgres; only this module reads their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from edge.environment import Reader, number, numbers

PREFIX = "PACKETBOAT_DATABASE_"
URL = "PACKETBOAT_DATABASE_URL"
URL_FORM = "postgresql://user:password@host:port/database"


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """The address of Postgres, and the time to wait for it.

    PACKETBOAT_DATABASE_URL                  postgresql://user:password@host:port/database
    PACKETBOAT_DATABASE_DATA_CONNECTIONS     raw connections for flushes, leases and claims
    PACKETBOAT_DATABASE_CONTROL_CONNECTIONS  connections for topics and subscriptions
    PACKETBOAT_DATABASE_CONNECT_TIMEOUT_S    to connect, or to get a connection from a pool
    PACKETBOAT_DATABASE_DEADLINE_S           for one operation, including all waiting
    PACKETBOAT_DATABASE_MAX_OPERATIONS       of tenants at once, half of them one tenant's, and as
                                             many of the platform; others are refused
    """

    url: str
    data_connections: int = number(8, 1)
    control_connections: int = number(8, 1)
    connect_timeout_s: float = number(2.0, above=0)
    deadline_s: float = number(5.0, above=0)
    max_operations: int = number(2048, 1)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, *, url: str = ""
    ) -> DatabaseSettings:
        """`url` is used where the environment names none. Raises SettingsError."""
        reader = Reader(environment)
        chosen = environment.get(URL, url)
        given = numbers(reader, cls, PREFIX)
        if not chosen:
            reader.faults.append(f"{URL} is needed: {URL_FORM}")
        elif not _is_url(chosen):
            reader.faults.append(f"{URL} must be {URL_FORM}")
        reader.done()
        return cls(chosen, **given)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("postgresql", "postgres") and (parts.port is None or parts.port > 0)
    except ValueError:  # of the port, or of the address
        # Several hosts with a port each are for the driver to read.
        return "," in text and text.startswith(("postgresql://", "postgres://"))
