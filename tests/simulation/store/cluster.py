"""The nodes of a run, each the product's own program, and their supervisor."""

from __future__ import annotations

import logging
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import structlog

import store_nodes.main as product
from peering.shared_secret import SharedSecret
from store_nodes.node.start import CheckpointDraft
from store_nodes.settings import Address, StoreNodeSettings
from store_nodes.wal.disk import Disk
from store_nodes.wal.log import WriteAheadLog
from tests.simulation.kernel.disk import ProcessDisk
from tests.simulation.kernel.loop import run
from tests.simulation.kernel.world import SECOND, Machine, Process, World
from tests.simulation.store.options import Options
from tests.simulation.store.oracle import Violation

SECRET = SharedSecret(bytes(range(32)))
CLUSTER_UID = bytes(range(16))
PORT = 7000
HOARD_BYTES = 16 * 1024 * 1024
CREEP_BYTES = 4 * 1024
AGAIN = -1
"""Status of a process that starts again in place."""
DATA = Path("/data")
CHECKPOINTS = DATA / "checkpoints"


class SimHost:
    """`store_nodes.main.Host` in a simulated process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.disk: Disk = ProcessDisk(process)

    def run(self, work: Coroutine[Any, Any, int]) -> int:
        return run(self._process, work)

    def leave(self, status: int) -> NoReturn:
        self._process.leave(status)

    def start_again(self) -> NoReturn:
        self._process.leave(AGAIN)


class Cluster:
    """Machines `node-1` … and the process that each runs, when it runs one."""

    def __init__(self, world: World, options: Options) -> None:
        self.world = world
        self.options = options
        self.ids = list(range(1, options.nodes + 1))
        """The nodes there are now."""
        self.lost: set[int] = set()
        """Nodes whose disk is gone: they must be refused under their old id."""
        self.running: dict[int, Process] = {}
        self.wanted: set[int] = set()
        """Nodes that the supervisor keeps running."""
        self.damaged: int | None = None
        """The one node whose disk may rot: two could lose what is there only twice."""
        self.creeping: int | None = None
        """The node that copies by far the slowest, from its next start on."""
        self.peers: dict[int, Address] = {
            node: (host_of(node), PORT) for node in range(1, options.nodes + 1)
        }
        self.last_words: dict[int, list[str]] = {}
        self.leader = 0
        """The node that was last said to lead group 0."""
        self.reaching_back: set[int] = set()
        """Nodes whose last draft of a checkpoint needs records of a segment that the log has left:
        values that are not applied yet."""
        self.listeners: list[Any] = []
        """Called with (node, event, fields) of each line that a node logs."""

    def machine(self, node: int) -> Machine:
        return self.world.machine(host_of(node))

    def settings(self, node: int) -> StoreNodeSettings:
        options = self.options
        return StoreNodeSettings(
            node_id=node,
            data_dir=DATA,
            listen=(host_of(node), PORT),
            peers=self.peers,
            cluster_uid=CLUSTER_UID,
            secret=SECRET,
            groups=options.groups,
            join=node not in self.peers,
            segment_bytes=options.segment_bytes,
            disk_reserve_bytes=0,
            lag_cap_bytes=HOARD_BYTES if node == options.hoarder else options.lag_cap_bytes,
            copy_bytes_per_s=CREEP_BYTES if node == self.creeping else options.copy_bytes_per_s,
        )

    # -- lives ---------------------------------------------------------------------------------

    def start(self, node: int) -> None:
        """Keep it running from now on."""
        self.wanted.add(node)
        machine = self.machine(node)
        if node in self.running:
            return
        if not machine.powered:
            machine.power_on()
        settings = self.settings(node)

        def program(process: Process) -> int:
            try:
                return product.main(settings, SimHost(process))
            except OSError as error:
                self.last_words.setdefault(node, []).append(repr(error))
                return 1

        process = machine.spawn(host_of(node), program)
        self.running[node] = process
        process.on_exit = lambda process: self._exited(node, process)

    def lose(self, node: int) -> int:
        """Lose the disk of a node for good; returns the id of the node that will take its place."""
        self.kill(node, power=True)
        self.machine(node).files.wipe()
        self.lost.add(node)
        self.ids.remove(node)
        new = max(*self.ids, *self.lost) + 1
        self.ids.append(new)
        if self.options.rot_every_s:
            # The others have what is there twice now, not three times.
            self.damaged = new
        return new

    def stop(self, node: int) -> None:
        """Ask it to stop, and let it be."""
        self.wanted.discard(node)
        if node in self.running:
            self.running[node].signal(signal.SIGTERM)

    def kill(self, node: int, *, power: bool) -> None:
        """Kill a node; it stays down until it is started."""
        self.wanted.discard(node)
        if power:
            self.machine(node).cut_power()
        elif node in self.running:
            self.running[node].kill()

    def kill_all(self) -> None:
        for node in list(self.running):
            self.kill(node, power=False)

    def _exited(self, node: int, process: Process) -> None:
        if self.running.get(node) is process:
            del self.running[node]
        if node in self.lost:
            if process.status == product.EXIT_REFUSED:
                self.world.hit("a lost directory refused")
            self.wanted.discard(node)
            return
        failed = not process.killed and process.status not in (0, AGAIN)
        if failed and node == self.damaged and process.status in (1, product.EXIT_FATAL):
            # A bad disk ends the node: a start reads back the bytes that are there.
            self.world.hit("ended by its disk")
            failed = False
        if failed:
            said = "; ".join(self.last_words.get(node, ())[-3:])
            self.world.fail(Violation(f"node {node} left with {process.status}: {said}"))
        elif node in self.wanted:
            # A supervisor starts ended processes; a process that starts again in place does so at
            # once.
            delay_us = 0 if process.status == AGAIN else SECOND // 10
            self.world.after(delay_us, self._revive, node)

    def _revive(self, node: int) -> None:
        if node in self.wanted:
            self.start(node)

    @contextmanager
    def drafts_watched(self) -> Iterator[None]:
        """Look at each draft of a checkpoint when it is begun."""
        original = CheckpointDraft.__init__

        def begun(draft: CheckpointDraft, groups: Any, wal: WriteAheadLog, *more: Any) -> None:
            original(draft, groups, wal, *more)
            fiber = self.world.current
            assert fiber is not None
            node = int(fiber.process.name.removeprefix("node-"))
            needed = [one for group in draft.groups for one in group.positions.values()]
            self.reaching_back.discard(node)
            if any(one.segment < wal.tail.segment for one in needed):
                self.reaching_back.add(node)

        with mock.patch.object(CheckpointDraft, "__init__", begun):
            yield

    # -- logs of nodes ---------------------------------------------------------------------------

    def logged(self, _: object, level: str, fields: dict[str, Any]) -> NoReturn:
        """Look at a log line, as a structlog processor."""
        fiber = self.world.current
        host = fiber.process.name if fiber is not None else ""
        if host.startswith("node-") and fiber is not None and not fiber.process.dead:
            node = int(host.removeprefix("node-"))
            event = fields.pop("event")
            error = fields.pop("exc_info", None)
            if isinstance(error, BaseException):
                fields["error"] = f"{error!r} in {_places(error)}"
            shown = {key: value for key, value in fields.items() if key != "seconds"}
            self.world.note("log", node, level, event, shown)
            if level == "critical":
                self.last_words.setdefault(node, []).append(f"{event} {shown}")
            if event == "leader" and fields["group"] == 0 and fields["leader"]:
                self.leader = int(fields["leader"])
            for listener in self.listeners:
                listener(node, event, fields)
        raise structlog.DropEvent

    def listen_to_logs(self) -> None:
        structlog.configure(
            processors=[self.logged],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=False,
        )


def host_of(node: int) -> str:
    return f"node-{node}"


def _places(error: BaseException) -> str:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{Path(code.co_filename).name}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return " < ".join(frames[-4:][::-1])
