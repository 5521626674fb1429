from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from gateway.configuration.settings import UpSettings
from gateway.up import supervisor
from gateway.up.banner import Exports, banner, client_env
from gateway.up.child import Child, pauses
from gateway.up.data_dir import Ports, State, choose_ports


def test_the_banner_ends_with_two_lines_a_shell_can_eval() -> None:
    text = banner("http://127.0.0.1:8080", "pbdev_x", Path(".packetboat"), None, Exports.OFF)
    assert text.splitlines()[-2:] == [
        "export PACKETBOAT_URL=http://127.0.0.1:8080",
        "export PACKETBOAT_TOKEN=pbdev_x",
    ]
    assert client_env("u", "t") == "export PACKETBOAT_URL=u\nexport PACKETBOAT_TOKEN=t\n"


def test_the_banner_says_where_the_operator_is_and_never_its_secret() -> None:
    path = Path("d/operator.env")
    text = banner("http://127.0.0.1:8080", "t", Path(".packetboat"), path, Exports.OFF)
    assert "The operator's credential is in d/operator.env.\n" in text


def test_the_banner_says_what_becomes_of_exports() -> None:
    def said(exports: Exports) -> str:
        return banner("http://127.0.0.1:8080", "t", Path(".packetboat"), None, exports)

    assert "Exports run here, into tables in .packetboat/lake.\n" in said(Exports.RUN)
    assert "`make exports`" in said(Exports.NOT_INSTALLED)
    assert "xports" not in said(Exports.OFF)


async def test_a_child_that_dies_is_started_again_until_stopped(tmp_path: Path) -> None:
    marker = tmp_path / "starts"
    script = f"echo x >> {marker}; exit 3"
    child = Child("short", ["bash", "-c", script], {"PATH": "/usr/bin:/bin"}, tmp_path / "log")
    notes: list[str] = []
    keeper = asyncio.ensure_future(child.keep_running(notes.append))
    async with asyncio.timeout(10):
        while child.starts < 3:
            await asyncio.sleep(0.01)
    await child.stop()
    await asyncio.wait_for(keeper, 5)
    assert re.fullmatch(r"short ended \(exit code 3\); starting it again", notes[0])
    assert marker.read_text().count("x") >= 2


@pytest.mark.parametrize(
    ("lived_s", "pause_s", "expected"),
    [
        (0.02, 0.1, (pytest.approx(0.08), 0.2)),
        (3.0, 1.6, (0.0, 3.2)),
        (1.0, 5.0, (4.0, 5.0)),
        (31.0, 5.0, (0.0, 0.1)),
    ],
)
def test_a_pause_is_between_two_starts(
    lived_s: float, pause_s: float, expected: tuple[float, float]
) -> None:
    assert pauses(lived_s, pause_s) == expected


async def test_a_child_that_is_refused_is_not_started_again(tmp_path: Path) -> None:
    script = "echo give it a new id; exit 78"
    child = Child("node-3", ["bash", "-c", script], {"PATH": "/usr/bin:/bin"}, tmp_path / "log")
    notes: list[str] = []
    await asyncio.wait_for(child.keep_running(notes.append), 10)
    assert child.starts == 1
    assert notes == ["node-3 must not be started again:\ngive it a new id\n"]
    await child.stop()


async def test_a_child_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    log = tmp_path / "log"
    child = Child("stubborn", ["bash", "-c", script], {"PATH": "/usr/bin:/bin"}, log, stop_s=0.2)
    await child.start()
    async with asyncio.timeout(10):
        while "ready" not in child.tail():
            await asyncio.sleep(0.01)
    await asyncio.wait_for(child.stop(), 5)
    assert await child.wait() == -9


async def test_the_log_of_a_child_is_its_owners_alone(tmp_path: Path) -> None:
    log, aside = tmp_path / "logs" / "a.log", tmp_path / "logs" / "a.log.1"
    log.parent.mkdir()
    for file in (log, aside):  # as 0.2.0 made them
        file.touch(0o644)
        file.chmod(0o644)
    child = Child("a", ["bash", "-c", "echo said"], {"PATH": "/usr/bin:/bin"}, log)
    await child.start()
    assert await child.wait() == 0
    assert log.read_text() == "said\n"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (log, aside)] == [0o600, 0o600]


@pytest.mark.parametrize(
    ("host", "reached"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_an_installation_for_this_machine_alone_lets_pushes_reach_it(
    tmp_path: Path, host: str, reached: bool
) -> None:
    settings = UpSettings(data_dir=tmp_path / "data", host=host)
    ports = Ports(8080, (1, 2, 3), 4)
    environment = supervisor.Supervisor(settings)._environment(State(), ports)
    allowed = {name for name, value in environment.items() if "127.0.0.0/8" in value}
    assert allowed == ({"PACKETBOAT_DEV_EGRESS_ALLOWED"} if reached else set())


async def test_a_foreign_server_on_the_port_is_not_taken_for_ours() -> None:
    """The foreign server may be another installation that is ready and does not know our token."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        status = b"200 OK" if b"/readyz" in line else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 " + status + b"\r\n\r\nbody")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    get = supervisor._get
    assert await get("127.0.0.1", port, "/readyz", "t") == (200, "body")
    assert (await get("127.0.0.1", port, "/topics", "t"))[0] == 401
    server.close()
    await server.wait_closed()
    assert (await get("127.0.0.1", port, "/readyz", "t"))[0] == 0


def test_ports_taken_meanwhile_are_noticed() -> None:
    from gateway.up.data_dir import are_free

    ports = choose_ports("127.0.0.1", 0, None)
    assert are_free("127.0.0.1", ports)
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", ports.postgres))
        busy.listen()
        assert not are_free("127.0.0.1", ports)


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::1", "[::1]")])
def test_the_url_of_a_host(host: str, shown: str) -> None:
    assert supervisor._url_host(host) == shown


async def started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answers: Iterator[tuple[int, str]]
) -> str:
    """Wait for a server that gives those answers, with a limit of 0.3 s; return the outcome."""

    async def get(host: str, port: int, path: str, token: str) -> tuple[int, str]:
        return (200, "") if path == "/topics" else next(answers)

    monkeypatch.setattr(supervisor, "_get", get)
    monkeypatch.setattr(supervisor, "START_TIMEOUT_S", 0.3)
    monkeypatch.setattr(supervisor, "SHOW_EVERY_S", 0.2, raising=False)
    one = supervisor.Supervisor(UpSettings(data_dir=tmp_path))
    server = Child("server", ["true"], {}, tmp_path / "log")
    try:
        await one._until_ready(1, server, "t")
    except supervisor.StartFailed as error:
        return str(error)
    return "ready"


async def test_a_start_that_moves_takes_as_long_as_it_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reasons = (f"{done} of 651 partitions" for done in range(0, 651, 31))
    answers = [(503, json.dumps({"detail": reason})) for reason in reasons]
    ended = await started(monkeypatch, tmp_path, iter([*answers, (200, "")]))
    assert ended == "ready"
    assert re.search(r"starting for \d+ s: \d+ of 651 partitions\n", capsys.readouterr().err)


async def test_a_start_in_which_nothing_new_happens_has_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    turns = cycle([(503, '{"detail":"no leader"}'), (0, "no answer in time")])
    ended = await started(monkeypatch, tmp_path, turns)
    assert re.match(r"nothing has moved for 0 s \((no leader|no answer in time)\)", ended)


class Recorded:
    """A child process that is never made."""

    def __init__(self, started: list[list[str]], arguments: list[str]) -> None:
        self.name, self.starts = arguments[0], 0
        self._started, self._arguments = started, arguments

    async def start(self) -> None:
        self._started.append(self._arguments)

    async def wait(self) -> int:
        return 0

    async def keep_running(self, note: object) -> None:
        await self.start()

    async def stop(self) -> None: ...


@pytest.mark.parametrize(
    ("current", "has_operator", "commands"),
    [
        (False, False, ["migrate --operator-file", "serve"]),
        (False, True, ["migrate", "serve"]),
        (True, False, ["serve", "migrate --operator-file"]),
        (True, True, ["serve"]),
    ],
)
async def test_a_start_runs_no_process_that_has_nothing_to_do(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    current: bool,
    has_operator: bool,
    commands: list[str],
) -> None:
    """A migration costs as much as the imports of a server, and so does making an operator."""
    started: list[list[str]] = []

    async def is_current(url: str) -> bool:
        await asyncio.sleep(0)  # The nodes before it are started.
        return current

    async def ready(*_: object) -> None:
        await asyncio.sleep(0)

    one = supervisor.Supervisor(
        UpSettings(data_dir=tmp_path, database_url="postgresql://127.0.0.1/x")
    )
    monkeypatch.setattr(supervisor, "is_current", is_current)
    monkeypatch.setattr(one, "_until_ready", ready)
    monkeypatch.setattr(one, "_child", lambda name, given, *_, **__: Recorded(started, given))
    state = one._data_dir.open()
    state.has_operator = has_operator
    await one._start(state, choose_ports("127.0.0.1", 0, None), "token")
    await one._shut_down()
    told = [" ".join(given[:2]) for given in started if given != ["store-node"]]
    assert sorted(told) == sorted(commands)
    if not current:
        assert told == commands
    assert state.has_operator


async def test_a_signal_ends_a_start_that_comes_to_no_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = asyncio.Event()

    async def get(host: str, port: int, path: str, token: str) -> tuple[int, str]:
        asked.set()
        return 503, '{"detail":"no leader"}'

    async def is_current(url: str) -> bool:
        return True

    one = supervisor.Supervisor(
        UpSettings(data_dir=tmp_path, database_url="postgresql://127.0.0.1/x")
    )
    monkeypatch.setattr(supervisor, "is_current", is_current)
    monkeypatch.setattr(supervisor, "_get", get)
    monkeypatch.setattr(one, "_child", lambda name, given, *_, **__: Recorded([], given))
    running = asyncio.ensure_future(one.run())
    await asked.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(running, 30) == 0
