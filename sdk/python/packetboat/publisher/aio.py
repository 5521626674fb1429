"""The publisher of an asyncio client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import nullcontext
from random import Random
from time import monotonic

from packetboat.aio.sender import AsyncSender
from packetboat.calls import Producer
from packetboat.errors import ClientClosed, PacketboatError
from packetboat.models import Receipt
from packetboat.publisher import at_exit
from packetboat.publisher.core import Core
from packetboat.publisher.ledger import Settled
from packetboat.publisher.pending import Pending
from packetboat.publisher.pump import Pump
from packetboat.publisher.settings import PublisherSettings
from packetboat.transport import forking

_log = logging.getLogger("packetboat")
TURN_MESSAGES = 256
WAITING_LINE = 2
"""A publish cannot be made to wait here, only its receipt: with the overflow "block" as many again
as the buffer holds wait for it to have room."""


class AsyncPublisher:
    """The publisher of an asynchronous client; it belongs to the event loop in which it is
    first used.
    """

    def __init__(
        self, sender: AsyncSender, settings: PublisherSettings, producer: Producer
    ) -> None:
        self._sender = sender
        self._settings = settings
        self._producer = producer
        self._pump: Pump | None = None
        self._room: list[asyncio.Future[None]] = []
        self._asked = 0
        self._closed = False
        forking.watch(self)
        at_exit.watch(self)

    def publish(self, topic: str, message: Pending) -> asyncio.Future[Receipt]:
        """Accept a message; return a future of its receipt, or of NotDone or UnknownOutcome.

        Cancelling the future changes nothing: the message is still sent. Raises BufferFull,
        ClientClosed, or PrecedingFailed where its key is paused.
        """
        loop = asyncio.get_running_loop()
        pump = self._pump
        if pump is None or pump.loop is not loop:
            pump = self._pump_of(loop)
        pump.core.accept(topic, message, monotonic())
        message.receipt = receipt = loop.create_future()
        pump.kick()
        return receipt

    async def room(self) -> None:
        """Return when the buffer is not full.

        A caller that awaits this before each of many messages lets other coroutines and the sender
        run.
        """
        self._asked += 1
        if self._asked % TURN_MESSAGES == 0:
            await asyncio.sleep(0)
        while self._pump is not None and not self._pump.core.ledger.has_room:
            self._room.append(self._pump.loop.create_future())
            await self._room[-1]

    async def flush(self, timeout_s: float | None = None) -> None:
        """Returns when all that was published before has a receipt or an error. Raises
        TimeoutError."""
        if self._pump is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._pump.flush()
        except TimeoutError:
            raise TimeoutError(f"not all is published after {timeout_s} s") from None

    def resume_key(self, topic: str, key: str) -> None:
        if self._pump is not None:
            self._pump.core.resume_key(topic, key)

    async def close(self, timeout_s: float | None = None) -> None:
        """Flush and close.

        Messages without a receipt at the timeout end with ClientClosed if they are not stored, else
        with UnknownOutcome; their number is logged.
        """
        self._closed = True
        pump, self._pump = self._pump, None
        if pump is None:
            return
        timeout_s = self._settings.close_timeout_s if timeout_s is None else timeout_s
        left = 0
        try:
            async with asyncio.timeout(timeout_s):
                await pump.flush()
        except TimeoutError:
            pass
        finally:
            left = await pump.stop(ClientClosed("the client was closed before it was stored"))
            if left:
                _log.error("the client was closed with %d messages not published", left)

    def finish(self) -> None:
        """The interpreter ends, and with it what no loop runs any more."""
        pump = self._pump
        if pump is not None and pump.core.ledger.messages:
            _log.error(
                "the interpreter ends with %d messages not published: await the client's close()",
                pump.core.ledger.messages,
            )

    def _forked(self) -> None:
        """Drop the state in the child of a fork: waiting messages are the parent's, and the
        loop belongs to the parent, too.
        """
        self._pump = None
        self._room = []

    def _pump_of(self, loop: asyncio.AbstractEventLoop) -> Pump:
        if self._closed:
            raise ClientClosed("the client is closed")
        if self._pump is not None and self._pump.core.ledger.messages:
            left = self._pump.core.ledger.messages
            _log.error("an event loop ended with %d messages not published", left)
        core = Core(self._settings, self._producer.next_headers, Random(), self._line())
        self._pump = Pump(core, self._sender, loop, nullcontext(), loop.call_soon, self._tell)
        return self._pump

    def _line(self) -> int:
        return WAITING_LINE if self._settings.overflow == "block" else 1

    def _tell(self, settled: Sequence[Settled]) -> None:
        for message, outcome in settled:
            receipt = message.receipt
            if receipt.done():
                continue
            if isinstance(outcome, PacketboatError):
                receipt.set_exception(outcome)
            else:
                receipt.set_result(outcome)
        if self._room and self._pump is not None and self._pump.core.ledger.has_room:
            waiting, self._room = self._room, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)
