"""The rules of the simulation's own actors, each broken once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import Mock

import pytest
from packetboat.models.export_runs import LaneKey, LaneRange
from pyiceberg.exceptions import CommitFailedException

from spark_exports.lake.commit import Commit
from spark_exports.lake.errors import CatalogUnavailable
from spark_exports.lake.written import WrittenFile
from tests.chaos.delivery.actor import Message, Site
from tests.chaos.delivery.caller import Caller, Reply
from tests.chaos.sometimes import Sometimes
from tests.simulation.delivery import acked, exported, locked
from tests.simulation.delivery import lake as lakes
from tests.simulation.delivery.acked import Acked
from tests.simulation.delivery.exported import Exported
from tests.simulation.delivery.faults import Faults
from tests.simulation.delivery.forgetting import Forgetting, Forgotten
from tests.simulation.delivery.installation import SERVERS, Snapshot
from tests.simulation.delivery.lake import Lake, Row
from tests.simulation.delivery.locked import Locked, _Holding
from tests.simulation.delivery.options import draw
from tests.simulation.delivery.postgres_world import FIRST_PLACE

SITE = Site(1, "token")
END_S = 1e9
Span = tuple[int, float, float, float]
"""Token, asked for, answered, certain until."""


class Told(Acked):
    """Every ack is answered at once, and accepted."""

    async def ack(self, caller: Caller, messages: Sequence[Message]) -> list[bool] | None:
        return [True] * len(messages)


class Granting(Caller):
    """Each acquire gets a lock at the end of time, except of the lock that is `refused`."""

    def __init__(self, refused: str = "") -> None:
        super().__init__(*SITE)
        self._refused = refused
        self._tokens = itertools.count(1000)

    async def call(self, method: str, path: str, body: object = None, *, accept: str = "") -> Reply:
        if path == f"/locks/{self._refused}:acquire":
            return Reply(503, {}, 0.0)
        token = next(self._tokens)
        granted = {"lock_id": f"last {token}", "fencing_token": token}
        return Reply(200, granted, END_S, END_S)


def made(kind: type[Forgetting], forgotten: Sequence[Forgotten] = ()) -> Forgetting:
    actor = kind(SITE, random.Random(1), Sometimes((*acked.SITUATIONS, *locked.SITUATIONS)))
    actor.forgotten = forgotten
    return actor


def message(payload: str, message_id: str, pulled_s: float) -> Message:
    return Message("ack", message_id, payload, None, 1, pulled_s, pulled_s)


@pytest.fixture
def at_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list whose only item is what the clock reads."""
    now_s = [0.0]
    monkeypatch.setattr(acked.time, "monotonic", lambda: now_s[0])
    return now_s


@pytest.mark.parametrize(
    ("forgotten", "breaks"),
    [
        ((), True),
        ((Forgotten(0.5, 2.0),), False),
        ((Forgotten(1.0, 2.0),), False),  # asked for in the moment of the snapshot
        ((Forgotten(1.5, 2.0),), True),
        ((Forgotten(0.2, 0.9),), True),
    ],
)
async def test_an_ack_is_for_good_but_where_postgres_forgot_it(
    forgotten: Sequence[Forgotten], breaks: bool, at_s: list[float]
) -> None:
    actor = made(Told, forgotten)
    actor.published["one"] = 201
    caller = actor.caller()
    at_s[0] = 1.0
    await actor.handle(caller, [message("one", "m1", 0.5)])
    assert actor.done()
    at_s[0] = 3.0
    await actor.handle(caller, [message("one", "m1", 2.5)])
    assert bool(actor.broken) is breaks
    assert actor.done()


async def test_an_id_is_of_one_message(at_s: list[float]) -> None:
    actor = made(Told)
    await actor.handle(actor.caller(), [message("one", "m1", 0), message("two", "m1", 0)])
    assert "m1" in actor.broken[0]


LOG = [Row(0, offset, f"m{offset}") for offset in range(3)]


@pytest.mark.parametrize(
    ("files", "broken"),
    [
        ([LOG[:2], LOG[2:]], ""),
        ([LOG[:2], LOG[1:]], "1 messages are in the table more than once"),
        ([LOG[:2]], "1 messages are not in the table"),
        ([LOG, [Row(1, 7, "other")]], "1 messages are in no log"),
        ([LOG[:2], [Row(0, 2, "other")]], "1 messages are not in the table"),
    ],
)
def test_a_table_has_each_message_of_the_log_once(
    files: Sequence[Sequence[Row]], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    actor = Exported(SITE, random.Random(1), Sometimes(exported.SITUATIONS))
    monkeypatch.setattr(actor._lake, "rows", lambda: [row for file in files for row in file])
    actor._judge(LOG)
    assert broken in str(actor.broken)
    assert bool(actor.broken) is bool(broken)


def test_a_commit_is_done_or_not_whatever_is_heard_of_it() -> None:
    """The catalog refuses a commit that was not made for the table as it is."""
    lake = Lake(random.Random(1))
    with lakes.installed():
        tables = [lake.open() for _ in range(2)]
        for number, table in enumerate(tables, 1):
            lake.files[f"file-{number}"] = (LOG[number],)
            ranges = [LaneRange(LaneKey("t", "u", 0, 0), 0, 1)]
            wanted = Commit(1, number, ranges, [WrittenFile(f"file-{number}", (), 0, 1, 1)])
            for _ in range(100):
                with contextlib.suppress(CatalogUnavailable):
                    committed = table.commit(wanted)
                    break
            assert committed.already is (number == 2)
        assert lake.rows() == [LOG[1]]
        assert list(lake.files) == ["file-1"]
        unheard = lake.open()
        with pytest.raises(CommitFailedException):
            unheard.iceberg.transaction().commit_transaction()


@pytest.mark.parametrize(
    ("spans", "forgotten", "broken"),
    [
        ([(1, 0, 1, 3), (2, 3, 3.1, 5)], (), ""),
        ([(1, 0, 1, 3), (2, 2, 2.9, 5)], (), "at once"),
        ([(1, 0, 1, 9), (2, 2, 2.9, 2.5), (3, 4, 5, 6)], (), "at once"),
        ([(2, 0, 1, 3), (2, 4, 5, 6)], (), "token 2 after 2"),
        ([(2, 0, 1, 3), (1, 4, 5, 6)], (), "token 1 after 2"),
        ([(2, 0, 5, 3), (1, 4, 5, 6)], (), ""),  # nobody knows which came first
        ([(1, 0, 1, 3), (2, 2, 2.9, 5)], [Forgotten(0.5, 1.5)], ""),
        ([(1, 0, 1, 3), (2, 2, 2.9, 5)], [Forgotten(1.1, 1.5)], "at once"),
        ([(2, 0, 1, 3), (1, 4, 5, 6)], [Forgotten(0.5, 1.5)], "token 1 after 2"),
    ],
)
async def test_a_lock_has_one_holder_and_its_tokens_grow(
    spans: Sequence[Span], forgotten: Sequence[Forgotten], broken: str
) -> None:
    actor = made(Locked, forgotten)
    assert isinstance(actor, Locked)
    for number, span in enumerate(spans):
        holding = _Holding("front", *span)
        actor._judge(holding)
        actor._holdings[str(number)] = holding
    await asyncio.wait_for(actor.check(Granting()), 1)
    assert broken in str(actor.broken)
    assert bool(actor.broken) is bool(broken)


class Server:
    """A process that counts how often it was ended; a stopping one takes its time."""

    def __init__(self) -> None:
        self.dead = False
        self.ended = 0

    def kill(self) -> None:
        self.dead = True
        self.ended += 1

    def signal(self, _: object) -> None:
        self.ended += 1


def faults_of(kind: str) -> tuple[Faults, list[Server], Mock]:
    """Return faults that draw this way back, and the servers and the place that they do it to."""
    servers = {name: Server() for name in SERVERS}
    place = Mock(processes=servers)
    place.world.now_us = 0
    place.world.machine.return_value.local_us = lambda us: us
    place.snapshot.return_value = Snapshot(Path(), FIRST_PLACE, 0)
    place.all_saw_later.return_value = True
    faults = Faults(place, draw(1))
    faults._draw = Mock(choice=lambda of: kind if kind in of else of[0], uniform=lambda *of: of[0])
    return faults, list(servers.values()), place


def test_no_server_ends_until_a_backup_is_noticed() -> None:
    """Token 5 was given twice: the only server that had seen the first was killed."""
    faults, servers, _ = faults_of("backup")
    faults._go_back()
    faults._put_back()
    faults._kill_server()
    faults._stop_server()
    assert not any(server.ended for server in servers)
    faults.logged("server-1", "repairing Postgres from the store")
    faults._kill_server()
    assert sum(server.ended for server in servers) == 1


def test_a_backup_is_not_put_back_while_a_server_stops() -> None:
    faults, _, place = faults_of("backup")
    faults._stop_server()
    faults._go_back()
    faults._put_back()
    (lost,) = place.lose_postgres.call_args.args
    assert lost.place.timeline == FIRST_PLACE.timeline + 1, "that is no backup"


def test_a_backup_is_not_put_back_that_a_server_could_not_tell() -> None:
    """Token 7 was given twice: no server had looked at Postgres in the 217 ms that were lost."""
    faults, _, place = faults_of("backup")
    place.all_saw_later.return_value = False
    faults._go_back()
    faults._put_back()
    (lost,) = place.lose_postgres.call_args.args
    assert lost.place.timeline == FIRST_PLACE.timeline + 1, "that is no backup"


async def test_each_lock_can_be_taken_once_all_faults_are_healed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(locked, "FREE_AGAIN_S", 0.0)
    actor = made(Locked)
    await actor.check(Granting())
    assert not actor.broken
    actor = made(Locked)
    await actor.check(Granting(refused="back"))
    (broken,) = actor.broken
    assert "back could not be taken" in broken
