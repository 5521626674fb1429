"""Reading with `spark.readStream`: what there is, and then what comes.

The offsets that Spark keeps in a checkpoint are the next ones of each lane, by topic:
`{"orders": {"0": 17, "1": 4, "1/2": 9}}`, partition or partition/lane. Spark compares them as text,
so their order is always the same.

- A lane that the checkpoint does not have is new: it is read from its first offset on.
- The ends of Trigger.AvailableNow are those of the moment it began. Topics that grow meanwhile
  belong to the next run.
- A batch is planned anew from its two offsets after a crash, and has the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from packetboat.spark.errors import InvalidOption, ReadFailed
from packetboat.spark.planning import Planner, sender_of
from packetboat.spark.ranges import Lane, Split, cut
from packetboat.spark.task import Task

if TYPE_CHECKING:
    import pyarrow as pa

Position = dict[Lane, int]


class StreamReader(DataSourceStreamReader):
    """The part of a stream reader that all versions of Spark use; they differ in how they
    ask for the latest offset.
    """

    def __init__(self, task: Task, parallelism: int | None) -> None:
        self._task = task
        self._parallelism = parallelism
        if task.options.splits is not None:
            raise InvalidOption("ranges are read with spark.read")
        if task.options.end != "latest":
            raise InvalidOption("to_offset and to_time are for spark.read: a stream has no end")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the place where a query without a checkpoint begins."""
        with sender_of(self._task.options) as sender:
            planner = Planner(sender, self._task.options)
            start = planner.offsets(self._task.options.start, planner.bounds(), "earliest")
        return as_offset(start)

    def ends(self) -> Position:
        """One past the last offset of each lane there is now."""
        with sender_of(self._task.options) as sender:
            bounds = Planner(sender, self._task.options).bounds()
        return {lane: each.end for lane, each in bounds.items()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the splits between two offsets.

        Raises ReadFailed where the second is before the first.
        """
        before, after = position(start), position(end)
        refuse_backwards(before, after)
        splits = [
            Split(lane, before.get(lane, 0), offset, from_first=lane not in before)
            for lane, offset in after.items()
        ]
        return cut(splits, self._task.options.rows_per_split, self._parallelism)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split in a worker."""
        if isinstance(partition, Split):
            yield from self._task.read(partition)


class UnlimitedStreamReader(StreamReader):
    """For Spark 4.0 and 4.1, where a batch has all there is, and so has a run of AvailableNow."""

    def __init__(self, task: Task, parallelism: int | None) -> None:
        super().__init__(task, parallelism)
        if task.options.max_rows_per_batch is not None:
            raise InvalidOption(
                "max_rows_per_batch needs Spark 4.2 or later. Without it a batch has all there is"
            )

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """All there is. Later versions ask in another way."""
        return as_offset(self.ends())


def as_offset(offsets: Mapping[Lane, int]) -> dict[str, Any]:
    """Return offsets in the form that Spark keeps."""
    found: dict[str, Any] = {}
    for lane, offset in sorted(offsets.items()):
        number = f"{lane.partition}/{lane.lane}" if lane.lane else str(lane.partition)
        found.setdefault(lane.topic, {})[number] = offset
    return found


def position(offset: Mapping[str, Mapping[str, int]]) -> Position:
    """Return the position from the form that Spark kept."""
    found = {}
    for topic, numbers in offset.items():
        for number, next_offset in numbers.items():
            partition, _, lane = number.partition("/")
            found[Lane(topic, int(partition), int(lane or 0))] = next_offset
    return found


def refuse_backwards(start: Position, end: Position) -> None:
    """Raises ReadFailed where a lane ends before it was read to: it is another topic's."""
    for lane, offset in end.items():
        if start.get(lane, 0) > offset:
            raise ReadFailed(
                f"{lane} ends at offset {offset}, and this query has read it up to {start[lane]}: "
                "the topic was made again. Begin anew, with another checkpoint"
            )


def advanced(start: Position, ends: Position, max_rows: int | None) -> Position:
    """Return a position from `start` towards `ends`, by at most `max_rows` in all, shared
    in proportion to the messages of each lane. If the rows are fewer than the lanes, the
    fullest lanes come first.
    """
    backlogs = {lane: end - start.get(lane, 0) for lane, end in ends.items()}
    total = sum(backlogs.values())
    if max_rows is None or total <= max_rows:
        return start | ends
    shares = {lane: max_rows * backlog // total for lane, backlog in backlogs.items()}
    nearest = sorted(backlogs, key=lambda lane: max_rows * backlogs[lane] % total, reverse=True)
    for lane in nearest[: max_rows - sum(shares.values())]:
        shares[lane] += 1
    return start | {lane: start.get(lane, 0) + share for lane, share in shares.items()}
