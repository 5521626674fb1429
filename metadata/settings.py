"""Settings of every process that talks to Postgres; only this module reads their environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """How to reach Postgres, and how long to wait for it.

    PACKETBOAT_DATABASE_URL                  postgresql://user:password@host:port/database
    PACKETBOAT_DATABASE_DATA_CONNECTIONS     raw connections for flushes, leases and claims
    PACKETBOAT_DATABASE_CONTROL_CONNECTIONS  connections for topics and subscriptions
    PACKETBOAT_DATABASE_CONNECT_TIMEOUT_S    to connect, or to get a connection out of a pool
    PACKETBOAT_DATABASE_DEADLINE_S           for one operation, whatever it waits for
    PACKETBOAT_DATABASE_MAX_OPERATIONS       at once; more are refused as unavailable
    """

    url: str
    data_connections: int = 8
    control_connections: int = 8
    connect_timeout_s: float = 2.0
    deadline_s: float = 5.0
    max_operations: int = 1024

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, *, url: str = ""
    ) -> DatabaseSettings:
        """`url` is used where the environment names none; ValueError when neither does."""

        default = cls(url=url)

        def read(name: str, otherwise: float) -> float:
            return float(environment.get(f"PACKETBOAT_DATABASE_{name}", otherwise))

        chosen = environment.get("PACKETBOAT_DATABASE_URL", url)
        if not chosen:
            raise ValueError("set PACKETBOAT_DATABASE_URL")
        return cls(
            url=chosen,
            data_connections=int(read("DATA_CONNECTIONS", default.data_connections)),
            control_connections=int(read("CONTROL_CONNECTIONS", default.control_connections)),
            connect_timeout_s=read("CONNECT_TIMEOUT_S", default.connect_timeout_s),
            deadline_s=read("DEADLINE_S", default.deadline_s),
            max_operations=int(read("MAX_OPERATIONS", default.max_operations)),
        )
