"""Recovery of missing data from peers: `Repair` and `Installer`, and what both need of the node."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import structlog

from peering.tls import PeerTls
from store_nodes.client import SnapshotImage, StoreClient
from store_nodes.consensus.acceptor import Acceptor
from store_nodes.errors import StoreError
from store_nodes.machine.machine import Machine
from store_nodes.membership import VOTER, Membership
from store_nodes.node.group import Group
from store_nodes.node.install import Installer
from store_nodes.node.repair import Repair, note_lost_votes, note_missing
from store_nodes.node.start import Started
from store_nodes.storage.batch_index import BatchIndex
from store_nodes.storage.damage import DamageReport
from store_nodes.storage.traces import MOST_TOLD, Accepted
from store_nodes.wal.batch_frame import batch_record, moved
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.position import Position

if TYPE_CHECKING:
    from store_nodes.node.node import Node

FIRST_MACHINE_S = 5.0

log = structlog.get_logger()


class Recovering:
    """Repair and install of one node."""

    def __init__(self, node: Node, started: Started, boot: int, tls: PeerTls | None) -> None:
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
        """Whether the groups must not take part yet."""
        return self.repair.holds_back

    def status(self) -> dict[str, object]:
        """Return the part of the node's status about recovery."""
        report = self.repair.report
        return {
            "damaged": str(report) if report is not None else None,
            "votes_lost": report is not None and report.votes,
            "lost": [
                one._asdict() | {"queue": one.queue.hex()}
                for one in self.repair.missing[:MOST_TOLD]
            ],
            "traces": [one.row() for one in self.repair.traces[:MOST_TOLD]],
            "installing": self.installer.status(),
        }

    def stop(self) -> None:
        self.repair.stop()
        self.installer.stop()

    # -- calls of both -------------------------------------------------------------------------

    @property
    def batches(self) -> BatchIndex:
        return self._started.batches

    def groups(self) -> Iterable[Group]:
        return self._node.groups.values()

    async def keep(self, group: int, found: Sequence[tuple[BatchEntry, bytes]]) -> None:
        """Write, sync and index batches; return when all of them are on disk."""
        written: asyncio.Future[list[Position]] = asyncio.get_running_loop().create_future()
        records = [batch_record(group, entry, batch) for entry, batch in found]

        def on_disk(positions: list[Position]) -> None:
            if not written.done():  # A stop ends the copy at any time.
                written.set_result(positions)

        self._node.submit(records, True, on_disk)
        for (entry, batch), position in zip(found, await written, strict=True):
            placed = moved(entry, position, len(batch))
            if self.batches.add_entry(placed):
                self._node.note_batch(placed)

    def accepted(self, group: int) -> Accepted:
        """Return the values of a group that this node has accepted and may not have applied."""
        return self.acceptor(group).accepted

    def store_client(self) -> StoreClient:
        """Return a client of the peers, not started."""
        return StoreClient(
            self._node.members.addresses(),
            groups=[group.id for group in self._node.groups.values()],
            secret=self._settings.secret,
            tls=self._tls,
            cluster_uid=self._settings.cluster_uid,
            own_node=self._settings.node_id,
        )

    def sources(self, best: int | None = None) -> list[int]:
        """Return the nodes to ask: `best` first, then the others in random order."""
        others = [
            node
            for node in self._node.members.addresses()
            if node not in (best, self._settings.node_id)
        ]
        random.shuffle(others)
        return others if best is None else [best, *others]

    def damage_found(self, report: DamageReport) -> None:
        """Handle damage that a reader, a compaction or the scrubber found; the list of damages has
        it.
        """
        if report.votes:
            # It is above the checkpoint, but the state in memory is whole, and the next checkpoint
            # makes it whole on disk, too. A start before that finds the list, and votes as a node
            # that lost votes.
            log.error("damage above the checkpoint", damage=str(report))
            self._node.want_checkpoint()
        self.repair.found(report)

    # -- repair --------------------------------------------------------------------------------

    @property
    def installing(self) -> bool:
        """Whether an install is under way.

        The next start may then begin with machines of peers, which name more messages than the
        present ones.
        """
        return self.installer.pending

    def may_begin(self) -> None:
        """Let the groups take part, because the peers were asked once."""
        self._node.take_part()

    # -- groups that a checkpoint counts and does not have ---------------------------------------

    async def first_machines(self, groups: Iterable[int]) -> dict[int, Machine]:
        """Return a peer's machines for groups that have no instance yet, with their first members.

        A group that has an instance is installed once its leader is heard of.
        """
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
        """Return the present acceptor of a group."""
        return self._node.groups[group].replica.state.acceptor

    def set_installing(self, group: int, installing: bool) -> None:
        """Tell the group's leader whether an install is under way."""
        self._node.groups[group].replica.state.installing = installing

    async def finish_install(self, images: dict[int, SnapshotImage], *, whole: bool) -> None:
        """Write the checkpoint with these machines and start again.

        If it is not `whole`, that start fetches the messages that they name and this node lacks.
        """
        machines = {group: Machine.restore(group, image.raw) for group, image in images.items()}
        me = self._settings.node_id
        at_home = self._is_voter(self._node.groups[0].replica.state.membership)
        for group, machine in machines.items():
            replica = self._node.groups[group].replica
            unknown = replica.state.voting and not replica.state.membership.members
            if unknown and not at_home and self._is_voter(machine.membership):
                # A new node is a learner first: a voter that knows nothing has lost its directory.
                # A node that votes in group 0 has its directory, and was away when this group was
                # added.
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
