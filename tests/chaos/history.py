"""The requests and answers of callers: the one record of a run, which every checker judges.

A history is written as JSON lines (docs/decisions/testing.md). Its first line names the version of
the format; every other line is one of the records here, with its `kind`. Times are seconds of one
clock that never goes back. A request without an answer, or with one that leaves the outcome open,
is UNKNOWN, and may have taken effect at any time since it was sent.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

VERSION = 1
KEPT = Path(__file__).parents[2] / "build/histories"
"""Where the histories of failed runs are, and the pictures of what was refused."""


class Outcome(enum.Enum):
    """The outcome of a request, as its caller was told; UNKNOWN also when nothing was."""

    ACKED = "acked"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


class Record(msgspec.Struct, tag_field="kind"):
    """One line."""


class Publish(Record, tag="publish"):
    """One publish. `reason` says what a failed one was told; `id` is its idempotency key, if it has
    one, and `duplicate` says that the answer named a message that was there before. `abandoned`:
    its caller stopped waiting, or lost the connection, so that the request may still be on its way
    when the caller sends the next."""

    payload: str
    key: str | None
    sent_s: float
    answered_s: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN
    partition: int = -1
    offset: int = -1
    reason: str = ""
    topic: str = ""
    id: str = ""
    duplicate: bool = False
    abandoned: bool = False


class Read(Record, tag="read"):
    """A stretch of a partition: its payloads from the offset `first` on. `end` is where the
    partition ended at some moment of the read; −1: the answer did not say."""

    topic: str
    partition: int
    sent_s: float
    answered_s: float
    first: int
    payloads: list[str]
    end: int = -1


class Seal(Record, tag="seal"):
    """A partition that takes nothing any more; `end`: as the answer said."""

    topic: str
    partition: int
    sent_s: float
    answered_s: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN
    end: int = -1


class Subscription(Record, tag="subscription"):
    """The promises for the deliveries of a subscription."""

    name: str
    topic: str
    delivery: Literal["at_least_once", "exactly_once", "at_most_once"]
    ack_deadline_s: float


class Act(msgspec.Struct):
    """An act of a consumer on a delivery, or its finding.

    `found_acked` is the platform's word, asked for later, that the message is acked.
    """

    what: Literal["ack", "nack", "found_acked"]
    sent_s: float
    answered_s: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN


class Delivery(Record, tag="delivery"):
    """One message handed to a consumer by a pull that was sent at `pulled_s` and answered at
    `got_s`, under a lease of its own (`lease`: the ack id)."""

    subscription: str
    partition: int
    offset: int
    payload: str
    pulled_s: float
    got_s: float = 0.0
    message_id: str = ""
    lease: str = ""
    acts: list[Act] = []

    @property
    def acked_s(self) -> float:
        """Return when an ack of it was first accepted; 0: none was, as far as is known."""
        return min((act.answered_s for act in self._done("ack")), default=0.0)

    @property
    def found_acked(self) -> bool:
        """Whether it was asked for later, and is acked."""
        return any(self._done("found_acked"))

    def _done(self, what: str) -> Iterator[Act]:
        return (act for act in self.acts if (act.what, act.outcome) == (what, Outcome.ACKED))


class Lapse(Record, tag="lapse"):
    """A moment at which leases may have been lost with the process that held them."""

    at_s: float


class Drained(Record, tag="drained"):
    """From here on everything that the subscription's topic has is settled."""

    subscription: str
    at_s: float


class CounterTry(Record, tag="counter_try"):
    """One compare-and-set; every `new` is used once. `current` is what a refusal said."""

    expected: int
    new: int
    sent_s: float
    answered_s: float = 0.0
    outcome: Outcome = Outcome.UNKNOWN
    current: int | None = None
    counter: str = "counter"


class CounterRead(Record, tag="counter_read"):
    """A counter's value."""

    counter: str
    sent_s: float
    answered_s: float
    value: int


@dataclass(frozen=True, slots=True)
class Stored:
    """One message of the log, as it was read."""

    offset: int
    payload: str
    key: str | None
    log_time_us: int = 0


Logs = Mapping[int, Sequence[Stored]]
"""The messages of each partition, in the order read."""

AnyRecord = (
    Publish | Read | Seal | Subscription | Delivery | Lapse | Drained | CounterTry | CounterRead
)
Kind = TypeVar("Kind", bound=Record)


class _Head(msgspec.Struct, tag_field="kind", tag="history"):
    version: int
    name: str


class History:
    """The records of one run, in any order."""

    def __init__(self, name: str, records: Iterable[Record] = ()) -> None:
        self.name = name
        self.records = list(records)

    def add(self, *records: Record) -> None:
        self.records += records

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Return all records of one kind."""
        return [record for record in self.records if isinstance(record, kind)]

    def add_logs(self, topic: str, logs: Logs, sent_s: float, answered_s: float) -> None:
        """Add whole partitions, as they were read: one read for each run of offsets without
        a gap.
        """
        for partition, log in logs.items():
            reads: list[Read] = []
            for stored in log:
                if not reads or stored.offset != reads[-1].first + len(reads[-1].payloads):
                    reads.append(Read(topic, partition, sent_s, answered_s, stored.offset, []))
                reads[-1].payloads.append(stored.payload)
            reads = reads or [Read(topic, partition, sent_s, answered_s, 0, [])]
            reads[-1].end = reads[-1].first + len(reads[-1].payloads)
            self.add(*reads)

    def write(self, path: Path) -> None:
        """Write the history as a file of the format."""
        encoder = msgspec.json.Encoder()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.writelines(
                encoder.encode(record) + b"\n"
                for record in (_Head(VERSION, self.name), *self.records)
            )

    @classmethod
    def load(cls, path: Path) -> History:
        """Load a file that `write` wrote.

        Raises ValidationError for another version or an unknown record.
        """
        head, *lines = path.read_bytes().splitlines()
        found = msgspec.json.decode(head, type=_Head)
        if found.version != VERSION:
            raise msgspec.ValidationError(f"version {found.version}; {VERSION} is known")
        decoder = msgspec.json.Decoder(AnyRecord)
        return cls(found.name, (decoder.decode(line) for line in lines))

    @contextlib.contextmanager
    def kept(self) -> Iterator[Path]:
        """Judge it in the block: the file that it gives stays if the block fails."""
        names = (f"{self.name}-{os.getpid()}-{number}.jsonl" for number in itertools.count(1))
        path = next(path for name in names if not (path := KEPT / name).exists())
        self.write(path)
        try:
            yield path
        except BaseException as error:
            error.add_note(f"the history is kept: {path}")
            raise
        path.unlink()
