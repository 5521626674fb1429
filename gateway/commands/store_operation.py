"""Carries out `packetboat store …`: finds the store, runs one operation on it, says how it went."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from rich.live import Live

from gateway import logs
from gateway.commands.store_view import ProgressDisplay, tables, terminal
from gateway.configuration.settings import Role, ServerSettings, log_level
from gateway.up.data_dir import State
from gateway.up.supervisor import GROUPS
from peering.settings import PeerSettings
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls, open_peer_tls
from store_nodes.admin import AdminError, NotFinished, Operator, Overview, health
from store_nodes.client import StoreClient
from store_nodes.errors import OutcomeUnknown, StoreError, Unavailable
from store_nodes.settings import Address

DONE = 0
REFUSED = 1
WRONG_USE = 2
NOT_FINISHED = 3
WATCH_EVERY_S = 1.0
CONNECT_S = 5.0

R = TypeVar("R")
Work = Callable[[Operator], Awaitable[R]]


class StoreAddresses(NamedTuple):
    """The addresses of the store, and the secrets to reach it."""

    nodes: dict[int, Address]
    groups: int
    secret: SharedSecret
    tls: PeerTls | None = None

    def client(self, cluster_uid: bytes = b"") -> StoreClient:
        """Return a client that is not started; it refuses nodes of another cluster than
        `cluster_uid`.
        """
        return StoreClient(
            self.nodes,
            groups=range(self.groups),
            secret=self.secret,
            cluster_uid=cluster_uid,
            tls=self.tls,
        )


def find(data_dir: Path | None) -> StoreAddresses:
    """Return the store of a `packetboat up`, or the one in the environment.

    Raises ValueError or OSError.
    """
    # The command reports a failure once; a node that is down is no news here.
    logs.configure("error" if log_level() == "info" else log_level(), role="store")
    if data_dir is not None:
        return _of_data_dir(data_dir)
    settings = ServerSettings.from_environment(role=Role.PUBLISH)
    assert settings.store_secret is not None
    tls = open_peer_tls(PeerSettings.from_environment())
    return StoreAddresses(settings.store_nodes, settings.store_groups, settings.store_secret, tls)


def _of_data_dir(data_dir: Path) -> StoreAddresses:
    state = msgspec.json.decode((data_dir / "state.json").read_bytes(), type=State)
    if state.ports is None:
        raise ValueError(f"{data_dir} was never started")
    nodes = {node: ("127.0.0.1", port) for node, port in enumerate(state.ports.store, 1)}
    tls = open_peer_tls(PeerSettings.from_environment())
    return StoreAddresses(nodes, GROUPS, SharedSecret.from_text(state.store_secret), tls)


def run(store: StoreAddresses, work: Work[object], timeout_s: float = 600.0) -> int:
    """Run one operation that changes something, and show its progress; return the exit status."""
    with ProgressDisplay(terminal()) as board:
        status, _ = _finish(store, work, timeout_s, board)
    return status


def show(store: StoreAddresses, *, watch: bool, json: bool) -> int:
    """Show the overview, once or for ever; return the exit status, which says whether the
    store is well.
    """
    status, seen = _finish(store, lambda operator: _show(operator, watch, json), 60.0, None)
    if seen is None:
        return status
    well = bool(seen.groups) and all(
        row.leader is not None and row.spare >= 0 for row in seen.groups
    )
    return DONE if well else REFUSED


def show_nodes(store: StoreAddresses) -> int:
    """Print the nodes, as a setting; return the exit status."""
    status, seen = _finish(store, lambda operator: operator.stable_overview(), 60.0, None)
    if seen is not None:
        sys.stdout.write(health.setting(seen) + "\n")
    return status


def _finish(
    store: StoreAddresses, work: Work[R], timeout_s: float, board: ProgressDisplay | None
) -> tuple[int, R | None]:
    try:
        return DONE, asyncio.run(_operate(store, work, timeout_s, board))
    except (NotFinished, OutcomeUnknown) as error:
        sys.stderr.write(f"packetboat store: not finished: {error}\n")
        return NOT_FINISHED, None
    except (AdminError, StoreError) as error:
        sys.stderr.write(f"packetboat store: {error}\n")
        return REFUSED, None
    except KeyboardInterrupt:
        return NOT_FINISHED, None


async def _operate(
    store: StoreAddresses, work: Work[R], timeout_s: float, board: ProgressDisplay | None
) -> R:
    client = store.client()
    await client.start()
    try:
        await _until_connected(client)
        if board is None:
            return await work(Operator(client, timeout_s=timeout_s))
        return await work(Operator(client, progress=board.tell, timeout_s=timeout_s))
    finally:
        await client.close()


async def _until_connected(client: StoreClient) -> None:
    """Wait for a connection to one node; the others come up while the operation looks around."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + CONNECT_S
    while not client.connected:
        if loop.time() >= deadline_s:
            raise Unavailable(f"no store node answers: {client.failures()}")
        await asyncio.sleep(0.02)


async def _show(operator: Operator, watch: bool, json: bool) -> Overview:
    seen = await operator.stable_overview()
    if json:
        while True:
            sys.stdout.write(_json(seen) + "\n")
            sys.stdout.flush()
            if not watch:
                return seen
            await asyncio.sleep(WATCH_EVERY_S)
            seen = await operator.overview()
    console = terminal()
    if not watch:
        console.print(tables(seen))
        return seen
    with Live(tables(seen), console=console, screen=console.is_terminal) as live:
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            live.update(tables(await operator.overview()))


def _json(seen: Overview) -> str:
    return msgspec.json.encode({"nodes": seen.nodes, "groups": seen.groups}).decode()
