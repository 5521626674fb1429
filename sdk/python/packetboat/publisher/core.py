"""The decisions of the publisher: which messages form a batch, and how each message ends.

The core has no I/O and no clock: its driver gives it the time, sends the batches that it returns,
reports how each ended, and passes on the settled messages. These rules hold:

- Each key has at most one batch out, and waits until all of that batch is settled: messages of a
  key are stored in the order in which they were accepted, also when tries fail in part.
- A batch that may be stored, because a try of it ended unknown, is sent again unchanged, under the
  same name. Only messages that are known not to be stored go into other batches.
- Each message is settled once: with its receipt, or with an error that says whether it may be
  stored (UnknownOutcome) or is not (NotDone).
- When a message with a key ends with an error, the waiting messages of its key do, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from packetboat.errors import (
    ApiError,
    BufferFull,
    Dropped,
    NotDone,
    PacketboatError,
    PrecedingFailed,
)
from packetboat.models import Receipt
from packetboat.publisher.batch import Batch
from packetboat.publisher.endings import Endings, preceded
from packetboat.publisher.ledger import Ledger
from packetboat.publisher.pending import Pending
from packetboat.publisher.remembered import Remembered
from packetboat.publisher.results import Result
from packetboat.publisher.settings import PublisherSettings
from packetboat.publisher.topic import PATIENCE_S, Topic
from packetboat.publisher.verdict import (
    TOO_LARGE,
    Verdict,
    copy_of,
    verdict_of,
)
from packetboat.tries import FIRST_S, MAX_S

EXPIRY_S = 0.25
"""Seconds between two searches for messages whose time is over."""
EXPIRED_AT_ONCE = 1000


class Core:
    """`next_name` names a batch by headers; `waiting_line` is how many times over the buffer may be
    filled (by callers that cannot be made to wait)."""

    def __init__(
        self,
        settings: PublisherSettings,
        next_name: Callable[[], Mapping[str, str]],
        random: Random,
        waiting_line: int = 1,
    ) -> None:
        self._settings = settings
        self.deadline_s: float = settings.deadline_s
        """Seconds for which a message without a timeout of its own is tried."""
        self._next_name = next_name
        self._random = random
        self.ledger: Ledger = Ledger(settings, waiting_line)
        self._topics: dict[str, Topic] = {}
        self._remembered = Remembered(settings.max_buffered_bytes)
        self._endings = Endings(self._remembered)
        self._paused: set[tuple[str, str]] = set()

    def accept(self, topic: str, message: Pending, now_s: float) -> None:
        """Raises BufferFull, PrecedingFailed where the key is paused, or ValueError where it does
        not repeat the message that it says."""
        if message.key is not None and (topic, message.key) in self._paused:
            raise PrecedingFailed(f"key {message.key!r} is paused; resume_key lets it go on")
        place = None
        if message.repeats is not None:
            place = self._remembered.place_of(topic, message)
        ledger = self.ledger
        while not ledger.fits(message):
            if self._settings.overflow != "drop_oldest" or not self._drop_oldest():
                raise BufferFull(f"{ledger.messages} messages wait, {ledger.size_bytes} bytes")
        ledger.take(message)
        own_s = message.timeout_s
        message.accepted_s = now_s
        message.deadline_s = now_s + (self._settings.deadline_s if own_s is None else own_s)
        queue = self._topics.get(topic)
        if queue is None:
            queue = self._topics[topic] = Topic(topic, self._settings)
        if place is None:
            queue.add(message)
        else:
            self._repeat(queue, message, *place, now_s)

    def next_batches(self, now_s: float) -> list[Batch]:
        """Return the batches to send now, each once; the caller then reports each by
        `answered` or `failed`.
        """
        batches: list[Batch] = []
        for topic in list(self._topics.values()):
            for batch in list(topic.batches):
                if batch.again_s is not None and batch.again_s <= now_s:
                    self._try_again(topic, batch, now_s, batches)
            for load in topic.loads(now_s):
                batch = Batch(topic.name, *load, name=self._next_name())
                self._sent(batch, now_s)
                topic.batches[batch] = None
                batches.append(batch)
        return batches

    def answered(self, batch: Batch, results: Sequence[Result], now_s: float) -> None:
        """The request succeeded, and says what became of each message."""
        topic = self._topics[batch.topic]
        batch.sent_s = None
        if all(type(result) is Receipt for result in results):
            for message, result in zip(batch.messages, results, strict=True):
                if not message.settled:
                    self.ledger.settle(message, result)
            topic.failures = 0
            self._finish(topic, batch)
            return
        self._answered_in_part(topic, batch, results, now_s)

    def failed(self, batch: Batch, error: PacketboatError, now_s: float) -> None:
        """The request failed, or how it ended is not known."""
        topic = self._topics[batch.topic]
        topic.failures += 1
        batch.sent_s = None
        verdict = verdict_of(error)
        if self._too_large(topic, batch, error):
            batch.again_s = now_s
        elif verdict is Verdict.UNKNOWN or verdict is Verdict.REFUSED:
            batch.may_be_stored = batch.may_be_stored or verdict is Verdict.UNKNOWN
            for message in batch.messages:
                message.refusal = error
            self._pause(topic, batch, error, now_s)
        else:
            self._refuse(topic, batch, error, verdict)

    def expire(self, now_s: float) -> bool:
        """Settles messages whose time is over; whether there are more, of what waits: after an
        outage those of a full buffer are, and what runs beside this has its turns between."""
        left = EXPIRED_AT_ONCE
        for topic in list(self._topics.values()):
            broken: set[str] = set()
            for batch in list(topic.batches):
                for index, message in enumerate(batch.messages):
                    if not message.settled and message.deadline_s <= now_s:
                        self._fail(message, self._endings.given_up(batch, index, now_s), broken)
                if batch.sent_s is None and batch.done:
                    self._finish(topic, batch)
            expired, behind = topic.pop_expired(now_s, left)
            late: set[str] = set()
            for message in expired:
                self._fail(message, self._endings.not_sent(message, now_s), late)
                left -= 1
            for message in behind:
                self.ledger.settle(message, preceded(message))
            self._pause_keys(topic, late)
            self._fail_behind(topic, broken)
            self._forget_if_idle(topic)
        return left <= 0

    def abandon(self, error: NotDone) -> None:
        """Settles all: with `error` what is not stored, else as unknown."""
        for topic in list(self._topics.values()):
            for message in topic.pop_all():
                self.ledger.settle(message, copy_of(error))
            for batch in list(topic.batches):
                for index, message in enumerate(batch.messages):
                    if not message.settled:
                        may_be = batch.may_be_stored or batch.sent_s is not None
                        self.ledger.settle(
                            message,
                            self._endings.unknown(batch, index) if may_be else copy_of(error),
                        )
                if batch.sent_s is None:
                    self._finish(topic, batch)
            self._forget_if_idle(topic)

    def resume_key(self, topic: str, key: str) -> None:
        """Resume a key that a failed message paused; messages accepted from now on are sent."""
        self._paused.discard((topic, key))

    def hurry(self) -> None:
        """Send the messages that wait now without lingering."""
        for topic in self._topics.values():
            topic.hurried = True

    def unsettled(self) -> Iterator[Pending]:
        """All that were taken and are not settled."""
        for topic in self._topics.values():
            for batch in topic.batches:
                yield from (message for message in batch.messages if not message.settled)
            yield from topic.waiting()

    def wake_s(self, now_s: float) -> float | None:
        """Return when to call `expire` and `next_batches` again, if nothing happens before."""
        if not self.ledger.messages:
            return None
        wake_s = now_s + EXPIRY_S
        for topic in self._topics.values():
            ready_at_s = topic.ready_at_s(now_s)
            if ready_at_s is not None:
                wake_s = min(wake_s, ready_at_s)
            for batch in topic.batches:
                if batch.again_s is not None:
                    wake_s = min(wake_s, batch.again_s)
        return wake_s

    def _repeat(
        self, topic: Topic, message: Pending, batch: Batch, index: int, now_s: float
    ) -> None:
        """Send the same batch again, ahead of waiting messages, unless it is under way already."""
        batch.messages[index] = message
        if batch not in topic.batches:
            batch.shards = []
            batch.holds_slot = False
            batch.again_s = now_s
            topic.batches[batch] = None

    def _drop_oldest(self) -> bool:
        oldest: tuple[float, Topic] | None = None
        for topic in self._topics.values():
            taken_s = topic.oldest_s()
            if taken_s is not None and (oldest is None or taken_s < oldest[0]):
                oldest = (taken_s, topic)
        if oldest is None:
            return False
        message = oldest[1].pop_oldest()
        assert message is not None
        self.ledger.settle(message, Dropped("newer messages took its place in a full buffer"))
        self._forget_if_idle(oldest[1])
        return True

    def _sent(self, batch: Batch, now_s: float) -> None:
        batch.sent_s = now_s
        for message in batch.messages:
            message.tries += 1

    def _try_again(self, topic: Topic, batch: Batch, now_s: float, batches: list[Batch]) -> None:
        batch.again_s = None
        if batch.may_be_stored:
            if not batch.holds_slot and topic.free_slots() <= 0:
                batch.again_s = now_s + PATIENCE_S
                return
            batch.holds_slot = True
            self._sent(batch, now_s)
            batches.append(batch)
            return
        topic.put_back(message for message in batch.messages if not message.settled)
        self._finish(topic, batch)

    def _answered_in_part(
        self, topic: Topic, batch: Batch, results: Sequence[Result], now_s: float
    ) -> None:
        """Settle the certain results; the other messages wait, and with them the keys of the batch.

        No message of a key that has failed is tried again.
        """
        broken: set[str] = set()
        again: list[PacketboatError] = []
        batch.may_be_stored = batch.may_be_stored or any(
            isinstance(result, PacketboatError) and verdict_of(result) is Verdict.UNKNOWN
            for result in results
        )
        for index, (message, result) in enumerate(zip(batch.messages, results, strict=True)):
            if isinstance(result, Receipt):
                if not message.settled:
                    self.ledger.settle(message, result)
                continue
            if verdict_of(result) not in (Verdict.REFUSED, Verdict.UNKNOWN):
                error = self._endings.refused(batch, index, result)
            elif message.settled or message.key in broken:
                error = self._endings.held_back(batch, index, result)
            else:
                message.refusal = result
                again.append(result)
                continue
            self._fail(message, error, broken)
        self._fail_behind(topic, broken)
        if batch.done:
            self._finish(topic, batch)
            return
        topic.failures += 1
        batch.holds_slot = batch.may_be_stored
        if not batch.may_be_stored:
            batch.messages = [message for message in batch.messages if not message.settled]
        self._pause(topic, batch, again[0], now_s)

    def _refuse(self, topic: Topic, batch: Batch, error: PacketboatError, verdict: Verdict) -> None:
        """Refuse the whole batch for good."""
        broken: set[str] = set()
        unknown = batch.may_be_stored and verdict is not Verdict.WRONG
        for index, message in enumerate(batch.messages):
            told = self._endings.unknown(batch, index, error) if unknown else copy_of(error)
            self._fail(message, told, broken)
        self._fail_behind(topic, broken)
        self._finish(topic, batch)

    def _too_large(self, topic: Topic, batch: Batch, error: PacketboatError) -> bool:
        """Something on the way takes no request of that size, and would take a part of it."""
        if not isinstance(error, ApiError) or error.status != TOO_LARGE:
            return False
        if len(batch.messages) == 1 or batch.may_be_stored:
            return False
        topic.max_batch_bytes = max(1, batch.size_bytes // 2)
        return True

    def _pause(self, topic: Topic, batch: Batch, error: PacketboatError, now_s: float) -> None:
        pause_s = self._random.uniform(0, min(MAX_S, FIRST_S * 2 ** min(topic.failures, 10)))
        pause_s += getattr(error, "retry_after_s", None) or 0.0
        batch.again_s = now_s + pause_s
        if batch.done:
            self._finish(topic, batch)

    def _fail(self, message: Pending, error: PacketboatError, broken: set[str]) -> None:
        """Fail a message for good; its key is added to `broken`, so that the messages
        behind it follow.
        """
        if not message.settled:
            self.ledger.settle(message, error)
        if message.key is not None:
            broken.add(message.key)

    def _fail_behind(self, topic: Topic, broken: set[str]) -> None:
        """Fail the waiting messages of keys that have failed."""
        self._pause_keys(topic, broken)
        for behind in topic.pop_keys(broken):
            self.ledger.settle(behind, preceded(behind))

    def _pause_keys(self, topic: Topic, broken: set[str]) -> None:
        if self._settings.on_key_failure == "pause":
            self._paused.update((topic.name, key) for key in broken)

    def _finish(self, topic: Topic, batch: Batch) -> None:
        """Nothing of it is out or waits."""
        del topic.batches[batch]
        topic.release(batch.shards)
        self._forget_if_idle(topic)

    def _forget_if_idle(self, topic: Topic) -> None:
        if topic.idle:
            self._topics.pop(topic.name, None)
