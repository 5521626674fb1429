# Generated from openapi/: `make generate`. Do not edit.
"""Push subscriptions: attempts, tests, replay, and signing secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Literal

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import messaging as calls
from packetboat.models import (
    NewSigningSecret,
    Page,
    PushAttempt,
    PushEndpointState,
    PushReplayed,
    PushTest,
    SigningKind,
    SigningSecrets,
)


class AsyncWebhooks:
    """Push subscriptions: attempts, tests, replay, and signing secrets."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    def attempts(
        self,
        subscription: str,
        *,
        outcome: Literal["delivered", "refused", "busy", "failed", "gone"] | None = None,
        message_id: str | None = None,
        page_size: int = 100,
        timeout_s: float | None = None,
    ) -> AsyncIterator[PushAttempt]:
        """Iterate over requests to the endpoint, the newest first. The newest 1,000 of 7 days are
        kept."""
        return every(
            self._sender,
            lambda token: calls.list_push_attempts(
                subscription, outcome, message_id, page_size, token
            ),
            timeout_s,
        )

    async def attempts_page(
        self,
        subscription: str,
        *,
        outcome: Literal["delivered", "refused", "busy", "failed", "gone"] | None = None,
        message_id: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[PushAttempt]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(
            calls.list_push_attempts(subscription, outcome, message_id, page_size, page_token),
            timeout_s,
        )

    async def test(self, subscription: str, *, timeout_s: float | None = None) -> PushTest:
        """Send a sample to the endpoint now, and return its answer."""
        return await self._sender.send(calls.test_push_endpoint(subscription), timeout_s)

    async def replay(
        self,
        subscription: str,
        message_ids: Sequence[str] | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        max_messages: int | None = None,
        timeout_s: float | None = None,
    ) -> PushReplayed:
        """Deliver settled messages once more: these, or those published from `since` to `until`,
        which have a zone. Raise UnknownOutcome where it is open which are."""
        return await self._sender.send(
            calls.replay_to_endpoint(subscription, message_ids, since, until, max_messages),
            timeout_s,
        )

    async def enable(
        self, subscription: str, *, timeout_s: float | None = None
    ) -> PushEndpointState:
        """Deliver to a disabled endpoint again; the backlog comes first."""
        return await self._sender.send(calls.enable_push_endpoint(subscription), timeout_s)

    async def verify(
        self, subscription: str, *, timeout_s: float | None = None
    ) -> PushEndpointState:
        """Send the endpoint a challenge now."""
        return await self._sender.send(calls.verify_push_endpoint(subscription), timeout_s)

    async def signing_secrets(
        self, subscription: str, *, timeout_s: float | None = None
    ) -> SigningSecrets:
        """Return the secrets that sign requests now, without their values."""
        return await self._sender.send(calls.list_signing_secrets(subscription), timeout_s)

    async def create_signing_secret(
        self,
        subscription: str,
        *,
        kind: SigningKind | None = None,
        expires_previous_after_seconds: float | None = None,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> NewSigningSecret:
        """Add a secret that signs at once, beside the earlier ones of its kind for
        `expires_previous_after_seconds` (a day unless given). `secret` of the answer is shown
        once."""
        return await self._sender.send(
            calls.create_signing_secret(
                subscription, kind, expires_previous_after_seconds, if_match
            ),
            timeout_s,
        )

    async def delete_signing_secret(
        self,
        subscription: str,
        secret: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Delete a secret by its id; it signs nothing from now on. Raise Conflict for the last
        one."""
        await self._sender.send(
            calls.delete_signing_secret(subscription, secret, if_match), timeout_s
        )
