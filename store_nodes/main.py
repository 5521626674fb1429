"""The store-node process: open the log, join the peers, serve until told to stop.

Any failed write or sync ends the process at once, with status 70, and nothing more is sent: the
fate of the kernel's pages is unknown, and only a restart that reads them back can tell. The process
ends with status 78 if the data directory is another node's, or has less than the node itself or its
peers have seen of it. Another start does not help then, and the last log line says what does. A
node that has installed missing state starts again in place.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn, Protocol

import structlog
import uvloop

from peering.tls import PeerTls, PeerTlsError, open_peer_tls
from store_nodes.checkpoint.format import CheckpointBehind
from store_nodes.checkpoint.store import MANIFESTS
from store_nodes.node.boot import BootRecord, pack_tail
from store_nodes.node.known_peers import REMEDY, KnownPeers
from store_nodes.node.metrics_server import MetricsServer
from store_nodes.node.node import Node
from store_nodes.node.server import StoreServer
from store_nodes.node.start import Started, directories, load
from store_nodes.settings import StoreNodeSettings
from store_nodes.transport.handshake import Identity
from store_nodes.transport.peers import PeerNetwork
from store_nodes.wal import identity as identities
from store_nodes.wal.disk import Disk, OsDisk
from store_nodes.wal.errors import DirectoryLocked, IdentityMismatch, WalUnsupported
from store_nodes.wal.group_commit import GroupCommit

EXIT_FATAL = 70
EXIT_REFUSED = 78
_EXIT_AGAIN = -1

log = structlog.get_logger()


class Host(Protocol):
    """The system on which a node's process runs."""

    @property
    def disk(self) -> Disk: ...

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        """Return the result of `work`, run on an event loop of its own."""

    def leave(self, status: int) -> NoReturn:
        """End the process at once: no handler, no flush, no goodbye."""

    def start_again(self) -> NoReturn:
        """Replace the process by a new one that begins as this one did."""


class System:
    """The real operating system."""

    def __init__(self) -> None:
        self.disk: Disk = OsDisk()

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        return uvloop.run(work)

    def leave(self, status: int) -> NoReturn:
        sys.stderr.flush()
        os._exit(status)

    def start_again(self) -> NoReturn:
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def main(settings: StoreNodeSettings, host: Host | None = None) -> int:
    """Run the node until SIGTERM or SIGINT; return the process's exit status."""
    if not __debug__:
        print("refused: assertions guard the log, do not run with -O", file=sys.stderr)  # noqa: T201
        return 2
    try:
        tls = open_peer_tls(settings.peering)
    except PeerTlsError as error:
        print(f"refused: {error}", file=sys.stderr)  # noqa: T201
        return 2
    process = _Process(host or System())
    status = process.host.run(_run(settings, tls, process))
    if status == _EXIT_AGAIN:
        process.host.start_again()
    return status


class _Process:
    """The ways in which the process ends early."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def fatal(self, reason: str) -> NoReturn:
        """End the process at once; a restart may help."""
        log.critical("store node stops", reason=reason)
        self.host.leave(EXIT_FATAL)

    def refused(self, reason: str) -> NoReturn:
        """End the process at once, and say that a restart changes nothing."""
        log.critical("store node refused", reason=reason)
        self.host.leave(EXIT_REFUSED)

    def on_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the process after a callback failed half-way, because only the log can restore its
        state.
        """
        error = context.get("exception")
        if error is not None:
            log.critical("unhandled", exc_info=error)
        self.fatal(str(context.get("message")))

    def on_flushing_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fatal(f"group commit: {error!r}")


def _open(settings: StoreNodeSettings, disk: Disk) -> tuple[Started, BootRecord]:
    """Open the storage and count this start; raises the errors of `load`."""
    checkpoint_dir, wal_dir = directories(settings)
    for directory in (checkpoint_dir, wal_dir):
        disk.make_directory(directory)
    boot = BootRecord(settings.data_dir, disk=disk)
    kept = identities.load(disk, wal_dir)
    if boot.refusal is not None:
        raise IdentityMismatch(boot.refusal)
    if kept is None and not {*MANIFESTS}.isdisjoint(disk.names(checkpoint_dir)):
        raise IdentityMismatch(f"{settings.data_dir} holds checkpoints but no log")
    synced = boot.told(bytes.fromhex(kept.incarnation_uid)) if kept is not None else None
    started = load(settings, synced, disk=disk)
    boot.started(bytes.fromhex(started.wal.identity.incarnation_uid))
    return started, boot


async def _run(settings: StoreNodeSettings, tls: PeerTls | None, process: _Process) -> int:
    disk = process.host.disk
    try:
        started, boot = _open(settings, disk)
    except DirectoryLocked as error:
        log.critical("store node stops", reason=str(error))
        return EXIT_FATAL
    except (IdentityMismatch, WalUnsupported, CheckpointBehind) as error:
        text = str(error)
        if "replace-node" not in text:
            text += f". {_remedy(settings)}"
        log.critical("store node refused", reason=text)
        return EXIT_REFUSED
    commit = GroupCommit(started.wal, on_fatal=lambda error: process.fatal(f"log: {error}"))
    identity = Identity(
        secret=settings.secret,
        cluster_uid=settings.cluster_uid,
        node=settings.node_id,
        incarnation=bytes.fromhex(started.wal.identity.incarnation_uid),
        boot=boot.boot,
        tail=pack_tail(started.wal.tail),
        run=boot.run,
    )
    stop = asyncio.Event()

    def refused(reason: str) -> None:
        boot.refuse(reason)
        process.refused(reason)

    known = KnownPeers(settings.data_dir, disk=disk)
    node = Node(
        settings,
        started,
        commit,
        boot,
        known,
        fatal=process.fatal,
        refused=refused,
        restart=stop.set,
        tls=tls,
    )
    peers = PeerNetwork(
        identity,
        settings.peers,
        node,
        meet=node.meet,
        own_tail=lambda: node.told_tail,
        tls=tls,
    )
    server = StoreServer(
        node.clients, identity, admit_peer=peers.admit, adopt_peer=peers.adopt, tls=tls
    )
    node.connect(peers, server)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(process.on_unhandled)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    flushing = asyncio.create_task(commit.run(), name="group-commit")
    flushing.add_done_callback(process.on_flushing_done)
    watching = asyncio.create_task(tls.watch(), name="certificates") if tls is not None else None
    await server.start(*settings.listen)
    node.start()
    await peers.start()
    metrics = MetricsServer(node, old_names=settings.metrics_old_names)
    if settings.metrics is not None:
        metrics.start(settings.metrics)
    log.info("store node serves", node=settings.node_id, listen=settings.listen)
    await stop.wait()
    log.info("store node stops", node=settings.node_id)
    await metrics.close()
    await node.stop()
    await server.close()
    await peers.close()
    if watching is not None:
        watching.cancel()
    await commit.close()
    await flushing
    started.wal.close()
    return _EXIT_AGAIN if node.restarting else 0


def _remedy(settings: StoreNodeSettings) -> str:
    return (
        "Start the node with its own directory; if that is lost: "
        f"{REMEDY.format(node=settings.node_id)}"
    )
