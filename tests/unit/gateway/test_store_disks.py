"""A disk without room: the node, the server and people are told the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.testclient import TestClient

from gateway.http.pages import Pages
from gateway.middleware.errors import problem_of as problem_of_server
from gateway.readiness import Readiness
from gateway.store_disks import StoreDisks
from publish_forwarder.failures import problem_of
from store_nodes import wire
from store_nodes.disk_room import no_room_of
from store_nodes.errors import DiskFull
from store_nodes.node.housekeeping import DiskWatch
from store_nodes.wal.disk import OsDisk
from tests.unit.store_node.node_support import settings_of

MIB = 1024 * 1024
RESERVE = 256 * MIB


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DiskWatch:
    """Return the watch of a disk with 100 MiB free."""
    disk = SimpleNamespace(f_bavail=100, f_frsize=MIB)
    monkeypatch.setattr(os, "statvfs", lambda path: disk)
    settings = msgspec.structs.replace(settings_of(tmp_path), disk_reserve_bytes=RESERVE)
    watch = DiskWatch(settings, OsDisk())
    watch.look()
    return watch


def test_a_refused_publish_names_the_disk_what_is_free_and_the_setting(
    watch: DiskWatch, tmp_path: Path
) -> None:
    reason = watch.without_room()
    assert reason is not None
    for problem in (problem_of(DiskFull(reason)), problem_of_server(DiskFull(reason))):
        assert problem is not None
        assert (problem.status, problem.slug) == (507, "storage-full")
        assert problem.detail.startswith(
            f"Store node 1 takes no appends: the disk of {tmp_path} has 100 MiB free, and"
            f" PACKETBOAT_STORE_DISK_RESERVE_BYTES={RESERVE} keeps 256 MiB."
        )


def test_a_disk_with_room_has_no_reason(watch: DiskWatch) -> None:
    watch._settings = msgspec.structs.replace(watch._settings, disk_reserve_bytes=MIB)
    watch.look()
    assert watch.without_room() is None


class Nodes:
    """Node 1 has room, node 2 has none and is of release 0.2.0, node 3 is down."""

    async def status(
        self, *, groups: bool = True, timeout_s: float = 2.0
    ) -> Mapping[int, Mapping[str, Any]]:
        assert not groups, "groups cost what they hold"
        room = {"free_bytes": 9 * RESERVE, "reserve_bytes": RESERVE, "appends_refused": False}
        none = {"free_bytes": MIB, "reserve_bytes": RESERVE, "appends_refused": True}
        return {
            1: {"node": 1, "disk": room | {"path": "/data"}},
            2: {"node": 2, "disk": none},
            3: {"error": "no answer"},
        }


async def test_readyz_warns_and_stays_ready() -> None:
    """Reads and acks go on, and they make room: no balancer must take the process out."""
    readiness, disks = Readiness(), StoreDisks(Nodes())
    readiness.add_warning("disk", disks.warning)
    client = TestClient(Pages(readiness).application())
    assert client.get("/readyz").json() == {"status": "ready"}
    await disks.look()
    answer = client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {
        "status": "ready",
        "warnings": {
            "disk": "store node 2 takes no appends: its disk has 1 MiB free, and"
            f" PACKETBOAT_STORE_DISK_RESERVE_BYTES={RESERVE} keeps 256 MiB"
        },
    }


def test_what_a_node_says_without_a_disk_is_no_warning() -> None:
    assert no_room_of({"error": "no answer"}) is None


def test_a_status_asked_for_by_release_0_2_0_has_the_groups() -> None:
    old = msgspec.msgpack.encode([21, 7])
    assert msgspec.msgpack.decode(old, type=wire.Status) == wire.Status(7, groups=True)
    # An older node passes over what it does not know.
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(wire.Status(7, groups=False))) == [
        *(21, 7),
        False,
    ]


def test_a_server_that_is_not_ready_tells_the_warnings_too() -> None:
    """Where all disks are full there is no leader, and the disk is the reason."""
    readiness = Readiness()
    readiness.add("groups", lambda: "no group has a leader")
    readiness.add_warning("disk", lambda: "store node 1 takes no appends")
    assert readiness.reasons() == {
        "groups": "no group has a leader",
        "disk": "store node 1 takes no appends",
    }
