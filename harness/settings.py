"""The environment of processes that tests and benchmarks start."""

from __future__ import annotations

import os

WITHOUT_QUOTAS = {
    "PACKETBOAT_QUOTA_STORED_BYTES": "0",
    "PACKETBOAT_QUOTA_TOPICS": "0",
    "PACKETBOAT_QUOTA_SUBSCRIPTIONS": "0",
}
"""Settings of an installation that stores more for one tenant than the built-in limits allow."""


def inherited_environment(**more: str) -> dict[str, str]:
    """Return the environment of a child process, with `more`."""
    return {**os.environ, **more}
