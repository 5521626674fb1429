"""A repair is over when all that is lost was asked for: also what was found while it went on, and
what only an install wants."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from store_nodes.node.repair import Repair
from store_nodes.node.start import load
from store_nodes.storage.damage import DamageReport
from store_nodes.storage.instance_index import InstanceIndex
from store_nodes.wal.errors import WalDamaged
from store_nodes.wal.recovery import Damage
from tests.unit.store_node.node_support import (
    Peers,
    running,
    settings_of,
    until_ended,
    with_peers,
)
from tests.unit.wal.wal_support import SimDisk, open_log

FIRST, SECOND = Damage(1, 5000, 5100, "payload"), Damage(1, 6000, 6100, "payload")


class Host:
    """A node without groups: an attempt finds nothing missing. `meanwhile` happens in the first."""

    installing = False

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.attempts = 0
        self._meanwhile = meanwhile

    def store_client(self) -> Host:
        return self

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def sources(self, best: int | None = None) -> list[int]:
        self.attempts += 1
        if self.attempts == 1:
            self._meanwhile()
        return []

    def groups(self) -> tuple[()]:
        return ()

    def may_begin(self) -> None: ...


async def repaired(meanwhile: Callable[[Any, Repair], None]) -> tuple[Any, Host]:
    """Return the log and the node after a repair that began with the first damage."""
    log, _ = open_log(SimDisk())
    log.damages.add(FIRST)
    tasks: list[asyncio.Task[None]] = []
    host = Host(lambda: meanwhile(log, repair))
    report = DamageReport(votes=False, texts=("first",))
    repair = Repair(host, log, report, 1000, tasks.append)  # type: ignore[arg-type]
    repair.start()
    await asyncio.wait_for(asyncio.gather(*tasks), 5)
    assert repair.report is None
    return log, host


async def test_what_is_found_during_an_attempt_is_asked_for_in_another() -> None:
    """The node took it for repaired with the rest, and lacked those messages silently."""

    def found(log: Any, repair: Repair) -> None:
        log.damages.add(SECOND)
        repair.found(DamageReport(votes=False, texts=("second",)))

    log, host = await repaired(found)
    assert host.attempts == 2
    assert log.damages.open() == []


async def test_what_is_put_down_and_not_yet_told_is_not_taken_for_repaired() -> None:
    log, host = await repaired(lambda log, repair: log.damages.add(SECOND))
    assert host.attempts == 1
    assert log.damages.open() == [SECOND]


async def test_damage_found_while_an_install_copies_stays_in_the_list_for_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage may have taken copies for a machine that the node has only after that start; its
    present machines miss nothing.
    """
    async with running(tmp_path) as one:
        recovering = one.node._recovering
        repair = recovering.repair
        attempted = asyncio.Event()
        may_vote = repair._may_vote_everywhere

        def asked() -> bool:
            attempted.set()
            return may_vote()

        monkeypatch.setattr(repair, "_may_vote_everywhere", asked)

        async def found() -> None:
            """Find damage once everything is copied."""
            one.node._wal.damages.add(FIRST)
            recovering.damage_found(DamageReport(votes=False, texts=("first",)))
            await attempted.wait()

        peers = Peers({2: one.image(ahead=5)}, meanwhile=found, before=2)
        with with_peers(one, peers):
            one.node.install_needed(one.node.groups[0], 2, one.applied() + 1)
            await until_ended(one)
            assert one.node.restarting
            assert recovering.installing, "until it starts again"
            assert repair.report is not None
    damage = load(settings_of(tmp_path)).damage
    assert damage is not None, "what is missing is never asked for"


async def test_a_peer_that_asks_for_an_instance_of_an_unreadable_index_does_not_end_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damage = Damage(1, 0, 0, "footer")

    def unreadable(*_: Any) -> NoReturn:
        raise WalDamaged(damage)

    async with running(tmp_path) as one:
        await one.advance(instances=5)
        group = one.node.groups[0]
        with monkeypatch.context() as patch:
            patch.setattr(InstanceIndex, "get", unreadable)
            try:
                group._send_from_disk(2, 0, 3)
            except WalDamaged:
                pytest.fail("the loop ends with this exception")
        for _ in range(200):
            await asyncio.sleep(0.01)
            if one.node._wal.damages.all():
                break
        # Without peers nothing is missing, so the repair may be over already.
        found = [(each.segment, each.reason) for each in one.node._wal.damages.all()]
        assert found == [(damage.segment, damage.reason)]


def test_a_start_asks_for_the_batches_of_an_index_that_is_called_repaired(tmp_path: Path) -> None:
    """An earlier release called it repaired, and went on with rows that it could not read."""
    wal = load(settings_of(tmp_path)).wal
    wal.damages.add(Damage(1, 0, 0, "footer"))
    wal.damages.repaired()
    wal.close()
    started = load(settings_of(tmp_path))
    started.wal.close()
    assert started.damage is not None
    assert not started.damage.votes
    assert str(started.damage) == "segment 1 at 0: footer"
