"""What a node that lacks something does to get it from its peers: `Repair` and `Installer`, and
what both need of the node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from peering.tls import PeerTls
from store_nodes.client import SnapshotImage, StoreClient
from store_nodes.consensus.acceptor import Acceptor
from store_nodes.errors import StoreError
from store_nodes.group import Group
from store_nodes.install import Installer
from store_nodes.machine.machine import Machine
from store_nodes.members import Members
from store_nodes.membership import VOTER, Membership
from store_nodes.repair import Repair, note_lost_votes, note_missing
from store_nodes.start import Started
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.damage import DamageReport
from store_nodes.wal.batch_frame import batch_record, moved
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import Record
from store_nodes.wal.position import Position

FIRST_MACHINE_S = 5.0

log = structlog.get_logger()


class Whole(Protocol):
    """The node, as seen from here."""

    @property
    def members(self) -> Members: ...

    def groups(self) -> Iterable[Group]: ...

    def group(self, group: int) -> Group: ...

    def submit(
        self, records: Sequence[Record], must_sync: bool, done: Callable[[list[Position]], None]
    ) -> None: ...

    def note_batch(self, entry: BatchEntry) -> None: ...

    def take_part(self) -> None:
        """Nothing holds the groups back any more that did so here."""

    def want_checkpoint(self) -> None:
        """Soon."""

    async def start_again(self, images: Mapping[int, SnapshotImage]) -> None:
        """Write a checkpoint with these machines and start the process again."""

    def own(self, task: asyncio.Task[None]) -> None:
        """When it fails the node ends."""

    def refuse(self, reason: str) -> None:
        """End with the status that says that starting again is of no use."""


class Recovering:
    """Repair and install of one node."""

    def __init__(self, node: Whole, started: Started, boot: int, tls: PeerTls | None) -> None:
        settings = started.settings
        if started.damage is not None and started.damage.votes:
            note_lost_votes(started.wal, started.damage, boot)
        self._node = node
        self._started = started
        self._boot = boot
        self._settings = settings
        self._tls = tls
        self.repair = Repair(self, started.wal, started.damage, settings.copy_bytes_per_s, node.own)
        self.installer = Installer(self, settings.copy_bytes_per_s, node.own)

    @property
    def holds_back(self) -> bool:
        """The groups must not take part yet."""
        return self.repair.holds_back

    def status(self) -> dict[str, object]:
        """Part of the node's."""
        report = self.repair.report
        return {
            "damaged": str(report) if report is not None else None,
            "votes_lost": report is not None and report.votes,
            "lost": [
                one._asdict() | {"queue": one.queue.hex()} for one in self.repair.missing[:1000]
            ],
            "installing": self.installer.status(),
        }

    def stop(self) -> None:
        self.repair.stop()
        self.installer.stop()

    # -- what both ask -------------------------------------------------------------------------

    @property
    def batches(self) -> BatchIndex:
        return self._started.batches

    def groups(self) -> Iterable[Group]:
        return self._node.groups()

    async def keep(self, group: int, found: Sequence[tuple[BatchEntry, bytes]]) -> None:
        """Write, sync and index: returns when all of it is on disk."""
        written: asyncio.Future[list[Position]] = asyncio.get_running_loop().create_future()
        records = [batch_record(group, entry, batch) for entry, batch in found]
        self._node.submit(records, True, written.set_result)
        for (entry, batch), position in zip(found, await written, strict=True):
            placed = moved(entry, position, len(batch))
            if self.batches.add_entry(placed):
                self._node.note_batch(placed)

    def store_client(self) -> StoreClient:
        """A client of the peers, not started."""
        return StoreClient(
            self._node.members.addresses(),
            groups=[group.id for group in self._node.groups()],
            secret=self._settings.secret,
            tls=self._tls,
            cluster_uid=self._settings.cluster_uid,
            own_node=self._settings.node_id,
        )

    def sources(self, best: int | None = None) -> list[int]:
        """Whom to ask: `best` first, then the other nodes, by chance."""
        others = [
            node
            for node in self._node.members.addresses()
            if node not in (best, self._settings.node_id)
        ]
        random.shuffle(others)
        return others if best is None else [best, *others]

    def damage_found(self, report: DamageReport) -> None:
        """By a reader, a settle or the scrubber; the list of damages has it."""
        if report.votes:
            # Beyond the checkpoint, but what is in memory is whole: with the next checkpoint it is
            # so on disk too. A start before that finds the list, and votes as one that lost votes.
            log.error("damage above the checkpoint", damage=str(report))
            self._node.want_checkpoint()
        self.repair.found(report)

    # -- repair --------------------------------------------------------------------------------

    @property
    def installing(self) -> bool:
        """Whether an install is under way: the next start may then begin with machines of peers,
        which name more messages than those of now."""
        return self.installer.pending

    def may_begin(self) -> None:
        self._node.take_part()

    # -- groups that a checkpoint counts and does not have ---------------------------------------

    async def first_machines(self, groups: Iterable[int]) -> dict[int, Machine]:
        """Of groups that have no instance yet: the machine with their first members, as a peer has
        it. A group that has one is installed once its leader is heard of."""
        client = self.store_client()
        await client.start()
        found: dict[int, Machine] = {}
        try:
            for group in groups:
                for node in self.sources():
                    try:
                        image = await client.snapshot(group, node, timeout_s=FIRST_MACHINE_S)
                    except StoreError as error:
                        log.info("members not learned", group=group, reason=str(error))
                        continue
                    machine = Machine.restore(group, image.raw)
                    if machine.membership.members and not machine.applied:
                        found[group] = machine
                        break
        finally:
            await client.close()
        return found

    # -- install -------------------------------------------------------------------------------

    def acceptor(self, group: int) -> Acceptor:
        return self._node.group(group).replica.acceptor

    def set_installing(self, group: int, installing: bool) -> None:
        self._node.group(group).replica.installing = installing

    async def finish_install(self, images: dict[int, SnapshotImage], *, whole: bool) -> None:
        """Write the checkpoint with these machines and start again. Not `whole`: that start asks
        for what they name and this node has not."""
        machines = {group: Machine.restore(group, image.raw) for group, image in images.items()}
        me = self._settings.node_id
        at_home = self._is_voter(self._node.group(0).replica.membership)
        for group, machine in machines.items():
            replica = self._node.group(group).replica
            unknown = replica.voting and not replica.membership.members
            if unknown and not at_home and self._is_voter(machine.membership):
                # A new node is a learner first: a voter that knows nothing has lost its directory.
                # One that votes in group 0 has it, and was away when this group was added.
                self._node.refuse(
                    f"node {me} is a voter of group {group}, and this directory never was its own. "
                    f"Give it an empty directory and a new id: packetboat store replace-node {me} "
                    "NEW HOST:PORT"
                )
                return
        if not whole:
            await asyncio.to_thread(note_missing, self._started.wal, self._boot)
        await self._node.start_again(images)

    def _is_voter(self, membership: Membership) -> bool:
        member = membership.member(self._settings.node_id)
        return member is not None and member.role == VOTER
