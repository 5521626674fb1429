"""Settings of a store node."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.environment import SettingsError
from store_nodes.settings import MIB, from_environment, segment_bytes_on

NEEDED = {
    "PACKETBOAT_STORE_NODES": "1=127.0.0.1:1,2=127.0.0.1:2@b",
    "PACKETBOAT_STORE_NODE_ID": "2",
    "PACKETBOAT_STORE_DIR": "/nowhere/yet",
    "PACKETBOAT_CLUSTER_UID": "ab" * 16,
    "PACKETBOAT_STORE_SECRET": "cd" * 16,
}


@pytest.mark.parametrize(
    ("disk_gib", "segment_mib"), [(1, 8), (8, 16), (10, 20), (32, 64), (4096, 64)]
)
def test_preallocation_follows_the_size_of_the_disk(disk_gib: int, segment_mib: int) -> None:
    assert segment_bytes_on(disk_gib * 1024 * MIB) == segment_mib * MIB


def test_what_is_needed_is_enough() -> None:
    settings = from_environment(NEEDED)
    assert settings.listen == ("127.0.0.1", 2)
    assert settings.data_dir == Path("/nowhere/yet")
    assert 8 * MIB <= settings.segment_bytes <= 64 * MIB
    given = NEEDED | {"PACKETBOAT_STORE_SEGMENT_BYTES": str(MIB)}
    assert from_environment(given).segment_bytes == MIB


def test_all_that_is_missing_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as refused:
        from_environment({})
    assert [line.split(" ")[0] for line in refused.value.faults] == [
        *list(NEEDED)[:3],
        "PACKETBOAT_STORE_SECRET",
        "PACKETBOAT_CLUSTER_UID",
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PACKETBOAT_STORE_NODES", "1"),
        ("PACKETBOAT_STORE_NODES", "1=host:99999"),
        ("PACKETBOAT_STORE_NODE_ID", "0"),
        ("PACKETBOAT_STORE_NODE_ID", "3"),
        ("PACKETBOAT_STORE_LISTEN", "9999"),
        ("PACKETBOAT_CLUSTER_UID", "ab"),
        ("PACKETBOAT_STORE_SECRET", "ab"),
        ("PACKETBOAT_STORE_GROUPS", "0"),
        ("PACKETBOAT_STORE_METRICS_PORT", "99999"),
        ("PACKETBOAT_PEER_TLS", "yes"),
    ],
)
def test_what_does_not_fit_is_named(name: str, text: str) -> None:
    with pytest.raises(SettingsError, match=name) as refused:
        from_environment(NEEDED | {name: text})
    assert len(refused.value.faults) == 1
