"""`packetboat up`: Postgres, three store nodes, a server and a runner of exports on one machine,
under one process.

Order of start: data directory locked → Postgres and store nodes → migrations → server → banner →
runner, where Spark is installed. Order of stop: runner (gives its run back) → server (drains,
releases its leases) → store nodes → Postgres. A child that dies is started again; when the
supervisor itself dies, by whatever signal, the kernel ends its children.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import signal
import sys
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import IO, Any

from auth.development import dev_token, token_hash
from gateway.configuration.settings import UpSettings, format_addresses, inherited_environment
from gateway.up import export_runner
from gateway.up.banner import Exports, banner, client_env
from gateway.up.child import Child, Launch, launch_anew
from gateway.up.data_dir import (
    Claims,
    DataDir,
    DataDirInUse,
    Ports,
    PortTaken,
    State,
    are_free,
    choose_ports,
)
from metadata.postgres.binaries import PostgresNotFound
from metadata.postgres.current import is_current
from metadata.postgres.embedded import EmbeddedPostgres, EmbeddedPostgresFailed

NODES = (1, 2, 3)
GROUPS = 8
PROGRAM = Path(__file__).resolve().parents[1] / "__main__.py"
"""The program of the children, wherever the package lies."""
RUNNER = "export-runner"
START_TIMEOUT_S = 90.0
"""Seconds after which a start has failed in which nothing new happens."""
SHOW_EVERY_S = 5.0
START_ATTEMPTS = 3
MAX_EARLY_DEATHS = 5
SERVER_STOP_S = 20.0
NODE_STOP_S = 10.0
LOOPBACK = ("http://127.0.0.0/8:*", "http://[::1]:*")
"""Endpoints of a developer's own: the development tenant pushes to them."""


class StartFailed(Exception):
    """The installation did not come up; the text says which part and why."""


def run(settings: UpSettings, launch: Launch = launch_anew) -> int:
    """Runs until SIGINT or SIGTERM; returns the exit code."""
    return asyncio.run(Supervisor(settings, launch).run())


class Supervisor:
    """One run of the installation in one data directory."""

    def __init__(self, settings: UpSettings, launch: Launch = launch_anew) -> None:
        """`launch` starts the commands of this program."""
        self._settings = settings
        self._launch = launch
        self._data_dir = DataDir(settings.data_dir)
        self._claims = Claims()
        self._stop = asyncio.Event()
        self._children: list[Child] = []
        self._keepers: set[asyncio.Task[None]] = set()
        self._postgres: EmbeddedPostgres | None = None

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop.set)
        try:
            state = self._data_dir.open()
            say(f"Starting Packetboat in {self._data_dir.path} …")
            await self._run(state)
        except (
            DataDirInUse,
            PortTaken,
            StartFailed,
            EmbeddedPostgresFailed,
            PostgresNotFound,
            ValueError,
        ) as error:
            say(f"packetboat up failed: {error}", sys.stderr)
            return 1
        finally:
            await self._shut_down()
            self._data_dir.close()
        say("Packetboat has stopped; its data is kept.")
        return 0

    async def _run(self, state: State) -> None:
        settings = self._settings
        token = dev_token(self._data_dir.token_file)
        environment: dict[str, str] = {}
        for attempt in range(1, START_ATTEMPTS + 1):
            ports = state.ports = choose_ports(
                settings.host, settings.port, state.ports, self._claims
            )
            self._data_dir.save(state)
            try:
                environment = await self._start(state, ports, token)
                break
            except (StartFailed, EmbeddedPostgresFailed) as error:
                await self._stop_children()
                # Another program may have taken a port between our look and our child's bind.
                if attempt == START_ATTEMPTS or are_free(settings.host, ports):
                    raise
                note(f"a port was taken meanwhile; trying others ({str(error).splitlines()[0]})")
        if self._stop.is_set():
            return
        url = self._url(ports)
        self._data_dir.write_private("client.env", client_env(url, token).encode())
        operator = self._data_dir.operator_file
        exports = self._exports()
        there = operator if operator.exists() else None
        say(banner(url, token, settings.data_dir, there, exports))
        if exports is Exports.RUN:
            self._own(self._run_exports(environment, url))
        await self._stop.wait()
        say("Stopping …")

    async def _start(self, state: State, ports: Ports, token: str) -> dict[str, str]:
        """Returns when everything serves, or when told to stop meanwhile: the environment of a
        server's processes."""
        settings = self._settings
        for node in NODES:
            self._keep(self._store_node(node, state, ports))
        database_url = settings.database_url or await self._start_postgres(ports)
        environment = self._environment(state, ports) | {"PACKETBOAT_DATABASE_URL": database_url}
        if self._stop.is_set():
            return environment
        current = await is_current(database_url)
        if not current:
            await self._migrate(state, environment)
        server = self._server(environment | {"PACKETBOAT_DEV_TOKEN_SHA256": token_hash(token)})
        self._keep(server)
        if current and not state.has_operator:
            await self._migrate(state, environment)
        await self._until_ready(ports.http, server, token)
        return environment

    async def _start_postgres(self, ports: Ports) -> str:
        postgres = EmbeddedPostgres(self._data_dir.postgres, port=ports.postgres)
        await asyncio.to_thread(postgres.prepare)
        # On this thread, which lives as long as the process: see metadata/postgres/embedded.py.
        postgres.spawn()
        self._postgres = postgres
        await asyncio.to_thread(postgres.wait_ready)
        self._own(self._keep_postgres(postgres))
        return postgres.url

    async def _keep_postgres(self, postgres: EmbeddedPostgres) -> None:
        while True:
            await asyncio.sleep(0.2)
            if postgres.poll() is not None and not self._stop.is_set():
                note(f"Postgres ended (exit code {postgres.poll()}); starting it again")
                try:
                    postgres.spawn()
                    await asyncio.to_thread(postgres.wait_ready)
                except EmbeddedPostgresFailed as error:
                    note(str(error))
                    await asyncio.sleep(5.0)

    async def _migrate(self, state: State, environment: dict[str, str]) -> None:
        """Migrate the database; at a first start, make the first operator in the same process.

        The operator's credential goes to a file and not to a log. If an operator exists already,
        none is made.
        """
        command = ["migrate"]
        if not state.has_operator:
            command += ["--operator-file", str(self._data_dir.operator_file)]
        migrate = self._child("migrate", command, environment)
        await migrate.start()
        if await migrate.wait() != 0:
            raise StartFailed(f"the migration of Postgres failed:\n{migrate.tail()}")
        if not state.has_operator:
            state.has_operator = True
            self._data_dir.save(state)

    def _exports(self) -> Exports:
        if not self._settings.exports:
            return Exports.OFF
        return Exports.RUN if export_runner.is_installed() else Exports.NOT_INSTALLED

    async def _run_exports(self, environment: dict[str, str], url: str) -> None:
        """Start the export runner after all else, since nothing waits for it.

        Where it cannot run, the rest is still there, and the reason is told.
        """
        file = self._data_dir.runner_file
        command = ["operator", "create", export_runner.OPERATOR, "--credential-file", str(file)]
        command += ["--permission", export_runner.PERMISSION]
        try:
            if not file.exists():
                operator = self._child("operator", command, environment)
                await operator.start()
                if await operator.wait() != 0:
                    raise OSError(f"there is no operator for them:\n{operator.tail()}")
            lakes = export_runner.lakes(self._data_dir, environment["PACKETBOAT_DATABASE_URL"])
            self._data_dir.write_private(export_runner.LAKES_FILE, lakes)
            given = export_runner.environment(environment, self._data_dir, url)
        except OSError as error:
            note(f"exports do not run: {error}")
            return
        log = self._data_dir.log(RUNNER)
        runner = Child(RUNNER, export_runner.COMMAND, given, log, stop_s=export_runner.STOP_S)
        self._keep(runner)

    def _url(self, ports: Ports) -> str:
        return f"http://{_url_host(self._settings.host)}:{ports.http}"

    def _environment(self, state: State, ports: Ports) -> dict[str, str]:
        nodes = {node: ("127.0.0.1", ports.store[node - 1]) for node in NODES}
        inherited = inherited_environment()
        return inherited | {
            "PACKETBOAT_DATA_DIR": str(self._data_dir.path),
            "PACKETBOAT_HOST": self._settings.host,
            "PACKETBOAT_PORT": str(ports.http),
            "PACKETBOAT_METRICS_PORT": inherited.get("PACKETBOAT_METRICS_PORT")
            or str(ports.metrics),
            "PACKETBOAT_STORE_NODES": format_addresses(nodes),
            "PACKETBOAT_STORE_GROUPS": str(GROUPS),
            "PACKETBOAT_CLUSTER_UID": state.cluster_uid,
            "PACKETBOAT_STORE_SECRET": state.store_secret,
            "PACKETBOAT_ACK_SECRET": state.ack_secret,
            "PACKETBOAT_SEAL_KEYS": state.seal_keys,
            "PACKETBOAT_ISSUER": inherited.get("PACKETBOAT_ISSUER") or self._url(ports),
            "PACKETBOAT_DEV_EGRESS_ALLOWED": ",".join(self._reached_by_developers(inherited)),
            "PACKETBOAT_LOG_LEVEL": self._settings.log_level,
            # There is no other server to go to.
            "PACKETBOAT_LINGER_S": inherited.get("PACKETBOAT_LINGER_S") or "0",
        }

    def _reached_by_developers(self, inherited: Mapping[str, str]) -> list[str]:
        """Return addresses that pushes may reach besides public ones.

        This machine's are among them, unless other machines reach the server: a program
        that listens on loopback may trust any client that can connect to it, and a push must not be
        the way of others there.
        """
        given = [each for each in [inherited.get("PACKETBOAT_DEV_EGRESS_ALLOWED")] if each]
        return [*given, *LOOPBACK] if _is_loopback(self._settings.host) else given

    def _store_node(self, node: int, state: State, ports: Ports) -> Child:
        environment = self._environment(state, ports) | {
            "PACKETBOAT_STORE_NODE_ID": str(node),
            "PACKETBOAT_STORE_DIR": str(self._data_dir.node(node)),
        }
        return self._child(f"node-{node}", ["store-node"], environment, stop_s=NODE_STOP_S)

    def _server(self, environment: dict[str, str]) -> Child:
        return self._child("server", ["serve"], environment, stop_s=SERVER_STOP_S)

    def _child(
        self, name: str, arguments: list[str], environment: dict[str, str], *, stop_s: float = 10.0
    ) -> Child:
        # -P: not the directory that the user is in, which may have modules of any name.
        command = [sys.executable, "-P", str(PROGRAM), *arguments]
        log = self._data_dir.log(name)
        return Child(name, command, environment, log, stop_s=stop_s, launch=self._launch)

    def _keep(self, child: Child) -> None:
        self._children.append(child)
        self._own(child.keep_running(note))

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        task.add_done_callback(_note_failure)
        self._keepers.add(task)

    async def _until_ready(self, port: int, server: Child, token: str) -> None:
        """Return when ready or told to stop. Raises StartFailed where nothing moves any more.

        Work that comes first, such as the repair of a restored Postgres or the claims of many
        partitions, takes as long as it takes: the server says how far it is. A reason that it gave
        before in this start is no progress, so reasons that take turns do not go on for ever.
        """
        began_s = moved_s = shown_s = time.monotonic()
        said: set[str] = set()
        while not self._stop.is_set():
            status, reason = await _get(self._settings.host, port, "/readyz", token)
            if status == 200:
                # Only our own server knows our token; another one may sit on the port.
                status, reason = await _get(self._settings.host, port, "/topics", token)
            if status == 200:
                return
            now_s = time.monotonic()
            if reason not in said:
                said.add(reason)
                moved_s = now_s
            if now_s - shown_s > SHOW_EVERY_S:
                shown_s = now_s
                note(f"starting for {now_s - began_s:.0f} s: {_told(reason)}")
            for child in self._children:
                if child.starts > MAX_EARLY_DEATHS:
                    raise StartFailed(f"{child.name} dies at its start:\n{child.tail()}")
            if now_s - moved_s > START_TIMEOUT_S:
                raise StartFailed(
                    f"nothing has moved for {START_TIMEOUT_S:.0f} s ({_told(reason)}):\n"
                    f"{server.tail()}"
                )
            await asyncio.sleep(0.05)

    async def _shut_down(self) -> None:
        """Stop everything in order; a second Ctrl-C changes nothing, as each step is bounded."""
        self._stop.set()
        await self._stop_children()

    async def _stop_children(self) -> None:
        # Clients stop before the processes that they ask.
        waves = {RUNNER: 0, "server": 1}
        for wave in range(3):
            children = [child for child in self._children if waves.get(child.name, 2) == wave]
            await asyncio.gather(*(child.stop() for child in children))
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        if self._postgres is not None:
            await asyncio.to_thread(self._postgres.stop)
        self._postgres = None
        self._children.clear()
        self._keepers.clear()


def _note_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        note(f"the supervisor failed to keep a child running: {error!r}")


async def _get(host: str, port: int, path: str, token: str) -> tuple[int, str]:
    """Return the status, 0 for none, and the body or the error."""
    request = (
        f"GET {path} HTTP/1.1\r\nHost: local\r\nAuthorization: Bearer {token}\r\n"
        "Connection: close\r\n\r\n"
    )
    try:
        async with asyncio.timeout(2.0):
            reader, writer = await asyncio.open_connection(_local(host), port)
            try:
                writer.write(request.encode("ascii"))
                answer = await reader.read()
            finally:
                writer.close()
    except (OSError, TimeoutError) as error:
        return 0, str(error) or "no answer in time"
    head, _, body = answer.partition(b"\r\n\r\n")
    parts = head.split(b" ", 2)
    status = int(parts[1]) if len(parts) > 2 and parts[1].isdigit() else 0
    return status, body.decode(errors="replace")


def _told(reason: str) -> str:
    """Return the detail of a problem object, else the text as it is."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return str(json.loads(reason)["detail"])
    return reason


def _is_loopback(host: str) -> bool:
    """Return whether only programs of this machine reach that address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _local(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _url_host(host: str) -> str:
    local = _local(host)
    return f"[{local}]" if ":" in local else local


def say(text: str, stream: IO[str] | None = None) -> None:
    """Tell people a text at once, also through a pipe."""
    target = stream or sys.stdout
    target.write(text + "\n")
    target.flush()


def note(text: str) -> None:
    say(f"{time.strftime('%H:%M:%S')} {text}", sys.stderr)
