"""The embedded Postgres: real Postgres from a wheel (or the machine's own), under our supervision.

Invariants:
- data survives from run to run; an interrupted first start leaves nothing half-made (initdb works
  in `data.new`, which is renamed when it is whole);
- it dies with its parent: PDEATHSIG is SIGINT, a fast and clean shutdown. The kernel ties that
  signal to the *thread* that started the server, so `spawn` belongs on a thread that lives as long;
- it has a session of its own: Ctrl-C in a terminal reaches the supervisor alone, which drains
  first;
- as root it runs as a lesser account (metadata/postgres/account.py);
- it listens on loopback only and wants the generated password (scram; the wheel has no TLS);
- fsync and full_page_writes stay on.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from metadata.postgres import account as accounts
from metadata.postgres import binaries
from metadata.postgres.account import Account, clean_environment
from metadata.postgres.binaries import Binaries
from metadata.private_log import open_private_log

SUPERUSER = "postgres"
DATABASE = "packetboat"
_PR_SET_PDEATHSIG = 1
PREDECESSOR_TIMEOUT_S = 15.0
"""Seconds to wait for a server that is shutting down on the same data."""
_POLL_S = 0.01
_LIBC = ctypes.CDLL(None, use_errno=True)
_OPTIONS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "password_encryption": "scram-sha-256",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
}


class EmbeddedPostgresFailed(Exception):
    """The server could not be created or started; the text ends with the last lines of its log."""


class EmbeddedPostgres:
    """One server in `directory`: `data/`, and for its owner alone `postgres.log` and
    `superuser.password`.

    Blocking, and quick: 0.5 s for a first start, 0.1 s later. `prepare`, `wait_ready` and `stop`
    may run in any thread; see above for `spawn`.
    """

    def __init__(
        self, directory: Path, *, port: int, options: Mapping[str, str] | None = None
    ) -> None:
        self._directory = directory.absolute()
        self._port = port
        self._options = _OPTIONS | dict(options or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._account = Account()
        self._binaries: Binaries | None = None
        self._home = self._directory

    @property
    def url(self) -> str:
        """Return the URL for `Database`; it has the password, so never print it."""
        password = self._password_file.read_text().strip()
        return f"postgresql://{SUPERUSER}:{password}@127.0.0.1:{self._port}/{DATABASE}"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def log_file(self) -> Path:
        return self._directory / "postgres.log"

    @property
    def data(self) -> Path:
        """Return the data directory: below `directory`, or where `location` says if its
        account can't get there.
        """
        return self._home / "data"

    @property
    def _password_file(self) -> Path:
        return self._directory / "superuser.password"

    def start(self) -> None:
        """prepare, spawn and wait_ready, for a caller whose thread lives as long as the server."""
        self.prepare()
        self.spawn()
        self.wait_ready()

    def prepare(self) -> None:
        """Finds the programs and makes the data directory if there is none yet."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with _locked(self._directory / "prepare.lock"):
            try:
                self._choose()
            except accounts.NoAccount as error:
                raise binaries.PostgresNotFound(str(error)) from error
            if not self.data.exists():
                self._make_data()
            if self._home != self._directory:
                _write_private(self._pointer, str(self._home))

    def spawn(self) -> None:
        """Starts the server; returns at once. Again after it has died, if you like."""
        assert self._binaries is not None, "prepare() comes first"
        if self.poll() is None and self._process is not None:
            raise EmbeddedPostgresFailed("it is already running")
        self._clear_stale_pid_file()
        command: list[str | Path] = [self._binaries.postgres, "-D", self.data]
        command += ["-p", str(self._port)]
        for name, value in self._options.items():
            command += ["-c", f"{name}={value}"]
        with open_private_log(self.log_file) as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=clean_environment(),
                start_new_session=True,
                **self._account.popen_arguments(_die_with(os.getpid())),
            )

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Returns when it takes connections (recovery after a crash is part of the wait)."""
        deadline_s = time.monotonic() + timeout_s
        while not self._is_ready():
            if self.poll() is not None:
                raise EmbeddedPostgresFailed(self._with_log(f"exited with {self.poll()}"))
            if time.monotonic() > deadline_s:
                raise EmbeddedPostgresFailed(self._with_log(f"not ready after {timeout_s} s"))
            time.sleep(_POLL_S)

    def poll(self) -> int | None:
        """Return its exit code once it has died; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def stop(self, timeout_s: float = 20.0) -> None:
        """Fast shutdown (clients are disconnected, data is checkpointed); harsher if it hangs."""
        process = self._process
        if process is None:
            return
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if process.poll() is None:
                process.send_signal(number)
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                continue
            break
        self._process = None

    @property
    def _pointer(self) -> Path:
        return self._directory / "location"

    def _choose(self) -> None:
        """Choose the directory of the data, its account, and the programs for it."""
        if self._pointer.exists():
            self._home = Path(self._pointer.read_text().strip())
            if not self.data.exists():
                raise EmbeddedPostgresFailed(f"{self._pointer} names {self.data}, which is gone")
        if self.data.exists():
            self._check_owner()
            self._account = accounts.owner_of(self.data)
            self._binaries = binaries.find(self._data_version())
            if not self._binaries.run_as(self._account):
                self._binaries = binaries.copy_for(self._binaries, self._account)
            return
        self._binaries = binaries.find()
        lesser = accounts.lesser()
        if lesser is None:
            self._account = accounts.nameless() or Account()
            return
        enters = lesser.can_enter(self._directory)
        self._account = lesser
        if enters and self._binaries.run_as(lesser):
            return
        if self._binaries.run_as(accounts.namespaced(lesser)):
            self._account = accounts.namespaced(lesser)
            return
        self._binaries = binaries.copy_for(self._binaries, lesser)
        if not enters:
            self._home = binaries.STATE_DIRECTORY / secrets.token_hex(8)
            binaries.make_passable(self._home)

    def _check_owner(self) -> None:
        if os.geteuid() not in (0, self.data.stat().st_uid):
            raise EmbeddedPostgresFailed(
                f"{self.data} belongs to uid {self.data.stat().st_uid}, and this is uid"
                f" {os.geteuid()}: start as the user who made it, or choose another data directory"
            )

    def _data_version(self) -> int:
        return int((self.data / "PG_VERSION").read_text())

    def _make_data(self) -> None:
        assert self._binaries is not None
        fresh = self._home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        self._account.own(fresh)
        if not self._password_file.exists():
            _write_private(self._password_file, secrets.token_urlsafe(24))
        # initdb runs as the lesser account, which can't read the file that we keep.
        password = self._home / "initdb.password"
        _write_private(password, self._password_file.read_text())
        self._account.own(password)
        try:
            self._run(
                [
                    *(self._binaries.initdb, "-D", fresh, "-U", SUPERUSER, "--data-checksums"),
                    *("--encoding=UTF8", "--locale=C"),
                    *("--auth=scram-sha-256", f"--pwfile={password}"),
                ]
            )
        finally:
            password.unlink()
        self._run(
            [self._binaries.postgres, "--single", "-D", fresh, "postgres"],
            stdin=f"CREATE DATABASE {DATABASE};\n",
        )
        fresh.rename(self.data)
        sync_directory(self._home)

    def _run(self, command: Sequence[str | Path], stdin: str = "") -> None:
        done = subprocess.run(
            command,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd="/",
            env=clean_environment(),
            **self._account.popen_arguments(),
        )
        if done.returncode != 0:
            raise EmbeddedPostgresFailed(f"{command[0]} failed:\n{done.stdout[-2000:]}")

    def _is_ready(self) -> bool:
        lines = self._pid_file_lines()
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _pid_file_lines(self) -> list[str]:
        try:
            return (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return []

    def _clear_stale_pid_file(self) -> None:
        """Waits for a dying predecessor; drops a file whose pid now names some other program.

        Process ids repeat (in a container from the first on), and Postgres would refuse to start
        because of an unrelated process of the same user. It also does while a child of a server
        that was killed still has its shared memory.
        """
        deadline_s = time.monotonic() + PREDECESSOR_TIMEOUT_S
        while lines := self._pid_file_lines():
            pid = int(lines[0])
            if not _is_postgres_in(pid, self.data) and not _has_children(lines):
                (self.data / "postmaster.pid").unlink(missing_ok=True)
                return
            if time.monotonic() > deadline_s:
                raise EmbeddedPostgresFailed(f"process {pid} is already serving {self.data}")
            time.sleep(_POLL_S)

    def _with_log(self, what: str) -> str:
        try:
            tail = self.log_file.read_bytes()[-2000:].decode(errors="replace")
        except FileNotFoundError:
            tail = "(no log)"
        return f"Postgres {what}; the end of {self.log_file}:\n{tail}"


def _die_with(parent: int) -> Callable[[], None]:
    def in_child() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # it died before the signal was armed
            os._exit(1)

    return in_child


def _is_postgres_in(pid: int, data: Path) -> bool:
    """Return whether that process is a Postgres whose working directory is `data`."""
    process = Path("/proc") / str(pid)
    try:
        if process.joinpath("comm").read_text().strip() != "postgres":
            return False
        return process.joinpath("cwd").resolve() == data.resolve()
    except OSError:
        return False


def _has_children(pid_file: Sequence[str]) -> bool:
    """Return whether some process still has the shared memory that `postmaster.pid` names."""
    ids = pid_file[6].split() if len(pid_file) > 6 else []
    if len(ids) != 2:
        return False
    try:
        segments = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
    except OSError:
        return False
    # key, shmid, perms, size, cpid, lpid, nattch, …
    return any(row[:2] == ids and row[6] != "0" for row in map(str.split, segments))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock, so that two processes that start at once on one directory create the
    data once.
    """
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Names in it are durable when it returns; raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
