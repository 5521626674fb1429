"""Raises the number of descriptors (connections and files) of this process as far as it may.

Most systems start a process with a soft limit of 1,024 and let it raise that up to its hard limit.
At the limit no connection is accepted and no file opened, whatever the settings allow.
"""

from __future__ import annotations

import resource

import structlog

BESIDE_CONNECTIONS = 1_024
"""Descriptors of a server beside its clients' connections: the store, Postgres, peers,
libraries.
"""
STORE_NODE = 4_096
"""Descriptors of a store node: peers, some connections of each server process, segments
being read.
"""
_log = structlog.get_logger("packetboat.descriptors")


def raise_limit(needed: int) -> None:
    """Raise the soft limit of descriptors to the hard one; return a warning if fewer than `needed`
    are left.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError) as error:  # a sandbox, or a hard limit above the system's own
        _log.warning("the limit of open files cannot be raised", error=str(error))
    if soft != resource.RLIM_INFINITY and soft < needed:
        _log.warning(
            "too few open files are allowed: raise the hard limit (LimitNOFILE, ulimit -Hn), or "
            "lower PACKETBOAT_MAX_CONNECTIONS of a server",
            allowed=soft,
            needed=needed,
        )
