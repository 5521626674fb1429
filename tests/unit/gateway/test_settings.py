from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from gateway.configuration.settings import Role, ServerSettings, SettingsError, UpSettings
from gateway.up.data_dir import DataDir, DataDirInUse, PortTaken, choose_ports, is_free

NEEDED = {
    "PACKETBOAT_STORE_NODES": "1=127.0.0.1:8091,2=[::1]:8092",
    "PACKETBOAT_STORE_SECRET": "00" * 16,
    "PACKETBOAT_ACK_SECRET": "00" * 16,
    "PACKETBOAT_SEAL_KEYS": "a:" + "00" * 32,
}


def test_defaults_environment_and_command_line() -> None:
    settings = ServerSettings.from_environment(NEEDED)
    assert (settings.role, settings.port, settings.workers) == (Role.ALL, 8080, 1)
    assert settings.store_nodes[1] == ("127.0.0.1", 8091)
    given = NEEDED | {"PACKETBOAT_PORT": "81", "PACKETBOAT_ROLE": "publish"}
    assert ServerSettings.from_environment(given).role is Role.PUBLISH
    assert ServerSettings.from_environment(given, port=82, host=None).port == 82


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"PACKETBOAT_PORT": "x"}, "PACKETBOAT_PORT"),
        ({"PACKETBOAT_ROLE": "boss"}, "PACKETBOAT_ROLE"),
        ({"PACKETBOAT_ACK_SECRET": "zz"}, "PACKETBOAT_ACK_SECRET: "),
        ({"PACKETBOAT_ACK_SECRET": "00" * 65}, "PACKETBOAT_ACK_SECRET: "),
        ({"PACKETBOAT_STORE_SECRET": "zz"}, "PACKETBOAT_STORE_SECRET: "),
        ({"PACKETBOAT_ACK_SECRET": "00"}, "PACKETBOAT_ACK_SECRET"),
        ({"PACKETBOAT_STORE_NODES": "1:2"}, "PACKETBOAT_STORE_NODES"),
        ({"PACKETBOAT_SEAL_KEYS": ""}, "PACKETBOAT_SEAL_KEYS"),
        ({"PACKETBOAT_SEAL_KEYS": "a:00"}, "PACKETBOAT_SEAL_KEYS"),
        ({"PACKETBOAT_ISSUER": "mq.example"}, "PACKETBOAT_ISSUER"),
        ({"PACKETBOAT_ISSUER": "https://mq.example/"}, "PACKETBOAT_ISSUER"),
        ({"PACKETBOAT_AUDIENCE": ""}, "PACKETBOAT_AUDIENCE"),
        ({"PACKETBOAT_TOKEN_SECONDS": "59"}, "PACKETBOAT_TOKEN_SECONDS"),
        ({"PACKETBOAT_TOKEN_SECONDS": "86401"}, "PACKETBOAT_TOKEN_SECONDS"),
        ({"PACKETBOAT_SIGNING_ALGORITHM": "none"}, "PACKETBOAT_SIGNING_ALGORITHM"),
        ({"PACKETBOAT_SIGNING_KEY_DAYS": "0"}, "PACKETBOAT_SIGNING_KEY_DAYS"),
        ({"PACKETBOAT_SIGNING_KEY_DAYS": "nan"}, "PACKETBOAT_SIGNING_KEY_DAYS"),
        ({"PACKETBOAT_TOPIC_REPAIR_AFTER_S": "4"}, "PACKETBOAT_TOPIC_REPAIR_AFTER_S"),
        ({"PACKETBOAT_TOPIC_REPAIR_AFTER_S": "nan"}, "PACKETBOAT_TOPIC_REPAIR_AFTER_S"),
        ({"PACKETBOAT_WORKERS": "0"}, "PACKETBOAT_WORKERS"),
        ({"PACKETBOAT_WORKERS": "2", "PACKETBOAT_SUBSCRIBE_LINK_PORT": "9"}, "LINK_PORT"),
        ({"PACKETBOAT_WORKERS": "2", "PACKETBOAT_SUBSCRIBE_TRACE_FILE": "t"}, "TRACE_FILE"),
        ({"PACKETBOAT_SUBSCRIBE_WEIGHT": "0"}, "PACKETBOAT_SUBSCRIBE_WEIGHT"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        ServerSettings.from_environment(NEEDED | change)


def test_several_workers_of_any_role() -> None:
    for role in ("publish", "gateway", "subscribe", "all"):
        given = NEEDED | {"PACKETBOAT_ROLE": role, "PACKETBOAT_WORKERS": "4"}
        assert ServerSettings.from_environment(given).workers == 4


def test_secrets_are_not_shown() -> None:
    settings = ServerSettings.from_environment(NEEDED | {"PACKETBOAT_STORE_SECRET": "abcd" * 8})
    assert "abcd" not in repr(settings)
    assert r"\xab" not in repr(settings)


def test_up_settings() -> None:
    assert UpSettings.from_environment({}).port is None
    settings = UpSettings.from_environment({"PACKETBOAT_DATA_DIR": "/x", "PACKETBOAT_PORT": "1"})
    assert (settings.data_dir, settings.port) == (Path("/x"), 1)


def test_exports_are_there_unless_they_are_not_wanted() -> None:
    assert UpSettings.from_environment({}).exports
    for text, meant in {"0": False, "false": False, "1": True, "TRUE": True}.items():
        assert UpSettings.from_environment({"PACKETBOAT_EXPORTS": text}).exports is meant
    assert not UpSettings.from_environment({"PACKETBOAT_EXPORTS": "1"}, exports=False).exports
    with pytest.raises(ValueError, match="1 or 0"):
        UpSettings.from_environment({"PACKETBOAT_EXPORTS": "maybe"})


def test_the_data_directory_is_one_process_s(tmp_path: Path) -> None:
    first = DataDir(tmp_path / "data")
    state = first.open()
    with pytest.raises(DataDirInUse, match="process"):
        DataDir(tmp_path / "data").open()
    assert stat.S_IMODE((tmp_path / "data" / "state.json").stat().st_mode) == 0o600
    state.ports = choose_ports("127.0.0.1", 0, None)
    first.save(state)
    first.close()
    second = DataDir(tmp_path / "data")
    assert second.open() == state
    second.close()


def test_ports_are_kept_and_replaced_only_when_taken() -> None:
    kept = choose_ports("127.0.0.1", 0, None)
    numbers = [kept.http, *kept.store, kept.postgres]
    assert len(set(numbers)) == 5
    assert all(20_000 <= number < 32_000 for number in numbers)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", kept.store[1]))
        busy.listen()
        again = choose_ports("127.0.0.1", None, kept)
    assert again.store[1] != kept.store[1]
    assert (again.http, again.store[0], again.postgres) == (
        *(kept.http, kept.store[0]),
        kept.postgres,
    )


def test_a_port_asked_for_must_be_free() -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        with pytest.raises(PortTaken, match="--port"):
            choose_ports("127.0.0.1", port, None)
