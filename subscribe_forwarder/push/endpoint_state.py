"""The decision whether an endpoint gets messages now, and what to do about it when not. Pure."""

from __future__ import annotations

from typing import NamedTuple

from metadata.subscriptions.push_config import PushConfig
from metadata.subscriptions.push_endpoints import PushEndpoint
from openapi.push import State

NOT_YET = "it was not asked yet"
FIRST_RETRY_S = 1.0
MOST_RETRY_S = 3_600.0


class EndpointState(NamedTuple):
    """The standing of one subscription's endpoint."""

    state: State
    reason: str | None = None


def endpoint_state_of(config: PushConfig, row: PushEndpoint | None) -> EndpointState:
    """Return the state of an endpoint: a new URL is unverified, whatever the state of the one
    before; disabled stays disabled.
    """
    if row is not None and row.state == "disabled":
        return EndpointState("disabled", row.reason)
    if not config.verify or (row is not None and row.verified_url == config.url):
        return EndpointState("enabled")
    asked = row is not None and row.state == "unverified" and row.reason
    return EndpointState("unverified", asked or NOT_YET)


def retry_in_s(failed: int) -> float:
    """Return the seconds until an endpoint that failed the challenge is asked again by itself."""
    return float(min(MOST_RETRY_S, FIRST_RETRY_S * 2 ** min(failed, 30)))
