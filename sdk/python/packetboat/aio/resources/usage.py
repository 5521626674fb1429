# Generated from openapi/: `make generate`. Do not edit.
"""The usage of a tenant, per hour."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import tenancy as calls
from packetboat.models import Page, UsageHour


class AsyncUsage:
    """The usage of a tenant, per hour."""

    def __init__(self, sender: AsyncSender) -> None:
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
    ) -> AsyncIterator[UsageHour]:
        """Iterate over hours not before `since` and before `until`, which have a zone: of a tenant,
        for operators, or of the own one."""
        return every(
            self._sender,
            lambda token: (
                calls.get_own_usage(since, until, metric, page_size, token)
                if tenant is None
                else calls.get_usage(tenant, since, until, metric, page_size, token)
            ),
            timeout_s,
        )

    async def page(
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
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(
            calls.get_own_usage(since, until, metric, page_size, page_token)
            if tenant is None
            else calls.get_usage(tenant, since, until, metric, page_size, page_token),
            timeout_s,
        )
