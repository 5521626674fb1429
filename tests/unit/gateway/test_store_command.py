"""`packetboat store`: which store it means, and its exit statuses without one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from gateway.command import app
from gateway.commands import store_operation
from gateway.up.data_dir import Ports, State
from peering.shared_secret import SharedSecret
from store_nodes.admin import NotFinished, OperationRefused, Operator
from store_nodes.errors import OutcomeUnknown

SECRET = "ab" * 32


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NODES", "GROUPS", "SECRET"):
        monkeypatch.delenv(f"PACKETBOAT_STORE_{name}", raising=False)
    monkeypatch.setattr(store_operation.logs, "configure", lambda *_, **__: None)


def test_the_store_of_an_up_is_found_in_its_directory(tmp_path: Path) -> None:
    state = State(store_secret=SECRET, ports=Ports(8080, (1, 2, 3), 4))
    (tmp_path / "state.json").write_bytes(msgspec.json.encode(state))
    store = store_operation.find(tmp_path)
    assert store.nodes == {node: ("127.0.0.1", node) for node in (1, 2, 3)}
    assert store.secret == SharedSecret(bytes.fromhex(SECRET))
    assert store.groups == 8


def test_the_store_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKETBOAT_STORE_NODES", "1=a:1@zone,4=b:2")
    monkeypatch.setenv("PACKETBOAT_STORE_GROUPS", "3")
    monkeypatch.setenv("PACKETBOAT_STORE_SECRET", SECRET)
    assert store_operation.find(None) == (
        {1: ("a", 1), 4: ("b", 2)},
        3,
        SharedSecret(bytes.fromhex(SECRET)),
        None,
    )


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["status"], "PACKETBOAT_STORE_NODES"),
        (["--data-dir", "/nowhere", "status"], "/nowhere"),
        (["add-node", "0", "host:1"], "node"),
        (["add-node", "4"], "address"),
    ],
)
def test_wrong_use_is_status_2(arguments: list[str], word: str) -> None:
    result = CliRunner().invoke(app, ["store", *arguments])
    assert result.exit_code == 2
    assert word in result.output


@pytest.mark.parametrize(
    ("ending", "status"),
    [(None, 0), (OperationRefused("no"), 1), (NotFinished("later"), 3), (OutcomeUnknown("?"), 3)],
)
def test_the_exit_status_says_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, ending: Exception | None, status: int
) -> None:
    async def operate(*_: object) -> None:
        if ending is not None:
            raise ending

    async def work(operator: Operator) -> None:
        raise AssertionError("not called")

    monkeypatch.setattr(store_operation, "_operate", operate)
    store = store_operation.StoreAddresses({}, 1, b"")
    assert store_operation.run(store, work) == status
