"""The asyncio client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType

from packetboat import calls, settings
from packetboat.aio.flat import FlatNames
from packetboat.aio.resources.audit import AsyncAudit
from packetboat.aio.resources.clients import AsyncClients
from packetboat.aio.resources.dead_letters import AsyncDeadLetters
from packetboat.aio.resources.delivery import AsyncDelivery
from packetboat.aio.resources.issuers import AsyncIssuers
from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.aio.resources.keys import AsyncKeys
from packetboat.aio.resources.locks import AsyncLocks
from packetboat.aio.resources.messages import AsyncMessages
from packetboat.aio.resources.parked_keys import AsyncParkedKeys
from packetboat.aio.resources.policies import AsyncPolicies
from packetboat.aio.resources.pools import AsyncPools
from packetboat.aio.resources.quotas import AsyncQuotas
from packetboat.aio.resources.schedules import AsyncSchedules
from packetboat.aio.resources.schemas import AsyncSchemas
from packetboat.aio.resources.server import AsyncServer
from packetboat.aio.resources.snapshots import AsyncSnapshots
from packetboat.aio.resources.subscriptions import AsyncSubscriptions
from packetboat.aio.resources.tenants import AsyncTenants
from packetboat.aio.resources.tokens import AsyncTokens
from packetboat.aio.resources.topics import AsyncTopics
from packetboat.aio.resources.usage import AsyncUsage
from packetboat.aio.resources.webhooks import AsyncWebhooks
from packetboat.aio.sender import AsyncSender
from packetboat.credentials import Credentials
from packetboat.errors import PacketboatError
from packetboat.models import Data, Durability, EarlyDurability, Outgoing, Receipt, WhoAmI
from packetboat.options import Options
from packetboat.transport import AsyncTransport, open_async_transport


class AsyncClient(AsyncDelivery, FlatNames):
    """The same calls as `Client`, to be awaited; of one event loop at a time.

    `url` (several: a sequence, or one string with commas) and `token` (an access token or an API
    key) are over those of `options`; without options the environment has them: PACKETBOAT_URL,
    PACKETBOAT_TOKEN or PACKETBOAT_CLIENT_ID with PACKETBOAT_CLIENT_SECRET, PACKETBOAT_PROFILE; or
    the profile of `packetboat login`. A call that did not take effect is sent again for up to
    `retry_for_s` seconds (10 unless given); 0 turns that off. With `transport` no network is used.

    Everything raises PacketboatError: NotDone, UnknownOutcome or ServerError, or a kind of these.
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
        self._producer = calls.Producer()
        self.topics = AsyncTopics(sender)
        self.subscriptions = AsyncSubscriptions(sender)
        self.messages = AsyncMessages(sender)
        self.snapshots = AsyncSnapshots(sender)
        self.dead_letters = AsyncDeadLetters(sender)
        self.parked_keys = AsyncParkedKeys(sender)
        self.webhooks = AsyncWebhooks(sender)
        self.schedules = AsyncSchedules(sender)
        self.schemas = AsyncSchemas(sender)
        self.locks = AsyncLocks(sender)
        self.jobs = AsyncJobs(sender)
        self.pools = AsyncPools(sender)
        self.tenants = AsyncTenants(sender)
        self.clients = AsyncClients(sender)
        self.keys = AsyncKeys(sender)
        self.tokens = AsyncTokens(sender)
        self.policies = AsyncPolicies(sender)
        self.issuers = AsyncIssuers(sender)
        self.quotas = AsyncQuotas(sender)
        self.usage = AsyncUsage(sender)
        self.audit = AsyncAudit(sender)
        self.server = AsyncServer(sender)

    @classmethod
    def from_options(cls, options: Options) -> AsyncClient:
        """Of these options alone; nothing of the environment but what they say of proxies."""
        return cls(options=options)

    @property
    def options(self) -> Options:
        """How it behaves; another client of the same options behaves alike."""
        return self._sender.options

    async def whoami(self) -> WhoAmI:
        """The tenant and subject of the token, and what it may do."""
        return await self.server.who_am_i()

    async def publish(
        self,
        topic: str,
        data: Data,
        *,
        key: str | None = None,
        attributes: Mapping[str, str] | None = None,
        content_type: str | None = None,
        priority: int = 0,
        idempotency_key: str | None = None,
        delay_seconds: float | None = None,
        deliver_at: datetime | None = None,
        ttl_seconds: float | None = None,
        publisher_id: str | None = None,
        durability: Durability | None = None,
    ) -> Receipt:
        """Returns when the message is durable. Raises NotDone, or UnknownOutcome: it may be.

        With an idempotency key it is stored once however often it is sent, so it is sent again
        also after an unknown outcome. With a delay or a moment it is published then.
        """
        message = Outgoing(
            data=data,
            key=key,
            attributes=attributes,
            content_type=content_type,
            priority=priority,
            idempotency_key=idempotency_key,
            delay_seconds=delay_seconds,
            deliver_at=deliver_at,
            ttl_seconds=ttl_seconds,
        )
        return await self._sender.send(calls.publish(topic, message, publisher_id, durability))

    async def publish_early(
        self,
        topic: str,
        message: Outgoing,
        *,
        durability: EarlyDurability = "leader",
        publisher_id: str | None = None,
    ) -> str:
        """Returns a publish id before the message is durable: it may be lost."""
        return await self._sender.send(
            calls.publish_early(topic, message, publisher_id, durability)
        )

    async def publish_batch(
        self,
        topic: str,
        messages: Sequence[Outgoing | Data],
        *,
        publisher_id: str | None = None,
        durability: Durability | None = None,
    ) -> list[Receipt | PacketboatError]:
        """Up to 1,000 messages; for each, in order, its receipt or its error.

        Raises when the request as a whole was refused, or its outcome is unknown. The batch is
        stored once however often it is sent again.
        """
        call = calls.publish_batch(topic, messages, publisher_id, durability, self._producer)
        return await self._sender.send(call)

    async def close(self) -> None:
        """What is on its way is given up: its outcome is unknown. Later calls raise ClientClosed.
        Closing twice is no error."""
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
