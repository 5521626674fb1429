"""Test which peers are let back in, and what a start remembers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from crc32c import crc32c
from msgspec.structs import replace

from store_nodes.node.boot import BootRecord, pack_tail
from store_nodes.node.known_peers import KnownPeers
from store_nodes.wal.position import Position
from store_nodes.wire import REFUSED, Remote, Role

INCARNATION = bytes(range(16))
PEER = Remote(Role.PEER, b"c" * 16, 3, INCARNATION, boot=4, tail=(2 << 32) + 8192, run=b"r" * 8)


def later(**changes: object) -> Remote:
    """Return the same directory, started again."""
    return replace(PEER, **({"boot": 5, "run": b"s" * 8} | changes))


@pytest.fixture
def known(tmp_path: Path) -> KnownPeers:
    known = KnownPeers(tmp_path)
    assert known.meet(PEER) is None
    known.told(3, (2 << 32) + 9000)
    known.flush()
    return known


@pytest.mark.parametrize(
    "remote",
    [
        PEER,
        later(tail=(2 << 32) + 9000),
        later(tail=3 << 32, boot=9),
        replace(PEER, boot=0, tail=0, run=b""),
        replace(PEER, node=4, incarnation=bytes(16)),
    ],
    ids=["reconnected", "started again", "grown", "speaks version 1", "new node"],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_who_comes_back_whole_is_let_in(
    known: KnownPeers, tmp_path: Path, remote: Remote, restarted: bool
) -> None:
    assert (KnownPeers(tmp_path) if restarted else known).meet(remote) is None


@pytest.mark.parametrize(
    ("remote", "why"),
    [
        (later(incarnation=bytes(16)), "not the one it had"),
        (replace(PEER, boot=0, run=b"", incarnation=bytes(16)), "not the one it had"),
        (later(boot=3), "an older copy .start 3, and start 4 was seen"),
        (replace(PEER, run=b"t" * 8), "another copy of its data directory"),
        (later(tail=(2 << 32) + 8999), "ends at segment 2, byte 8999, and was synced up to"),
    ],
    ids=["wiped", "wiped, version 1", "older start", "same start twice", "shorter log"],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_who_comes_back_with_less_is_refused_with_the_remedy(
    known: KnownPeers, tmp_path: Path, remote: Remote, why: str, restarted: bool
) -> None:
    refusal = (KnownPeers(tmp_path) if restarted else known).meet(remote)
    assert refusal is not None
    assert refusal.code == REFUSED
    assert re.search(why, refusal.text)
    assert "packetboat store replace-node 3 NEW HOST:PORT" in refusal.text


def test_a_refusal_changes_nothing(known: KnownPeers) -> None:
    assert known.meet(later(boot=3)) is not None
    assert known.meet(PEER) is None


@pytest.mark.parametrize("at", range(0, 120, 7))
def test_a_damaged_memory_shuts_nobody_out(known: KnownPeers, tmp_path: Path, at: int) -> None:
    raw = bytearray((tmp_path / "peers.json").read_bytes())
    raw[at % len(raw)] ^= 1
    (tmp_path / "peers.json").write_bytes(raw)
    assert KnownPeers(tmp_path).meet(later()) is None


def test_each_start_is_counted(tmp_path: Path) -> None:
    runs = set()
    for expected in (1, 2, 3):
        record = BootRecord(tmp_path)
        record.started(INCARNATION)
        assert record.boot == expected
        runs.add(record.run)
    assert len(runs) == 3


def test_what_was_told_is_remembered_for_its_incarnation(tmp_path: Path) -> None:
    record = BootRecord(tmp_path)
    assert record.told(INCARNATION) is None
    record.started(INCARNATION)
    record.tell(pack_tail(Position(7, 4242, 0)))
    again = BootRecord(tmp_path)
    assert again.told(INCARNATION) == Position(7, 4242, 0)
    assert again.told(bytes(16)) is None
    again.started(bytes(16))
    assert BootRecord(tmp_path).told(bytes(16)) is None
    assert again.boot == 2


def test_what_was_refused_once_stays_refused(tmp_path: Path) -> None:
    assert BootRecord(tmp_path).refusal is None
    BootRecord(tmp_path).refuse("an older copy")
    assert BootRecord(tmp_path).refusal == "an older copy"


@pytest.mark.parametrize("slot", [0, 4096])
def test_one_torn_copy_costs_one_step(tmp_path: Path, slot: int) -> None:
    record = BootRecord(tmp_path)
    record.started(INCARNATION)
    record.tell(5000)
    record.tell(6000)
    path = tmp_path / "boot"
    raw = bytearray(path.read_bytes())
    raw[slot + 20] ^= 1
    path.write_bytes(raw)
    told = BootRecord(tmp_path).told(INCARNATION)
    assert told is not None
    assert told.offset in (5000, 6000)
    assert BootRecord(tmp_path).boot == 1


def test_the_format_of_the_file_is_frozen(tmp_path: Path) -> None:
    record = BootRecord(tmp_path)
    record.started(INCARNATION)
    record.tell(5 << 32 | 6)
    raw = (tmp_path / "boot").read_bytes()
    assert len(raw) == 8192
    assert raw[:48].hex() == (
        "50424254" + "01000000" + "02" + 7 * "00" + "01" + 7 * "00" + "0600000005000000"
        "000102030405060708090a0b0c0d0e0f"
    )
    assert int.from_bytes(raw[48:52], "little") == crc32c(raw[:48])


def test_it_says_which_start_of_each_peer_it_has_met(known: KnownPeers) -> None:
    assert known.starts() == {3: 4}
    assert known.meet(later(tail=3 << 32)) is None
    assert known.meet(replace(PEER, node=2, boot=0, run=b"")) is None
    assert known.starts() == {2: 0, 3: 5}
