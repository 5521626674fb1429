"""One credit among several owners: spent once, by the first that has messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from subscribe_forwarder.fleet.proxy.relay import Relay

Ask = Callable[["Contender"], Awaitable[None]]


class Contender:
    """One owner that was asked for messages; `task` ends with its answer."""

    def __init__(self, owner: bytes, race: Race, relay: Relay, ask: Ask) -> None:
        self.owner = owner
        self.relay = relay
        self.failed: Exception | None = None
        self._race = race
        self._ask = ask
        self._out = False
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def race(self) -> bool:
        """Return whether it may answer with the messages that it has leased."""
        return not self._out and self._race.spend(self)

    async def send(self, message: object) -> None:
        """Drop an answer: one that is sent without having won is empty, and not its to give."""
        if self._race.winner is self:
            await self.relay.send(message)

    async def _run(self) -> None:
        try:
            await self._ask(self)
        except Exception as error:
            self.failed = error

    async def cancel(self) -> None:
        """Returns when it keeps nothing here."""
        self._out = True
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Race:
    """`winner` has spent the credit; the others are told so when they ask, or are cancelled."""

    def __init__(self) -> None:
        self.winner: Contender | None = None
        self.over = False
        """Nobody may win any more."""

    def spend(self, contender: Contender) -> bool:
        if self.winner is None and not self.over:
            self.winner = contender
        return self.winner is contender
