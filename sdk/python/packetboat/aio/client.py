"""The asyncio client."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from packetboat import settings
from packetboat.aio.areas import AsyncAreas
from packetboat.aio.publishing import AsyncPublishing
from packetboat.aio.resources.history import AsyncHistory
from packetboat.aio.sender import AsyncSender
from packetboat.credentials import Credentials
from packetboat.models import WhoAmI
from packetboat.options import Options
from packetboat.transport import AsyncTransport, open_async_transport


class AsyncClient(AsyncPublishing, AsyncHistory, AsyncAreas):
    """The asynchronous client: the calls of `Client` as coroutines, for one event loop at a time.

    `url` (several: a sequence, or one string with commas) and `token` (an access token or an API
    key) come before those of `options`. Without options the client reads the environment:
    PACKETBOAT_URL, PACKETBOAT_TOKEN or PACKETBOAT_CLIENT_ID with PACKETBOAT_CLIENT_SECRET,
    PACKETBOAT_PROFILE; or the profile of `packetboat login`. A call that did not take effect is
    sent again for up to `retry_for_s` seconds (10 unless given); 0 turns that off. `timeout_s` of a
    call bounds that call, with all its tries; that of a stream bounds each opening of it. With
    `transport` no network is used.

    Each call raises PacketboatError: NotDone, UnknownOutcome or ServerError, or a kind of these.
    """

    def __init__(
        self,
        url: str | Sequence[str] | None = None,
        token: str | None = None,
        *,
        credentials: Credentials | None = None,
        options: Options | None = None,
        retry_for_s: float | None = None,
        transport: AsyncTransport | None = None,
    ) -> None:
        told = settings.merged(
            options, url, token, credentials, retry_for_s, networked=transport is None
        )
        sender = AsyncSender(told, open_async_transport(told, transport))
        super().__init__(sender)

    @classmethod
    def from_options(cls, options: Options) -> AsyncClient:
        """Create a client with these options alone; it reads the environment only for proxies."""
        return cls(options=options)

    @property
    def options(self) -> Options:
        """The client's options; another client with the same options behaves alike."""
        return self._sender.options

    async def whoami(self, *, timeout_s: float | None = None) -> WhoAmI:
        """Return the tenant and subject of the token, and its permissions."""
        return await self.server.who_am_i(timeout_s=timeout_s)

    async def close(self, timeout_s: float | None = None) -> None:
        """Store published messages, then close the client; a second call does nothing.

        The client waits up to `timeout_s` (`PublisherSettings.close_timeout_s` unless given) for
        published messages. Then it gives up other calls in progress: their outcome is unknown.
        Later calls raise ClientClosed.
        """
        try:
            await self._publisher.close(timeout_s)
        finally:
            await self._sender.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({', '.join(self.options.urls)!r})"
