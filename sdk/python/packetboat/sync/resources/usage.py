# Generated from aio/resources/usage.py: `make generate`. Do not edit.
"""What a tenant used, per hour."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from packetboat.calls import tenants as calls
from packetboat.calls.call import Call
from packetboat.models import Page, UsageHour
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Usage:
    """What a tenant used, per hour."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def list(
        self,
        tenant: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        metric: str | None = None,
        page_size: int = 100,
        timeout_s: float | None = None,
    ) -> Iterator[UsageHour]:
        """Of hours not before `since` and before `until`, which have a zone. Of a tenant, for
        operators, or the own one."""
        return every(
            self._sender,
            lambda token: _call(tenant, since, until, metric, page_size, token),
            timeout_s,
        )

    def page(
        self,
        tenant: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        metric: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[UsageHour]:
        """One page; `page_token` is that of the page before."""
        call = _call(tenant, since, until, metric, page_size, page_token)
        return self._sender.send(call, timeout_s)


def _call(
    tenant: str | None,
    since: datetime | None,
    until: datetime | None,
    metric: str | None,
    page_size: int,
    token: str | None,
) -> Call[Page[UsageHour]]:
    if tenant is None:
        return calls.get_own_usage(since, until, metric, page_size, token)
    return calls.get_usage(tenant, since, until, metric, page_size, token)
