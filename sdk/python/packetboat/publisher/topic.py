"""The waiting messages and the batches in flight of one topic, and the time of its next batch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from packetboat.publisher.batch import Batch
from packetboat.publisher.pending import Kind, Pending
from packetboat.publisher.settings import PublisherSettings
from packetboat.publisher.shard import Shard, shard_of

LEAST_MESSAGES = 100
"""The number of messages that cost about as much as a request does: a smaller batch gains nothing
from being sent beside another one.
"""
ENOUGH_MESSAGES = 500
ENOUGH_BYTES = 512 * 1024
"""The messages, or bytes, from which on a batch is sent beside others: more would hardly make a
message cheaper.
"""
PATIENCE_S = 0.02
"""Seconds at most that a small batch waits for another request to end before it is sent
beside it.
"""


class Load(NamedTuple):
    """The content of the next batch."""

    kind: Kind
    messages: list[Pending]
    shards: list[Shard]


class Topic:
    """`ready` are the shards with messages that no batch holds, the longest waiting first."""

    def __init__(self, name: str, settings: PublisherSettings) -> None:
        self.name = name
        self.batches: dict[Batch, None] = {}
        """Out, or waiting to be tried again."""
        self.failures = 0
        """Tries that failed since one succeeded."""
        self.max_batch_bytes: int = settings.max_batch_bytes
        self.hurried: bool = False
        """True if ready messages are sent without lingering."""
        self._settings = settings
        self._shards: dict[int | Kind, Shard] = {}
        self._ready: dict[Shard, None] = {}
        self._ready_messages = 0
        self._mean_bytes = 1
        """The mean size of the messages of the last batch."""
        self._own_timeouts = False
        """Whether any message had one: then a later message may have to end before an earlier."""

    @property
    def idle(self) -> bool:
        """Nothing waits, and nothing is out."""
        return not self._ready_messages and not self.batches

    def add(self, message: Pending) -> None:
        """Add a message to the end of its shard."""
        self._own_timeouts = self._own_timeouts or message.timeout_s is not None
        shard = self._shard_of(message)
        shard.queue.append(message)
        if not shard.busy:
            self._ready[shard] = None
            self._ready_messages += 1

    def put_back(self, messages: Iterable[Pending]) -> None:
        """Put messages that were out in front of all others, in the order given."""
        for message in reversed(list(messages)):
            shard = self._shard_of(message)
            shard.queue.appendleft(message)
            if not shard.busy:
                self._ready[shard] = None
                self._ready_messages += 1

    def release(self, shards: Iterable[Shard]) -> None:
        """No batch holds them any more."""
        for shard in shards:
            assert shard.busy
            shard.busy = False
            if shard.queue:
                self._ready[shard] = None
                self._ready_messages += len(shard.queue)

    def loads(self, now_s: float) -> Iterator[Load]:
        """Yield the loads to send now.

        The caller makes a batch of each before it takes the next.
        """
        while (limit := self._next_size(now_s)) > 0:
            yield self._gather(limit)
        if not self._ready_messages:
            self.hurried = False

    def ready_at_s(self, now_s: float) -> float | None:
        """Return when to look again, if nothing else happens; None if there is nothing to
        send, or the next batch waits for one to come back.
        """
        if not self._ready_messages or self.free_slots() <= 0:
            return None
        if self._lingers(now_s):
            return self._oldest_s() + self._settings.linger_s
        out_s = [batch.sent_s for batch in self.batches if batch.sent_s is not None]
        return max(out_s, default=now_s) + PATIENCE_S

    def pop_expired(self, now_s: float, limit: int) -> tuple[list[Pending], list[Pending]]:
        """Remove about `limit` waiting messages whose time is over; return them, and the
        messages that waited behind one of them with the same key.
        """
        expired: list[Pending] = []
        behind: list[Pending] = []
        for shard in list(self._shards.values()):
            if len(expired) >= limit:
                break
            if self._own_timeouts:
                self._pop_expired_anywhere(shard, now_s, expired, behind)
                continue
            while shard.queue and shard.queue[0].deadline_s <= now_s and len(expired) < limit:
                expired.append(self._pop(shard))
        if not self._own_timeouts:
            behind = self.pop_keys({each.key for each in expired if each.key is not None})
        return expired, behind

    def _pop_expired_anywhere(
        self, shard: Shard, now_s: float, expired: list[Pending], behind: list[Pending]
    ) -> None:
        """Remove expired messages of a shard, also from its middle: messages in front of
        them stay.
        """
        if all(message.deadline_s > now_s for message in shard.queue):
            return
        broken: set[str | None] = set()
        kept: list[Pending] = []
        for message in shard.queue:
            if message.deadline_s <= now_s:
                expired.append(message)
                broken.add(message.key)
            elif message.key is not None and message.key in broken:
                behind.append(message)
            else:
                kept.append(message)
        gone = len(shard.queue) - len(kept)
        shard.queue.clear()
        shard.queue.extend(kept)
        self._shrunk(shard, gone)

    def pop_oldest(self) -> Pending | None:
        """Remove and return the oldest waiting message."""
        waiting = [shard for shard in self._shards.values() if shard.queue]
        if not waiting:
            return None
        return self._pop(min(waiting, key=lambda shard: shard.queue[0].accepted_s))

    def oldest_s(self) -> float | None:
        """Return when the oldest waiting message was accepted."""
        return min(
            (shard.queue[0].accepted_s for shard in self._shards.values() if shard.queue),
            default=None,
        )

    def pop_keys(self, keys: Collection[str]) -> list[Pending]:
        """Remove and return the waiting messages of these keys, in one pass."""
        found: list[Pending] = []
        for shard in {self._shards.get(shard_of(key)) for key in keys}:
            if shard is None:
                continue
            kept = [message for message in shard.queue if message.key not in keys]
            if len(kept) < len(shard.queue):
                found += [message for message in shard.queue if message.key in keys]
                gone = len(shard.queue) - len(kept)
                shard.queue.clear()
                shard.queue.extend(kept)
                self._shrunk(shard, gone)
        return found

    def pop_all(self) -> list[Pending]:
        """Remove and return all waiting messages."""
        popped = []
        for shard in list(self._shards.values()):
            while shard.queue:
                popped.append(self._pop(shard))
        return popped

    def waiting(self) -> Iterator[Pending]:
        """Yield all messages that are in no batch."""
        for shard in self._shards.values():
            yield from shard.queue

    def free_slots(self) -> int:
        """Return the number of batches that may still be sent."""
        used = sum(batch.holds_slot for batch in self.batches)
        return self._settings.max_batches_in_flight - used

    def _next_size(self, now_s: float) -> int:
        """Return the number of messages for the next batch; 0 if it should wait.

        The free slots share the ready messages, as long as each gets enough to be worth a request.
        """
        slots = self.free_slots()
        count = self._ready_messages
        if not count or slots <= 0 or self._lingers(now_s):
            return 0
        out = {batch: sent_s for batch in self.batches if (sent_s := batch.sent_s) is not None}
        enough = self._enough(count + sum(len(batch.messages) for batch in out))
        if count < enough and any(now_s < sent_s + PATIENCE_S for sent_s in out.values()):
            return 0
        parts = min(slots, max(1, count // enough))
        return min(self._settings.max_batch_messages, -(-count // parts))

    def _enough(self, messages: int) -> int:
        """Return the number of messages that are worth a request beside others, of all `messages`
        that are ready or out.

        Two requests share them, so that one is under way while the other is made; more are sent
        at once only if each is large. Keys may make the shares uneven: two fifths are a share.
        """
        most = min(ENOUGH_MESSAGES, max(1, ENOUGH_BYTES // self._mean_bytes))
        return min(most, max(LEAST_MESSAGES, messages * 2 // 5))

    def _lingers(self, now_s: float) -> bool:
        settings = self._settings
        if not settings.linger_s or self.hurried:
            return False
        if self._ready_messages >= settings.max_batch_messages:
            return False
        return now_s < self._oldest_s() + settings.linger_s

    def _oldest_s(self) -> float:
        """Return when the oldest ready message was accepted."""
        return min(shard.queue[0].accepted_s for shard in self._ready)

    def _gather(self, limit: int) -> Load:
        messages: list[Pending] = []
        held: list[Shard] = []
        left_bytes = self.max_batch_bytes
        kind = next(iter(self._ready)).queue[0].kind
        for shard in list(self._ready):
            if shard.queue[0].kind != kind:
                continue
            before = len(messages)
            # The rest of a shard of keys would have to wait, so it is taken whole where it fits.
            most = self._settings.max_batch_messages if shard.keys else limit
            left_bytes -= shard.take(kind, most, left_bytes, messages)
            if len(messages) == before:
                break
            self._taken(shard, len(messages) - before)
            if shard.busy:
                held.append(shard)
            if len(messages) >= limit:
                break
        self._mean_bytes = max(1, (self.max_batch_bytes - left_bytes) // len(messages))
        return Load(kind, messages, held)

    def _taken(self, shard: Shard, count: int) -> None:
        """A batch has that many of a ready shard: it is held, or goes to the end of the line."""
        del self._ready[shard]
        self._ready_messages -= count
        if shard.keys:
            shard.busy = True
            self._ready_messages -= len(shard.queue)
        elif shard.queue:
            self._ready[shard] = None
        else:
            self._forget(shard)
        assert self._ready_messages >= 0

    def _pop(self, shard: Shard) -> Pending:
        message = shard.queue.popleft()
        self._shrunk(shard, 1)
        return message

    def _shrunk(self, shard: Shard, count: int) -> None:
        if shard.busy:
            return
        self._ready_messages -= count
        if not shard.queue:
            del self._ready[shard]
            self._forget(shard)

    def _forget(self, shard: Shard) -> None:
        """Drop an empty shard of messages without a key; there is one for each kind of those."""
        if not shard.keys:
            self._shards = {at: each for at, each in self._shards.items() if each is not shard}

    def _shard_of(self, message: Pending) -> Shard:
        key = message.key
        place = message.kind if key is None else shard_of(key)
        shard = self._shards.get(place)
        if shard is None:
            shard = self._shards[place] = Shard(keys=key is not None)
        return shard
