"""`client.read`: the lake below the log's first offset, the log from there on, nothing twice."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from packetboat import AsyncClient, Client
from packetboat.errors import NotFound
from packetboat.lake import HistoryMissing, LakeNotInstalled, ReadCursor, ReadMessage

from tests.unit.sdk.history_server import AsyncHistory, History, Log
from tests.unit.sdk.lake_support import RESCUED, TOPIC, Lake, published, row

NUMBER = pa.field("n", pa.int64())


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    lake = Lake(tmp_path)
    yield lake
    lake.close()


@pytest.fixture
def history(lake: Lake) -> History:
    """Return ten messages in the table, of which the log still has the last four, and five more."""
    history = History(table=lake.table("t", RESCUED, NUMBER))
    history.publish(10)
    history.run()
    history.truncate(6)
    history.publish(5)
    return history


def client(history: History) -> Client:
    return Client(transport=history)


def offsets(messages: Iterator[ReadMessage] | list[ReadMessage]) -> list[int]:
    return [message.offset for message in messages]


def test_one_iterator_spans_lake_and_log(history: History) -> None:
    found = list(client(history).read(TOPIC))
    assert offsets(found) == list(range(15))
    assert [each.source for each in found] == ["lake"] * 6 + ["log"] * 9


async def test_for_asyncio_too(history: History) -> None:
    async with AsyncClient(transport=AsyncHistory(history)) as client:
        assert [each.offset async for each in client.read(TOPIC)] == list(range(15))


def test_a_message_is_the_same_wherever_it_is_read(history: History) -> None:
    (of_log,) = client(history).read(TOPIC, from_offset=14)
    history.run()
    history.truncate(15)
    (of_lake,) = client(history).read(TOPIC, from_offset=14)
    assert (of_log.source, of_lake.source) == ("log", "lake")
    for name in ReadMessage.__struct_fields__:
        if name not in ("source", "data", "columns"):
            assert getattr(of_log, name) == getattr(of_lake, name), name
    assert of_log.json() == of_lake.json() == {"n": 14}
    assert (of_log.data, of_log.columns) == (b'{"n": 14}', None)
    assert (of_lake.data, of_lake.columns) == (None, {"n": 14})


def test_what_the_log_has_is_read_without_a_look_at_exports(history: History) -> None:
    assert offsets(client(history).read(TOPIC, from_offset=6)) == list(range(6, 15))
    assert not [each for each in history.requests if "exports" in each]


@pytest.mark.parametrize("first", [0, 3, 6, 7, 14, 15, 20])
def test_from_an_offset(history: History, first: int) -> None:
    assert offsets(client(history).read(TOPIC, from_offset=first)) == list(range(first, 15))


@pytest.mark.parametrize("first", [0, 3, 5, 6, 7, 14, 15])
def test_from_a_time(history: History, first: int) -> None:
    """Messages are a second apart; half a second before one, it is the first."""
    since = published(first) - timedelta(seconds=0.5)
    assert offsets(client(history).read(TOPIC, from_time=since)) == list(range(first, 15))


@pytest.mark.parametrize("end", [0, 3, 6, 7, 14, 15])
def test_to_a_time(history: History, end: int) -> None:
    assert offsets(client(history).read(TOPIC, to_time=published(end))) == list(range(end))


def test_it_ends_where_the_log_ended_at_the_beginning(history: History) -> None:
    reading = client(history).read(TOPIC)
    found = [next(reading)]
    history.publish(100)
    assert offsets([*found, *reading]) == list(range(15))


def test_partitions_and_lanes_are_read_each_in_its_order(lake: Lake) -> None:
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    history = History(
        lanes={place: Log() for place in places}, table=lake.table("t", NUMBER), priorities=2
    )
    for number, place in enumerate(places):
        history.publish(10 + number, place)
        history.run(place)
        history.truncate(2 * number, place)
    found = list(client(history).read(TOPIC))
    for number, place in enumerate(places):
        mine = [each for each in found if (each.partition, each.lane) == place]
        assert offsets(mine) == list(range(10 + number))
    asked = client(history).read(TOPIC, partitions=[1], from_offset={"1": 5, "1/1": 12})
    assert [(each.lane, each.offset) for each in asked] == [
        *((0, at) for at in range(5, 9)),
        (1, 12),
        *((0, at) for at in range(9, 12)),
    ]


# The seam moves.


def test_truncation_meanwhile_sends_it_back_to_the_lake(history: History) -> None:
    reading = client(history).read(TOPIC)
    found = [next(reading) for _ in range(8)]
    history.run()
    history.truncate(14)
    assert offsets([*found, *reading]) == list(range(15))


def test_a_table_that_was_tidied_is_looked_at_anew(history: History) -> None:
    """The files that were planned are gone: another snapshot has the rows."""
    reading = client(history).read(TOPIC, from_offset=0)
    history.table = _with_lost_files(history)
    assert offsets(reading) == list(range(15))


def _with_lost_files(history: History) -> Any:
    table = history.table
    assert table is not None
    old = table.state
    table.table.overwrite(table.table.scan().to_arrow())
    asked = []

    def before(path: str) -> None:
        """The first look is at the snapshot before; its files go with that look."""
        if path.startswith("/exports/"):
            asked.append(path)
            history.export = {"table_state": old} if len(asked) == 1 else {}
            if len(asked) == 1:
                metadata = Path(old["metadata_location"].removeprefix("file://"))
                metadata.rename(metadata.with_suffix(".gone"))

    history.before = before
    return table


def test_what_neither_has_is_named(history: History) -> None:
    history.truncate(13)
    reading = client(history).read(TOPIC)
    assert offsets([next(reading) for _ in range(10)]) == list(range(10))
    with pytest.raises(HistoryMissing, match="10 to 12") as caught:
        next(reading)
    missing = caught.value
    assert (missing.topic, missing.partition, missing.lane) == (TOPIC, 0, 0)
    assert (missing.start, missing.end) == (10, 13)
    again = client(history).read(TOPIC, cursor=reading.cursor.past(missing))
    assert offsets(again) == [13, 14]


def test_a_table_with_a_hole_says_so(history: History) -> None:
    assert history.table is not None
    history.table.table.delete("offset = 3 OR offset = 4")
    reading = client(history).read(TOPIC)
    assert offsets([next(reading) for _ in range(3)]) == [0, 1, 2]
    with pytest.raises(HistoryMissing, match="3 to 4"):
        next(reading)


def test_what_was_never_exported_begins_where_anything_is(lake: Lake) -> None:
    history = History(lanes={(0, 0): Log(5, 8)})
    assert offsets(client(history).read(TOPIC)) == [5, 6, 7]
    with pytest.raises(HistoryMissing, match="0 to 4"):
        list(client(history).read(TOPIC, from_offset=0))


def test_a_moment_before_all_that_is_kept_is_refused(lake: Lake) -> None:
    """Messages before the first one that is kept may have been published after that moment."""
    history = History(lanes={(0, 0): Log(5, 8)}, table=lake.table("t", NUMBER))
    history.run()
    history.truncate(7)
    assert offsets(client(history).read(TOPIC, from_time=published(6))) == [6, 7]
    for moment in (published(0), published(5)):
        with pytest.raises(HistoryMissing, match="0 to 4"):
            list(client(history).read(TOPIC, from_time=moment))


@pytest.mark.parametrize(
    "more",
    [
        {"filter": "true"},
        {"format": "parquet"},
        {"table_state": None},
    ],
    ids=lambda more: next(iter(more)),
)
def test_exports_without_all_messages_are_not_read(history: History, more: dict[str, Any]) -> None:
    history.export = more
    with pytest.raises(HistoryMissing, match="0 to 5"):
        list(client(history).read(TOPIC, from_offset=0))


def test_an_export_that_is_gone_meanwhile_is_not_read(history: History) -> None:
    def before(path: str) -> None:
        if path == "/exports/e":
            history.table = None

    history.before = before
    with pytest.raises(HistoryMissing, match="0 to 5"):
        list(client(history).read(TOPIC, from_offset=0))


def test_rejects_are_in_their_places(history: History, lake: Lake) -> None:
    assert history.table is not None
    history.table.table.delete("offset = 3")
    history.rejects = lake.table("t_rejects", pa.field("reason", pa.string()))
    history.rejects.append([row(3, data=b"{no json", reason="invalid-json")])
    found = list(client(history).read(TOPIC))
    assert offsets(found) == list(range(15))
    assert found[3].data == b"{no json"


@pytest.mark.parametrize("joined", [False, True], ids=["files", "joined"])
def test_rows_of_a_deleted_namesake_are_not_read(lake: Lake, joined: bool) -> None:
    """Whichever of two rows with one offset comes first."""
    table = lake.table("t", NUMBER)
    old = [row(at, n=-1, publish_time=published(at - 1000)) for at in range(9)]
    table.append(old, uid="0" * 32)
    history = History(table=table)
    history.publish(5)
    history.run()
    history.truncate(4)
    if joined:
        table.table.overwrite(table.table.scan().to_arrow().sort_by("publish_time"))
    assert [each.json()["n"] for each in client(history).read(TOPIC)] == [0, 1, 2, 3, 4]
    history.publish(3)
    history.truncate(7)
    with pytest.raises(HistoryMissing, match="5 to 6"):
        list(client(history).read(TOPIC))


# Cursors.


def test_a_cursor_goes_on_where_it_was(history: History) -> None:
    for taken in range(1, 15):
        reading = client(history).read(TOPIC)
        found = [next(reading) for _ in range(taken)]
        text = str(reading.cursor)
        found += client(history).read(TOPIC, cursor=text)
        assert offsets(found) == list(range(15))
        assert ReadCursor.parse(text) == reading.cursor


def test_a_cursor_is_of_one_topic(history: History) -> None:
    reading = client(history).read(TOPIC)
    with pytest.raises(RuntimeError):
        _ = reading.cursor
    next(reading)
    with pytest.raises(ValueError, match="of the topic orders"):
        client(history).read("other", cursor=reading.cursor)
    old = ReadCursor(TOPIC, published(0), {"0": 3})
    with pytest.raises(ValueError, match="deleted since"):
        next(client(history).read(TOPIC, cursor=old))
    with pytest.raises(ValueError, match="truncated"):
        client(history).read(TOPIC, cursor="{")


@pytest.mark.parametrize(
    "more",
    [
        {"from_time": published(0), "from_offset": 1},
        {"from_time": published(0).replace(tzinfo=None)},
        {"follow": True, "to_time": published(0)},
    ],
    ids=["two-begins", "no-zone", "an-end-to-follow"],
)
def test_what_goes_against_each_other_is_refused(history: History, more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"zone|one of them|no end"):
        client(history).read(TOPIC, **more)


def test_a_topic_that_is_not_there(history: History) -> None:
    def gone(path: str) -> None:
        raise NotFound(_problem())

    history.before = gone
    with pytest.raises(NotFound):
        next(client(history).read(TOPIC))


def _problem() -> Any:
    from packetboat import Problem

    return Problem(status=404)


# Messages that come later.


def test_following_it_waits_for_what_comes(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packetboat.sync.resources.history.pause", lambda _: history.publish(2))
    history.lanes[1, 0] = Log()
    reading = client(history).read(TOPIC, follow=True)
    found = [next(reading) for _ in range(30)]
    assert offsets([each for each in found if each.partition == 0]) == list(range(30))


def test_following_it_meets_partitions_that_are_new(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("packetboat.sync.resources.history.pause", lambda _: None)
    monkeypatch.setattr("packetboat.sync.resources.history.GROWTH_S", -1.0)
    reading = client(history).read(TOPIC, follow=True, from_offset=14)
    assert next(reading).offset == 14
    history.lanes[1, 0] = Log(0, 2)
    found = [next(reading), next(reading)]
    assert [(each.partition, each.offset) for each in found] == [(1, 0), (1, 1)]


# All at once.


@pytest.mark.parametrize("seed", range(8))
def test_whatever_moves_each_offset_comes_once(lake: Lake, seed: int) -> None:
    chance = random.Random(seed)
    history = History(table=lake.table(f"t{seed}", NUMBER), page=chance.randint(1, 9))
    history.publish(chance.randint(1, 30))
    log = history.lanes[0, 0]

    def move(_: str) -> None:
        """Change the history between any two requests; truncate only exported messages."""
        step = chance.random()
        if step < 0.3:
            history.publish(chance.randint(1, 9))
        elif step < 0.5:
            history.run()
        elif step < 0.7 and log.exported:
            history.truncate(chance.randint(0, log.exported))

    history.before = move
    found: list[ReadMessage] = []
    cursor: ReadCursor | None = None
    while len(found) < 40:
        reading = client(history).read(TOPIC, cursor=cursor)
        for message in reading:
            found.append(message)
            if chance.random() < 0.1:
                break
        cursor = reading.cursor
    assert offsets(found) == list(range(len(found))), f"seed {seed}"
    assert {each.source for each in found} <= {"lake", "log"}


def test_without_the_extra_it_is_said_what_to_install(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "packetboat.lake.tables", None)
    with pytest.raises(LakeNotInstalled, match=r"pip install './sdk/python\[lake\]'"):
        list(client(history).read(TOPIC))


def test_what_the_log_has_needs_no_extra() -> None:
    program = "import sys\nimport packetboat, packetboat.lake\nfrom packetboat import Client\n" + (
        "import packetboat.sync.resources.history\nprint('pyarrow' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "False\n", ran.stderr
