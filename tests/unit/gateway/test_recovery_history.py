"""The history of a topic, read from its queues. Each case shows the queues of a store, one a line:

2/0.0.1 [40,40) →3/0.0.2        group 2, partition 0, lane 0, generation 1, sealed: moved
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from gateway.recovery.history import (
    Found,
    Queues,
    Step,
    begun_with,
    first_offset,
    is_deleted,
    next_step,
)
from gateway.topics.placement import queue_of
from metadata.types import Partition, Retention, Topic, TopicState
from store_nodes.client import QueueInfo
from store_nodes.queue_id import QueueId

UID = bytes(range(16))
LINE = re.compile(r"(\d+)/(\d+)\.(\d+)\.(\d+) \[(\d+),(\d+)\)(?: (sealed|→.*))?")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MOVE, GROW = "move", "grow"


def queues(text: str) -> Queues:
    found = []
    for line in text.strip().splitlines():
        matched = LINE.fullmatch(line.strip())
        assert matched, line
        group, *name, first, end = map(int, matched.groups()[:6])
        queue = QueueId(UID, *name)
        successors = tuple(
            (int(where), QueueId(UID, *map(int, which.split("."))).pack())
            for where, which in re.findall(r"→(\d+)/([\d.]+)", matched[7] or "")
        )
        info = QueueInfo(queue.pack(), 0, first, end, bool(matched[7]), b"", successors)
        found.append(Found(group, queue, info))
    return Queues(found)


def topic(*open_ones: str, lanes: int = 1) -> Topic:
    """Return a topic whose open queues are given as `group/partition.lane.generation`."""
    parts = []
    for one in open_ones:
        group, name = one.split("/")
        number, lane, generation = map(int, name.split("."))
        parts.append(Partition(number, int(group), lane, generation))
    return Topic(
        bytes(16),
        UID,
        "orders",
        TopicState.ACTIVE,
        tuple(parts),
        Retention(),
        600,
        {},
        1,
        NOW,
        NOW,
        priorities=lanes,
    )


@pytest.mark.parametrize(
    ("open_ones", "found", "step"),
    [
        # Nothing happened.
        (("1/0.0.0", "2/1.0.0"), "1/0.0.0 [0,9)\n2/1.0.0 [0,9)", None),
        # A move, done or only begun.
        (
            ("1/0.0.0", "2/1.0.0"),
            "1/0.0.0 [0,9) →5/0.0.1\n5/0.0.1 [9,12)\n2/1.0.0 [0,9)",
            Step(MOVE, 0, (5,)),
        ),
        (("1/0.0.0", "2/1.0.0"), "1/0.0.0 [0,9) →5/0.0.1\n2/1.0.0 [0,9)", Step(MOVE, 0, (5,))),
        # A growth from 2 to 4: 0 → 0, 2 and 1 → 1, 3.
        (
            ("1/0.0.0", "2/1.0.0"),
            "1/0.0.0 [0,9) →1/0.0.1→3/2.0.0\n2/1.0.0 [0,9) →2/1.0.1→4/3.0.0",
            Step(GROW, None, (1, 2, 3, 4)),
        ),
        # Half of it: where partition 3 was to be, nobody knows any more.
        (
            ("1/0.0.0", "2/1.0.0"),
            "1/0.0.0 [0,9) →1/0.0.1→3/2.0.0\n2/1.0.0 [0,9)",
            Step(GROW, None, (1, 2, 3, 2)),
        ),
        # From 2 to 3, where every key may go anywhere.
        (
            ("1/0.0.0", "2/1.0.0"),
            "1/0.0.0 [0,9) →1/0.0.1→2/1.0.1→3/2.0.0\n2/1.0.0 [0,9) →1/0.0.1→2/1.0.1→3/2.0.0",
            Step(GROW, None, (1, 2, 3)),
        ),
        # Moved, then grown: the move first.
        (
            ("1/0.0.0", "2/1.0.0"),
            "1/0.0.0 [0,9) →5/0.0.1\n5/0.0.1 [9,9) →5/0.0.2→3/2.0.0\n"
            "2/1.0.0 [0,9) →2/1.0.1→4/3.0.0",
            Step(MOVE, 0, (5,)),
        ),
        # The queue that was left is removed: where it ended is the base of the next.
        (("1/0.0.0",), "5/0.0.1 [9,12)", Step(MOVE, 0, (5,))),
        (("1/0.0.0",), "6/0.0.3 [9,12)", Step(MOVE, 0, (6,))),
        # Grown, and all queues of before are removed.
        (
            ("1/0.0.0",),
            "1/0.0.1 [9,12)\n2/1.0.0 [0,3)\n3/2.0.0 [0,3)",
            Step(GROW, None, (1, 2, 3)),
        ),
        # Being deleted, or a queue that is lost: not for a placement to mend.
        (("1/0.0.0",), "1/0.0.0 [0,9) sealed", None),
        (("1/0.0.0", "2/1.0.0"), "1/0.0.0 [0,9)", None),
    ],
)
def test_the_next_placement(open_ones: tuple[str, ...], found: str, step: Step | None) -> None:
    assert next_step(topic(*open_ones), queues(found)) == step


def test_what_no_queue_tells_is_as_it_was_wished() -> None:
    found = queues("1/0.0.0 [0,9) →1/0.0.1→3/2.0.0\n2/1.0.0 [0,9)")
    step = next_step(topic("1/0.0.0", "2/1.0.0"), found, wished=(1, 2, 3, 7))
    assert step == Step(GROW, None, (1, 2, 3, 7))


def test_a_topic_is_deleted_only_if_the_store_remembers_that() -> None:
    both = topic("1/0.0.0", "2/1.0.0")
    names = [queue_of(UID, part).pack() for part in both.partitions]
    assert is_deleted(both, queues(""), names)
    assert is_deleted(both, queues("1/0.0.0 [0,9) sealed"), names[1:])
    assert not is_deleted(both, queues(""), [])
    assert not is_deleted(both, queues("1/0.0.0 [0,9)"), names)
    assert not is_deleted(both, queues("1/0.0.0 [0,9) →5/0.0.1"), names[1:])
    assert not is_deleted(both, queues("5/0.0.1 [9,9)"), names)


def test_where_a_lane_begins() -> None:
    chain = "1/0.0.0 [9,9) →5/0.0.1\n5/0.0.1 [12,20) →6/0.0.2\n6/0.0.2 [20,20)"
    assert first_offset(queues(chain).chain(0, 0)) == 12
    assert first_offset(queues("1/0.0.0 [20,20)").chain(0, 0)) == 20


@pytest.mark.parametrize(
    ("found", "first"),
    [
        ("1/0.0.0 [0,9)\n2/1.0.0 [0,9)", ["1/0.0.0", "2/1.0.0"]),
        (
            "1/0.0.0 [0,9) →1/0.0.1→3/1.0.0\n1/0.0.1 [9,9)\n3/1.0.0 [0,9)",
            ["1/0.0.0"],
        ),
        ("1/0.0.1 [9,12)\n3/1.0.0 [0,9)", ["1/0.0.1", "3/1.0.0"]),
        ("1/0.0.0 [0,9)\n1/0.1.0 [0,9)", ["1/0.0.0", "1/0.1.0"]),
        (
            "1/0.0.0 [0,9) →5/0.0.1\n5/0.0.1 [9,9)",
            ["1/0.0.0"],
        ),
    ],
)
def test_what_a_topic_began_with(found: str, first: list[str]) -> None:
    named = [
        f"{one.group}/{one.queue.partition}.{one.queue.lane}.{one.queue.generation}"
        for one in begun_with(queues(found))
    ]
    assert named == first
