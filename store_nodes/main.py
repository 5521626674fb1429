"""The store-node process: open the log, join the peers, serve until told to stop.

Any failed write or sync ends the process at once, with status 70 and nothing more sent: what the
kernel did with the pages is unknown, and only a restart that reads them back can tell.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import structlog
import uvloop

from store_nodes.node import Node
from store_nodes.settings import StoreNodeSettings
from store_nodes.start import load
from store_nodes.transport.handshake import Identity
from store_nodes.transport.peers import PeerNetwork
from store_nodes.transport.server import StoreServer
from store_nodes.wal.group_commit import GroupCommit

EXIT_FATAL = 70

log = structlog.get_logger()


def main(settings: StoreNodeSettings) -> int:
    """Run the node until SIGTERM or SIGINT; the process's exit status."""
    if not __debug__:
        print("refused: assertions guard the log, do not run with -O", file=sys.stderr)  # noqa: T201
        return 2
    return uvloop.run(_run(settings))


def fatal(reason: str) -> None:
    """Leave at once: no handler, no flush, no goodbye."""
    log.critical("store node stops", reason=reason)
    sys.stderr.flush()
    os._exit(EXIT_FATAL)


def _on_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A callback that failed half-way leaves a state that nobody knows: the log knows better."""
    error = context.get("exception")
    if error is not None:
        log.critical("unhandled", exc_info=error)
    fatal(str(context.get("message")))


def _on_flushing_done(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        fatal(f"group commit: {error!r}")


async def _run(settings: StoreNodeSettings) -> int:
    started = load(settings)
    commit = GroupCommit(started.wal, on_fatal=lambda error: fatal(f"log: {error}"))
    identity = Identity(
        secret=settings.secret,
        cluster_uid=settings.cluster_uid,
        node=settings.node_id,
        incarnation=bytes.fromhex(started.wal.identity.incarnation_uid),
    )
    node = Node(settings, started, commit, fatal=fatal)
    peers = PeerNetwork(identity, settings.peers, node)
    server = StoreServer(node, identity, admit_peer=peers.admit, adopt_peer=peers.adopt)
    node.connect(peers, server)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_on_unhandled)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    flushing = asyncio.create_task(commit.run(), name="group-commit")
    flushing.add_done_callback(_on_flushing_done)
    await server.start(*settings.listen)
    node.start()
    await peers.start()
    log.info("store node serves", node=settings.node_id, listen=settings.listen)
    await stop.wait()
    log.info("store node stops", node=settings.node_id)
    await node.stop()
    await server.close()
    await peers.close()
    await commit.close()
    await flushing
    started.wal.close()
    return 0
