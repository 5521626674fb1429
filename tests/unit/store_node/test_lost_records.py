"""A damaged node tells peers nothing that it can't know any more."""

from __future__ import annotations

from pathlib import Path

from store_nodes.commands import CompareAndSet, encode, encode_value
from store_nodes.node.start import load
from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.recovery import Damage
from tests.unit.store_node.node_support import settings_of

MINE = encode_value([encode(CompareAndSet("mine", 0, 1))], 7)
CHOSEN = encode_value([encode(CompareAndSet("chosen", 0, 1))], 8)


def fill(wal: WriteAheadLog, first: int) -> int:
    """Accept values until the segment is full; return the next instance."""
    segment = wal.tail.segment
    filler = encode_value([encode(CompareAndSet("f" * 60_000, 0, 1))], 9)
    while wal.tail.segment == segment:
        wal.write([Record(FrameKind.ACCEPT, 0, first, 1 << 16, filler)])
        wal.sync()
        first += 1
    return first


def test_an_earlier_value_of_an_instance_is_forgotten_with_the_segment_of_the_later_one(
    tmp_path: Path,
) -> None:
    """When the record of a learned value was lost, a node told peers that an earlier value, which
    it had accepted, had been chosen.
    """
    wal = load(settings_of(tmp_path)).wal
    early = wal.tail.segment
    wal.write([Record(FrameKind.ACCEPT, 0, 0, 1 << 16, MINE)])
    following = fill(wal, 1)
    late = wal.tail.segment
    wal.write([Record(FrameKind.LEARN, 0, 0, 0, CHOSEN)])
    fill(wal, following)
    wal.close()

    started = load(settings_of(tmp_path))
    instances = started.found[0].instances
    places = [instances.get(0), instances.get(1), instances.get(following)]
    started.wal.damages.add(Damage(late, 0, 0, "footer"))
    started.wal.close()
    assert [place and place.segment for place in places] == [late, early, late]

    started = load(settings_of(tmp_path))
    instances = started.found[0].instances
    places = [instances.get(instance) for instance in range(following + 1)]
    started.wal.close()
    assert places == [None] * len(places)
