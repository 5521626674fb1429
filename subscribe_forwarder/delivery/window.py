"""Flow control of one stream: what it delivered and what is still out.

A delivered message is outstanding until its lease ends, whatever ends it: an ack, a nack, its
deadline. Nothing is paid for that when leases end: what was delivered is added up, and counted
again only when the sum leaves little room, by the grants whose number of live leases changed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from subscribe_forwarder.delivery.state.leases import Grant
from subscribe_forwarder.delivery.state.ledger import Ledger
from subscribe_forwarder.delivery.wait_list import Delivery

PLENTY_MESSAGES = 100


class Remaining(NamedTuple):
    """The room of the window; both are above 0."""

    messages: int
    size_bytes: int


class _Part:
    """The leased messages of one grant, as of the last look."""

    __slots__ = ("ledger", "live", "sizes_bytes")

    def __init__(self, ledger: Ledger, sizes_bytes: dict[int, int]) -> None:
        self.ledger = ledger
        self.sizes_bytes = sizes_bytes
        """The size of each message's data, by offset."""
        self.live = len(sizes_bytes)


class Window:
    """Never more than `max_messages` are out, nor more than `max_bytes` of their data, but for the
    last of them: a message may go while there is any room."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._parts: dict[Grant, _Part] = {}
        self._messages = 0
        self._bytes = 0
        self.resize(max_messages, max_bytes)

    def resize(self, max_messages: int, max_bytes: int) -> None:
        """Set the limits; the messages in flight may exceed them for a while."""
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._scarce_messages = min(PLENTY_MESSAGES, (max_messages + 1) // 2)
        self._scarce_bytes = (max_bytes + 1) // 2

    def outstanding(self) -> tuple[int, int]:
        """Return the number of messages, and the bytes of their data."""
        self._recount()
        return self._messages, self._bytes

    def room(self) -> Remaining | None:
        """Return the room, or None if the window is full."""
        messages = self._max_messages - self._messages
        size_bytes = self._max_bytes - self._bytes
        if messages < self._scarce_messages or size_bytes < self._scarce_bytes:
            self._recount()
            messages = self._max_messages - self._messages
            size_bytes = self._max_bytes - self._bytes
        return Remaining(messages, size_bytes) if messages > 0 and size_bytes > 0 else None

    def add(self, delivery: Delivery) -> None:
        """Count a delivery as in flight from now on."""
        for part in delivery.taken:
            sizes_bytes = {
                batch.base + index: len(batch.messages()[index].data)
                for batch, index in part.messages()
            }
            part.grant.holder = self
            self._put(part.grant, _Part(part.reader.ledger, sizes_bytes))

    def forget_all_but(self, ledgers: Collection[Ledger]) -> bool:
        """Forget deliveries of other ledgers, whose partition or generation is not ours now.

        Return whether there was any.
        """
        gone = [pair for pair in self._parts.items() if pair[1].ledger not in ledgers]
        for grant, part in gone:
            del self._parts[grant]
            self._messages -= len(part.sizes_bytes)
            self._bytes -= sum(part.sizes_bytes.values())
        return bool(gone)

    def _put(self, grant: Grant, part: _Part) -> None:
        self._parts[grant] = part
        self._messages += len(part.sizes_bytes)
        self._bytes += sum(part.sizes_bytes.values())

    def _recount(self) -> None:
        changed = [pair for pair in self._parts.items() if pair[0].live != pair[1].live]
        for grant, part in changed:
            self._look_again(grant, part)

    def _look_again(self, grant: Grant, part: _Part) -> None:
        """Look again at a grant some of whose leases ended, or got a grant of their own
        when they were extended.
        """
        ledger = part.ledger
        for offset in list(part.sizes_bytes):
            now = ledger.leases.grant_of(offset)
            if now is grant:
                continue
            size_bytes = part.sizes_bytes.pop(offset)
            self._messages -= 1
            self._bytes -= size_bytes
            if now is not None and now.holder is self and now not in self._parts:
                self._put(now, _Part(ledger, {offset: size_bytes}))
        part.live = grant.live
        if not part.sizes_bytes:
            del self._parts[grant]
