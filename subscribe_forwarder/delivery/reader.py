"""Reads the messages of one subscription in one lane: delivered ones, and the next to deliver.

New messages begin at `scan`; below it every offset is settled, leased or waiting for a delivery,
again or in its turn. A reader starts with `scan` at the floor, so messages that were leased when
the last owner died are delivered again, whatever their number: messages below `read_to` are not
new, and no limit on new messages holds them back.

One pass looks at no more than `pull_limits.MAX_SCAN` messages, and judges no longer than
`PullLimits.turn` has left: if `PullLimits.more` is set, the caller continues in the next turn of
the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from metadata.delivery.deliveries import OpenDelivery
from metadata.types import CursorState, Epoch, Unit
from peering.shared_secret import SharedSecret
from store_nodes.record_batch import BadBatch
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.ack_id import Head, Minter
from subscribe_forwarder.delivery.choosing import Choosing
from subscribe_forwarder.delivery.key_sequencer import KeySequencer, ParkedKey
from subscribe_forwarder.delivery.pull_limits import PullLimits
from subscribe_forwarder.delivery.reading.batch import Batch, BatchRange, add_range
from subscribe_forwarder.delivery.reading.judgement import Judgement
from subscribe_forwarder.delivery.reading.tail import Tail
from subscribe_forwarder.delivery.selection.selection import Selection
from subscribe_forwarder.delivery.state.cursor import Cursor, Settled
from subscribe_forwarder.delivery.state.inherited import InheritedLease
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.leases import Grant
from subscribe_forwarder.delivery.state.ledger import Ledger, Now
from subscribe_forwarder.delivery.terms import DEFAULT_TERMS, Terms

PAUSED_OUTSTANDING = "too_many_outstanding"
PAUSED_KEYS = "blocked_by_keys"


class Taken(NamedTuple):
    """The messages that one pull took from one reader: leased, in the order of delivery,
    not yet encoded.
    """

    reader: Reader
    grant: Grant
    ranges: list[BatchRange]
    minter: Minter

    @property
    def message_count(self) -> int:
        """The number of messages."""
        return sum([one.high - one.low for one in self.ranges])

    @property
    def size_bytes(self) -> int:
        """The size of the messages' data."""
        return sum([one.size_bytes for one in self.ranges])

    @property
    def offsets(self) -> list[int]:
        """The offsets of the messages, in the order of delivery."""
        offsets: list[int] = []
        for one in self.ranges:
            offsets += one.offsets
        return offsets

    def messages(self) -> Iterator[tuple[Batch, int]]:
        """Yield each message as its batch and its index there."""
        for batch, low, high in self.ranges:
            for index in range(low, high):
                yield batch, index


class Reader:
    """Reads for one subscription on the event loop only, and never waits.

    The caller has checked the forwarder's lease.
    """

    def __init__(
        self,
        state: CursorState,
        epoch: Epoch,
        tail: Tail,
        partition: Unit,
        ack_key: SharedSecret,
        terms: Terms = DEFAULT_TERMS,
        on_dead_letter: Callable[[Reader, OpenDelivery], None] | None = None,
        handed: Sequence[InheritedLease] = (),
        on_outstanding: Callable[[Reader], None] | None = None,
    ) -> None:
        """`on_dead_letter` is told of deliveries to be dead-lettered; `handed`: leases of the owner
        before; `on_outstanding` is told when something is outstanding where nothing was."""
        self.tail = tail
        self.partition = partition
        self.frozen = False
        """Whether its ownership is in doubt: nothing is delivered, and no ack is answered."""
        self._leaving = False
        self.limit: int | None = None
        """New messages from here on wait for those of other partitions (growth.py)."""
        self._ack_key = ack_key
        self._on_dead_letter = on_dead_letter
        self._on_outstanding = on_outstanding
        self.terms = terms
        self.reset(state, epoch, handed)

    def reset(
        self, state: CursorState, epoch: Epoch, handed: Sequence[InheritedLease] = ()
    ) -> None:
        """Forgets what is in memory and goes on from a row."""
        self.ledger = Ledger(state, epoch, self.terms.policy, handed=handed)
        self.ledger.leaving = self._leaving
        self.scan = self.cursor.floor
        ordered = self.terms.policy.ordered
        self.keys = KeySequencer(self.ledger, self.tail, lambda: self.scan) if ordered else None
        """The order of keys, for a subscription in order."""
        if self._on_dead_letter is not None:
            self.ledger.pending_dead_letters.on_due = self._dead_letter_due
        if self._on_outstanding is not None:
            self.ledger.leases.on_outstanding = self._outstanding_again
            if self.ledger.leases.outstanding:
                self._on_outstanding(self)
        self.refence(epoch)

    def follow(self, terms: Terms) -> None:
        """Continue under other terms; a reader in order stays in order."""
        self.terms = terms
        self.ledger.policy = terms.policy

    def refence(self, epoch: Epoch) -> None:
        """Continue under a new epoch with the state in memory."""
        cursor = self.cursor
        cursor.epoch = epoch
        key = cursor.key
        head = Head(key.subscription_uid, cursor.generation, key.partition, key.lane, epoch)
        self.minter = Minter(head, self._ack_key)

    @property
    def leaving(self) -> bool:
        """Whether the unit is being given away: nothing is delivered."""
        return self._leaving

    @leaving.setter
    def leaving(self, leaving: bool) -> None:
        """Stop or resume deliveries while the unit moves to another owner."""
        self._leaving = self.ledger.leaving = leaving

    @property
    def cursor(self) -> Cursor:
        """The ack state of this lane."""
        return self.ledger.cursor

    @property
    def place(self) -> Lane:
        """The partition and lane that it reads."""
        return Lane(self.partition.partition, self.cursor.key.lane)

    @property
    def backlog(self) -> int:
        """Return the messages that are not settled, those not delivered yet included."""
        end = self.tail.end
        unread = 0 if end is None else max(0, end - self.cursor.read_to)
        return self.cursor.pending() + self.cursor.exceptions + unread

    @property
    def selection(self) -> Selection | None:
        """The filter of the subscription, or None."""
        return self.terms.selection

    @property
    def end(self) -> int | None:
        """The offset after the last one that may be delivered now; None while that is unknown."""
        end = self.tail.end
        if end is None:
            return None
        if self.limit is not None and end > self.limit:
            end = self.limit
        if self.terms.only_again or self.ledger.paused_reason() is not None:
            end = min(end, max(self.cursor.read_to, self.scan))
        if self.keys is not None and (bound := self.keys.bound) is not None:
            end = min(end, bound)
        return end

    def done_to(self, end: int) -> bool:
        """Return whether messages after `end` in other partitions may be delivered (growth.py).

        All messages below it must be read, and for a subscription in order also settled and
        committed.
        """
        if self.keys is None or self.scan < end:
            return self.scan >= end
        return self.ledger.committed_to(end)

    def waits_for_commit(self, end: int) -> bool:
        """Return whether `done_to` lacks nothing but a flush, which must not wait then."""
        waits = self.scan >= end and self.keys is not None and self.ledger.settled_to(end)
        self.ledger.awaited |= waits
        return waits

    @property
    def idle(self) -> bool:
        """Whether nothing is readable at `scan` and nothing is outstanding."""
        if self.ledger.leases.outstanding:
            return False
        scan, end = self.scan, self.tail.end
        if end is None or scan < self.tail.first:
            return False
        return scan >= end or scan >= (self.end or 0)

    @property
    def drained(self) -> bool:
        """Whether no message is known that could be delivered now but for a limit or a pause."""
        scan, end = self.scan, self.tail.end
        if self.keys is not None or end is None or scan < end or scan < self.tail.first:
            return False
        return self.ledger.leases.peek_ready() is None

    def has_ready(self, now: Now) -> bool:
        """Return whether a message may be delivered now."""
        if self.may_have_new or self.ledger.leases.peek_ready() is not None:
            return True
        due_ms = self.next_due_ms(now)
        return due_ms is not None and due_ms <= now.ms

    @property
    def outstanding(self) -> int:
        """The number of messages that count against the subscription's limit.

        They are all messages in memory except those with a parked key, which have a limit of their
        own.
        """
        outstanding = self.ledger.leases.outstanding
        return outstanding if self.keys is None else outstanding - self.keys.order.set_aside

    @property
    def held(self) -> int:
        """Messages that wait for an earlier one of their key."""
        return 0 if self.keys is None else self.keys.order.held

    @property
    def may_have_new(self) -> bool:
        """Whether something may be readable at `scan`."""
        end = self.end
        return end is None or self.scan < end

    def take(self, limits: PullLimits, now: Now, deadline_ms: int) -> Taken | None:
        """Lease messages that are ready and in the cache: first delivered ones, then new ones.

        The tail is asked for ready messages that the cache lacks; `starved` tells.
        """
        now_us = now.us
        self.end_leases(now)
        self.lift()
        scan, limit = self.scan, self.limit
        ranges: list[BatchRange] = []
        again = 0
        try:
            if self.keys is not None and not self._in_order(self.keys, now_us):
                return None
            before = limits.taken
            self._take_again(ranges, limits, now_us)
            again = limits.taken - before
            self._take_new(ranges, limits, now_us)
        except BadBatch as error:
            self.tail.unreadable(error)
        assert limit is None or self.scan <= max(limit, scan), (
            f"read to {self.scan}, beyond the barrier at {limit}"
        )
        if not ranges:
            return None
        if again:
            metrics.redelivered.inc(again)
        offsets: list[int] = []
        for one in ranges:
            offsets += one.offsets
        grant = self.ledger.lease(offsets, now, deadline_ms)
        return Taken(self, grant, ranges, self.minter)

    def end_leases(self, now: Now) -> None:
        """End leases whose deadline has come."""
        ended = self.ledger.expire(now)
        if ended:
            metrics.lease_ended.labels("deadline").inc(ended)

    def starved(self) -> bool:
        """Return whether ready messages may be missing in the cache; the tail is asked for them."""
        starved = self.keys is not None and self.keys.missing()
        again = self.ledger.leases.peek_ready()
        if again is not None and not self.tail.has(again) and not self.tail.gone(again):
            self.tail.want(again)
            starved = True
        end = self.end
        if end is None or self.scan < end:
            offset, gap_end = self.cursor.gap_at(self.scan, self.scan + 1 if end is None else end)
            if offset < gap_end and not self.tail.has(offset):
                self.tail.want(offset)
                starved = True
        return starved

    def acked(self, offsets: list[int]) -> int:
        """Settle ascending offsets as acked; return how many were not settled before."""
        return self.ledger.settle(offsets, Settled.ACKED)

    def next_due_ms(self, now: Now) -> int | None:
        """Return the time at which a message may become ready; it may be early, never late."""
        due_ms = self.ledger.next_due_ms()
        expiry_us = None if self.keys is None else self.keys.next_expiry_us()
        if expiry_us is None:
            return due_ms
        expiry_ms = now.ms + max(0, expiry_us - now.us + 999) // 1000
        return expiry_ms if due_ms is None else min(due_ms, expiry_ms)

    # Parked keys of a subscription in order. The next flush makes their changes durable.

    def parked(self) -> list[ParkedKey]:
        return [] if self.keys is None else self.keys.parked()

    def resume_key(self, key_hash: int) -> bool:
        """Deliver the head of a key again with its attempts counted anew; return False if
        it is not parked.
        """
        return self.keys is not None and self.keys.resume(key_hash)

    def skip_head(self, key_hash: int) -> bool:
        """Settle the head of a key as skipped, so that the next is delivered; return False
        if it is not parked.
        """
        return self.keys is not None and self.keys.skip(key_hash)

    def _outstanding_again(self) -> None:
        """Tell the reconciler that messages are outstanding."""
        if self._on_outstanding is not None:
            self._on_outstanding(self)

    def _dead_letter_due(self, delivery: OpenDelivery) -> None:
        if self._on_dead_letter is not None:
            self._on_dead_letter(self, delivery)

    def _in_order(self, keys: KeySequencer, now_us: int) -> bool:
        """Return whether the messages that may be delivered are known."""
        if not keys.load():
            return False
        for offset in keys.overdue(now_us):
            self.expire(offset)
        return True

    def _take_again(self, ranges: list[BatchRange], limits: PullLimits, now_us: int) -> None:
        """Choose messages to deliver again, as far as there is room and they are cached."""
        ledger, keys, selection = self.ledger, self.keys, self.selection
        while not limits.full and (offset := ledger.leases.peek_ready()) is not None:
            if keys is not None and not keys.in_turn(offset):
                ledger.leases.take_ready()
                ledger.leases.hold(offset)
                continue
            batch = self.tail.find(offset)
            if batch is None:
                if not self.tail.gone(offset):
                    self.tail.want(offset)
                    return
                ledger.leases.take_ready()
                self.expire(offset)
                continue
            index = offset - batch.base
            batch.messages()
            if selection is not None:
                judgement = self.judge(batch, index, limits, index + 1)
                if judgement is not None and judgement.upto <= index:
                    limits.more = True
                    return
                if judgement is not None and self._settled_instead(judgement, index):
                    continue
            if batch.expires and batch.expired(index, now_us):
                ledger.leases.take_ready()
                self.expire(offset)
                continue
            if limits.take(batch, index, index + 1) == index:
                return
            ledger.leases.take_ready()
            add_range(ranges, batch, index, index + 1)

    def judge(
        self, batch: Batch, index: int, limits: PullLimits, upto: int | None = None
    ) -> Judgement | None:
        """Return the delivered part of the batch from `index` on, as far as it is known
        this turn; None means everything.
        """
        uid = self.cursor.key.subscription_uid
        return batch.judge(self.selection, uid, index, limits.turn, upto)

    def _settled_instead(self, judgement: Judgement, index: int) -> bool:
        """Settles what is ready, and is not delivered any more since the subscription changed."""
        how = judgement.how(index)
        if how is None:
            return False
        offset = self.ledger.leases.take_ready()
        count = self.ledger.settle((offset,), how)
        metrics.not_delivered.labels(how.name.lower()).inc(count)
        return True

    def _take_new(self, ranges: list[BatchRange], limits: PullLimits, now_us: int) -> None:
        """Choose new messages from `scan` on, as far as there is room and they are cached."""
        end = self.end
        known_to = self.cursor.read_to
        while end is not None and not limits.full:
            offset, gap_end = self.cursor.gap_at(self.scan, end)
            if offset >= end:
                self.scan = max(self.scan, offset)
                break
            if offset < known_to:
                gap_end = min(gap_end, known_to)
            elif limits.new <= 0:
                break
            if limits.scan <= 0:
                limits.more = True
                break
            batch = self.tail.find(offset)
            if batch is None and (empty_to := min(self.tail.empty_to(offset), gap_end)) > offset:
                self._pass(offset, empty_to)
                continue
            if batch is None:
                self.tail.want(offset)
                break
            known = offset < known_to
            if self._plain(batch, offset, limits):
                upto = self._take_run(ranges, limits, batch, offset, gap_end, now_us, known)
            else:
                stop = min(batch.end, gap_end)
                choosing = Choosing(self, ranges, limits, now_us)
                upto = choosing.go_over(batch, offset, stop, known=known)
            self.scan = upto
            self.ledger.classify(upto)
            if upto <= offset:
                break  # the turn is over
            if batch.chunk_end < end and not self.tail.has(batch.chunk_end):
                self.tail.want(batch.chunk_end)  # read ahead: one fetch before it is needed

    def _take_run(
        self,
        ranges: list[BatchRange],
        limits: PullLimits,
        batch: Batch,
        offset: int,
        gap_end: int,
        now_us: int,
        known: bool,
    ) -> int:
        """Choose new messages of one batch from `offset` on; return the offset where it stopped."""
        base = batch.base
        index, stop = offset - base, min(batch.end, gap_end) - base
        while index < stop and not limits.full and (known or limits.new > 0):
            high = stop if known else min(stop, index + limits.new)
            if batch.expires:
                if batch.expired(index, now_us):
                    self.expire(base + index)
                    index += 1
                    continue
                high = index + 1
            upto = limits.take(batch, index, high)
            if upto == index:
                break
            limits.new -= upto - index
            add_range(ranges, batch, index, upto)
            index = upto
        return base + index

    def _plain(self, batch: Batch, offset: int, limits: PullLimits) -> bool:
        """Return whether all messages of a batch from `offset` on are delivered, in any order."""
        if self.keys is not None:
            return False
        batch.messages()
        if self.selection is None and not batch.targeted:
            return True
        judgement = self.judge(batch, offset - batch.base, limits)
        return judgement is None or judgement.plain

    def _pass(self, low: int, high: int) -> None:
        """[low, high) has no messages: in the books they count as expired, nowhere else."""
        self.ledger.cursor.settle(low, high, Settled.EXPIRED)
        self.scan = high
        self.ledger.classify(high)

    def expire(self, offset: int) -> None:
        """Settle a message whose time to live is over, or that is no longer stored."""
        metrics.expired.inc(self.ledger.settle((offset,), Settled.EXPIRED))

    def lift(self) -> None:
        """Settle all messages that the store no longer holds as expired, whatever their state."""
        first = self.tail.first
        if self.cursor.floor < first:
            metrics.expired.inc(self.ledger.settle_below(first, Settled.EXPIRED))
        self.scan = max(self.scan, first)
