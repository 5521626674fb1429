"""Where the server is and who we are, unless the program says so itself."""

from __future__ import annotations

import os
from collections.abc import Mapping

DEFAULT_URL = "http://127.0.0.1:8080"


def url(environment: Mapping[str, str] = os.environ) -> str:
    return environment.get("PACKETBOAT_URL") or DEFAULT_URL


def token(environment: Mapping[str, str] = os.environ) -> str | None:
    return environment.get("PACKETBOAT_TOKEN") or None
