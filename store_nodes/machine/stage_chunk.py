"""A run of staged batches in packed arrays: 24 bytes a message, without an object for each."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from store_nodes.machine.packed import pack_u64, unpack_u64

CHUNK_MESSAGES = 1024
"""Messages at which a chunk takes no further batch."""

STAGED = 2**64 - 1
"""The place of a message that is neither released nor discarded."""
DISCARDED = 2**64 - 2
TRUNCATED = 2**64 - 3
HELD = 2**64 - 1
"""The due time of a message that is released by its number only."""


class PackedChunk(NamedTuple):
    """A chunk in a snapshot; its arrays are little-endian u64."""

    numbers: bytes
    places: bytes
    dues: bytes
    bases: bytes
    counts: bytes
    times: bytes
    tags: list[bytes]


class Chunk:
    """Messages by ascending stage number, and the batches they came in.

    `places` has an offset, STAGED, DISCARDED or TRUNCATED for each message. An offset may be
    truncated although the place does not say so yet (Stages knows). Here DISCARDED and TRUNCATED
    messages count as removed: they may be dropped, and a batch with no message left goes with them.
    """

    __slots__ = (
        "bases",
        "counts",
        "dues",
        "numbers",
        "places",
        "removed",
        "staged",
        "tags",
        "times",
    )

    def __init__(self) -> None:
        self.numbers = array("Q")
        self.places = array("Q")
        self.dues = array("Q")
        self.bases = array("Q")
        self.counts = array("Q")
        self.times = array("Q")
        self.tags: list[bytes] = []
        self.staged = 0
        self.removed = 0

    def __len__(self) -> int:
        return len(self.numbers)

    def add(
        self, base: int, count: int, dues: tuple[int, ...] | None, log_time_us: int, tag: bytes
    ) -> None:
        """Add a batch; without `dues` its messages are held until they are released by number."""
        assert not self.numbers or self.numbers[-1] < base, (
            f"stage number {base} after {self.numbers[-1]}"
        )
        assert dues is None or len(dues) == count, f"{len(dues or ())} times of {count} messages"
        self.numbers.extend(range(base, base + count))
        self.places.extend(array("Q", (STAGED,)) * count)
        self.dues.extend(array("Q", (HELD,)) * count if dues is None else dues)
        self.bases.append(base)
        self.counts.append(count)
        self.times.append(log_time_us)
        self.tags.append(tag)
        self.staged += count

    def index(self, number: int) -> int | None:
        """Return the index of a message in the arrays; None if it was dropped or never added."""
        at = bisect_left(self.numbers, number)
        return at if at < len(self.numbers) and self.numbers[at] == number else None

    def batch(self, number: int) -> int:
        """Return the index of a message's batch."""
        return bisect_right(self.bases, number) - 1

    def remove(self, at: int, place: int) -> None:
        """Remove the message at `at`, which was staged or released."""
        assert place in (DISCARDED, TRUNCATED), f"{place} is no place of a removed message"
        assert self.places[at] < TRUNCATED or self.places[at] == STAGED, "removed twice"
        self.staged -= self.places[at] == STAGED
        self.places[at] = place
        self.removed += 1

    def drop_removed(self) -> list[int]:
        """Drop the removed messages; return the discarded numbers among them.

        It takes time in O(messages).
        """
        gone = [n for n, place in zip(self.numbers, self.places, strict=True) if place == DISCARDED]
        keep = [at for at, place in enumerate(self.places) if place not in (DISCARDED, TRUNCATED)]
        self.numbers = array("Q", [self.numbers[at] for at in keep])
        self.places = array("Q", [self.places[at] for at in keep])
        self.dues = array("Q", [self.dues[at] for at in keep])
        self.removed = 0
        batches = sorted({self.batch(number) for number in self.numbers})
        self.bases = array("Q", [self.bases[at] for at in batches])
        self.counts = array("Q", [self.counts[at] for at in batches])
        self.times = array("Q", [self.times[at] for at in batches])
        self.tags = [self.tags[at] for at in batches]
        return gone

    def take(self, later: Chunk) -> None:
        """Take over the messages of the chunk that follows this one."""
        for name in ("numbers", "places", "dues", "bases", "counts", "times", "tags"):
            getattr(self, name).extend(getattr(later, name))
        self.staged += later.staged
        self.removed += later.removed

    def pack(self) -> PackedChunk:
        return PackedChunk(
            pack_u64(self.numbers),
            pack_u64(self.places),
            pack_u64(self.dues),
            pack_u64(self.bases),
            pack_u64(self.counts),
            pack_u64(self.times),
            self.tags,
        )

    @classmethod
    def unpack(cls, packed: PackedChunk) -> Chunk:
        """Return the chunk of a snapshot; raises ValueError."""
        chunk = cls()
        chunk.numbers, chunk.places, chunk.dues = map(unpack_u64, packed[:3])
        chunk.bases, chunk.counts, chunk.times = map(unpack_u64, packed[3:6])
        chunk.tags = list(packed.tags)
        lengths = {len(chunk.numbers), len(chunk.places), len(chunk.dues)}
        rows = {len(chunk.bases), len(chunk.counts), len(chunk.times), len(chunk.tags)}
        if len(lengths) != 1 or len(rows) != 1 or not chunk.numbers or not chunk.bases:
            raise ValueError("the columns of a stage chunk do not match")
        if chunk.batch(chunk.numbers[0]) < 0:
            raise ValueError("a staged message is of no batch")
        chunk.staged = chunk.places.count(STAGED)
        chunk.removed = chunk.places.count(DISCARDED) + chunk.places.count(TRUNCATED)
        return chunk
