"""The errors of calls to the store.

    StoreError
    ├── NotDone               the command did not take effect and never will
    │   ├── NotLeader         this node does not lead the group
    │   ├── Unavailable       no leader, no majority, or the node is starting, damaged or stopping
    │   ├── Overloaded        a bounded queue was full; nothing was accepted
    │   ├── DiskFull          the node has less free space than its disk reserve
    │   ├── TooLarge          the command is over a limit of the format
    │   ├── DeadlinePassed    the log refused the append: its deadline in log time was over
    │   ├── SequenceGap       an append's sequence is not the next of its session
    │   ├── QueueNotFound     never created, or deleted
    │   ├── QueueExists       created before with another base or meta
    │   ├── QueueSealed       the queue moved, grew or was deleted; carries offset and successors
    │   ├── QueueTruncated    the offset is below the queue's first; carries the first offset
    │   ├── DedupKnown        the batch holds known ids; carries index → first offset
    │   ├── NotSupported      the request belongs to a later version of this node
    │   ├── Conflict          a counter or a membership is not at the version named; carries it
    │   └── NotAllowed        a membership or placement rule forbids it; the text says which
    └── OutcomeUnknown        the command may or may not take effect

A code is one byte on the wire and never changes its meaning.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple


class StoreError(Exception):
    """The base of all errors of store calls."""

    code: ClassVar[int] = 0


class NotDone(StoreError):
    """The command did not take effect and never will."""

    code = 1


class NotLeader(NotDone):
    """This node does not lead the group; `hint` is the node id that may, or None."""

    code = 2

    def __init__(self, hint: int | None = None) -> None:
        super().__init__(f"not the leader (try node {hint})" if hint else "not the leader")
        self.hint = hint


class Unavailable(NotDone):
    """No leader or no majority answered in time, or the node cannot serve; the text says which."""

    code = 3


class Overloaded(NotDone):
    """A bounded queue was full; nothing was accepted."""

    code = 4


class DiskFull(NotDone):
    """The node has less free space than its disk reserve, and refuses appends."""

    code = 5


class TooLarge(NotDone):
    """The command is over a limit of the format."""

    code = 6


class DeadlinePassed(NotDone):
    """The log refused the append: its deadline, in log time, was over when it was applied."""

    code = 7


class SequenceGap(NotDone):
    """The sequence is not the next of its session; `expected` is (1 if the session is unknown)."""

    code = 8

    def __init__(self, expected: int) -> None:
        super().__init__(f"sequence gap: expected {expected}")
        self.expected = expected


class QueueNotFound(NotDone):
    """The queue was never created, or is deleted."""

    code = 9


class QueueExists(NotDone):
    """The queue was created before with another base or meta."""

    code = 10


class QueueSealed(NotDone):
    """The queue takes no more appends; `offset` is its end, `successors` are (group, queue id)."""

    code = 11

    def __init__(self, offset: int, successors: tuple[tuple[int, bytes], ...] = ()) -> None:
        super().__init__(f"queue sealed at {offset}")
        self.offset = offset
        self.successors = successors


class QueueTruncated(NotDone):
    """The offset is below the first one kept, which is `first_offset`."""

    code = 12

    def __init__(self, first_offset: int) -> None:
        super().__init__(f"queue truncated below {first_offset}")
        self.first_offset = first_offset


class Known(NamedTuple):
    """The place of a message with a known id.

    `position` is an offset of `queue`, or (`staged`) a stage number of it. `same_body` is False
    when the id came with another body. `log_time_us` is 0 if the message is truncated.
    """

    position: int
    staged: bool
    same_body: bool
    queue: bytes
    log_time_us: int = 0


class DedupKnown(NotDone):
    """The batch holds ids seen before: `known` maps index in the batch → the first message."""

    code = 13

    def __init__(self, known: dict[int, Known]) -> None:
        super().__init__(f"{len(known)} known ids")
        self.known = known


class NotSupported(NotDone):
    """The request, or an option of it, is not of this version of the node."""

    code = 14


class Conflict(NotDone):
    """A counter or a membership is not what the command expected; `current` is what it is."""

    code = 16

    def __init__(self, current: int) -> None:
        super().__init__(f"conflict: it is at {current}")
        self.current = current


class NotAllowed(NotDone):
    """A rule of membership or placement forbids it; the text says which."""

    code = 17


class OutcomeUnknown(StoreError):
    """The command may or may not take effect; repeating it on the same session is safe."""

    code = 15
