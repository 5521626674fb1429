"""One subscription in one lane: what it may hand out next, and to whom it did.

`scan` is where new messages go on; below it every offset is settled, leased or waiting to be
handed out again. A reader starts with `scan` at the floor, so what was leased when the last owner
died is simply handed out again, whatever its number.
"""

from __future__ import annotations

from typing import NamedTuple

from metadata.types import CursorState, Epoch, PartitionKey
from store_nodes.record_batch import BadBatch
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.ack_id import Head, Minter
from subscribe_forwarder.reading.batch import Batch
from subscribe_forwarder.reading.render import delivery
from subscribe_forwarder.reading.tail import Tail
from subscribe_forwarder.state.cursor import Cursor, Settled
from subscribe_forwarder.state.lanes import Lane
from subscribe_forwarder.state.leases import Grant
from subscribe_forwarder.state.ledger import Ledger

PAUSED_RANGES = "too_many_ranges"
PAUSED_OUTSTANDING = "too_many_outstanding"


class Taken(NamedTuple):
    """What one pull took of one reader: leased, in the order of delivery, not yet rendered."""

    reader: Reader
    grant: Grant
    places: list[tuple[Batch, int]]
    minter: Minter

    def render(self) -> list[bytes]:
        ledger, minter = self.reader.ledger, self.minter
        renderer = self.reader.tail.renderer
        failures = ledger.has_failures
        rendered = []
        for batch, index in self.places:
            offset = batch.base + index
            attempt = ledger.attempt(offset) if failures else 1
            ack_id = minter.mint(offset, attempt)
            rendered.append(delivery(batch.fragment(index, renderer), ack_id, attempt))
        return rendered


class Room:
    """What is left of a pull's limits while it goes over the partitions."""

    __slots__ = ("max_bytes", "max_messages", "new", "taken")

    def __init__(self, max_messages: int, max_bytes: int, new: int) -> None:
        self.max_messages = max_messages
        self.max_bytes = max_bytes
        self.new = new
        """How many messages the subscription may hand out for the first time."""
        self.taken = 0

    @property
    def full(self) -> bool:
        return self.max_messages <= 0 or self.max_bytes <= 0


class Reader:
    """Called on the loop only; never waits. Whoever calls has checked the forwarder's lease."""

    def __init__(
        self,
        state: CursorState,
        epoch: Epoch,
        tail: Tail,
        partition: PartitionKey,
        ack_key: bytes,
    ) -> None:
        self.tail = tail
        self.partition = partition
        self.frozen = False
        """Its ownership is in doubt: nothing is handed out, no ack is answered."""
        self.limit: int | None = None
        """New messages from here on wait for those of other partitions (growth.py)."""
        self._ack_key = ack_key
        self.reset(state, epoch)

    def reset(self, state: CursorState, epoch: Epoch) -> None:
        """Forgets what is in memory and goes on from a row."""
        self.ledger = Ledger(state, epoch)
        self.scan = self.cursor.floor
        self.refence(epoch)

    def refence(self, epoch: Epoch) -> None:
        """Goes on under a new epoch with what is in memory."""
        cursor = self.cursor
        cursor.epoch = epoch
        key = cursor.key
        head = Head(key.subscription_uid, cursor.generation, key.partition, key.lane, epoch)
        self.minter = Minter(head, self._ack_key)

    @property
    def cursor(self) -> Cursor:
        return self.ledger.cursor

    @property
    def place(self) -> Lane:
        return Lane(self.partition.partition, self.cursor.key.lane)

    @property
    def backlog(self) -> int:
        """Messages that are not settled, also those not handed out yet."""
        end = self.tail.end
        unread = 0 if end is None else max(0, end - self.cursor.read_to)
        return self.cursor.pending() + unread

    @property
    def end(self) -> int | None:
        """One past the last offset that may be handed out now; None while that is not known."""
        end = self.tail.end
        return end if self.limit is None or end is None or end < self.limit else self.limit

    def done_to(self, end: int) -> bool:
        """Whether what comes after `end` in other partitions may go out (growth.py)."""
        return self.scan >= end

    @property
    def idle(self) -> bool:
        """Nothing is readable at `scan`, and nothing is out: there is nothing to look at."""
        end = self.end
        at_end = end is not None and self.scan >= end and self.scan >= self.tail.first
        return at_end and not self.ledger.outstanding

    @property
    def has_ready(self) -> bool:
        """Whether something may go out now."""
        return self.may_have_new or self.ledger.peek_ready() is not None

    @property
    def may_have_new(self) -> bool:
        """Whether something may be readable at `scan`."""
        end = self.end
        return end is None or self.scan < end

    def take(self, room: Room, now_ms: int, now_us: int, deadline_ms: int) -> Taken | None:
        """Leases what is ready and in the cache, first what was out before, then new messages.

        What is ready and not in the cache is asked for; `starved` tells.
        """
        ended = self.ledger.expire(now_ms)
        if ended:
            metrics.lease_ended.labels("deadline").inc(ended)
        self.lift()
        places: list[tuple[Batch, int]] = []
        again = 0
        try:
            self._take_again(places, room, now_us)
            again = len(places)
            if not self.cursor.paused:
                self._take_new(places, room, now_us)
        except BadBatch as error:
            self.tail.unreadable(error)
        if not places:
            return None
        if again:
            metrics.redelivered.inc(again)
        offsets = [batch.base + index for batch, index in places]
        grant = self.ledger.lease(offsets, deadline_ms)
        return Taken(self, grant, places, self.minter)

    def starved(self) -> bool:
        """Whether messages may be ready that the cache does not hold; asks the tail for them."""
        starved = False
        again = self.ledger.peek_ready()
        if again is not None and not self.tail.has(again):
            self.tail.want(again)
            starved = True
        if self.may_have_new and not self.cursor.paused:
            end = self.end
            offset, gap_end = self.cursor.gap_at(self.scan, self.scan + 1 if end is None else end)
            if offset < gap_end and not self.tail.has(offset):
                self.tail.want(offset)
                starved = True
        return starved

    def acked(self, offsets: list[int]) -> int:
        """Settles them (ascending) as acked; how many were not before."""
        return self.ledger.settle(offsets, Settled.ACKED)

    def _take_again(self, places: list[tuple[Batch, int]], room: Room, now_us: int) -> None:
        ledger = self.ledger
        while not room.full and (offset := ledger.peek_ready()) is not None:
            batch = self.tail.find(offset)
            if batch is None:
                if offset >= self.tail.first:
                    self.tail.want(offset)
                    return
                ledger.take_ready()
                self._expire(offset)
                continue
            index = offset - batch.base
            messages = batch.messages()
            size = len(messages[index].data)
            if size > room.max_bytes and room.taken:
                room.max_bytes = 0
                return
            ledger.take_ready()
            if batch.expires and batch.expired(index, now_us):
                self._expire(offset)
                continue
            places.append((batch, index))
            room.taken += 1
            room.max_messages -= 1
            room.max_bytes -= size

    def _take_new(self, places: list[tuple[Batch, int]], room: Room, now_us: int) -> None:
        end = self.end
        while end is not None and not room.full and room.new > 0:
            offset, gap_end = self.cursor.gap_at(self.scan, end)
            if offset >= end:
                self.scan = max(self.scan, offset)
                break
            batch = self.tail.find(offset)
            if batch is None:
                self.tail.want(offset)
                break
            upto = self._take_run(places, room, batch, offset, gap_end, now_us)
            self.scan = upto
            self.ledger.classify(upto)
            if batch.chunk_end < end and not self.tail.has(batch.chunk_end):
                self.tail.want(batch.chunk_end)  # read ahead: one fetch before it is needed

    def _take_run(
        self,
        places: list[tuple[Batch, int]],
        room: Room,
        batch: Batch,
        offset: int,
        gap_end: int,
        now_us: int,
    ) -> int:
        """New messages of one batch, from `offset` on; where it stopped."""
        messages = batch.messages()
        base = batch.base
        stop = min(batch.end, gap_end)
        left = min(room.max_messages, room.new)
        left_bytes = room.max_bytes
        expires = batch.expires
        before = len(places)
        while offset < stop and left > 0 and left_bytes > 0:
            index = offset - base
            if expires and batch.expired(index, now_us):
                self._expire(offset)
                offset += 1
                continue
            size = len(messages[index].data)
            if size > left_bytes and (room.taken or len(places) > before):
                left_bytes = 0
                break
            places.append((batch, index))
            left -= 1
            left_bytes -= size
            offset += 1
        taken = len(places) - before
        room.taken += taken
        room.max_messages -= taken
        room.new -= taken
        room.max_bytes = left_bytes
        return offset

    def _expire(self, offset: int) -> None:
        metrics.expired.inc(self.ledger.settle((offset,), Settled.EXPIRED))

    def lift(self) -> None:
        """Counts what the store no longer holds, which is all below its first offset, as expired:
        leased, waiting, and never handed out alike."""
        first = self.tail.first
        if self.cursor.floor < first:
            metrics.expired.inc(self.ledger.settle_below(first, Settled.EXPIRED))
        self.scan = max(self.scan, first)
