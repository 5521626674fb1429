"""Access tokens of an event loop's client: all callers that need one share one request for it."""

from __future__ import annotations

import asyncio
from time import monotonic

from packetboat.credentials import token_endpoint
from packetboat.credentials.kinds import ClientCredentials
from packetboat.credentials.token_endpoint import AccessToken
from packetboat.errors import ClientClosed, ConnectionFailed, PacketboatError
from packetboat.transport.seam import AsyncTransport

AGAIN_S = 5.0
"""Seconds before the next try after a failure, while the token still holds."""


class AsyncIssuedTokens:
    """`transport` reaches the token endpoint."""

    def __init__(self, credentials: ClientCredentials, transport: AsyncTransport) -> None:
        self._credentials = credentials
        self._transport = transport
        self._token: AccessToken | None = None
        self._renewal: asyncio.Task[AccessToken] | None = None

    async def current(self, timeout_s: float) -> str:
        """Return a token that holds. While one does, no caller waits for the next."""
        token, now_s = self._token, monotonic()
        if token is not None and now_s < token.ends_s:
            if now_s >= token.renew_s:
                self._renewing()
            return token.value
        renewal = self._renewing()
        try:
            async with asyncio.timeout(timeout_s):
                # Shielded: a caller who gives up takes it from nobody else.
                return (await asyncio.shield(renewal)).value
        except TimeoutError as error:
            raise ConnectionFailed("no access token in time") from error
        except asyncio.CancelledError:
            if renewal.cancelled():
                raise ClientClosed("the client is closed") from None
            raise

    def refused(self, token: str) -> bool:
        """Return whether there is, or may be, another token: this one was revoked, or our
        clocks differ.
        """
        if self._token is not None and self._token.value == token:
            self._token = None
        return True

    async def close(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        await self._transport.close()

    def _renewing(self) -> asyncio.Task[AccessToken]:
        if self._renewal is None:
            self._renewal = asyncio.get_running_loop().create_task(self._renew())
            self._renewal.add_done_callback(self._renewed)
        return self._renewal

    async def _renew(self) -> AccessToken:
        try:
            response = await self._transport.send(token_endpoint.request(self._credentials))
        except PacketboatError as error:
            raise token_endpoint.not_sent(error) from error
        return token_endpoint.read(response, monotonic())

    def _renewed(self, renewal: asyncio.Task[AccessToken]) -> None:
        self._renewal = None
        if not renewal.cancelled() and renewal.exception() is None:
            self._token = renewal.result()
        elif self._token is not None:
            self._token = self._token._replace(renew_s=monotonic() + AGAIN_S)
