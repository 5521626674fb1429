"""Repair of damage on this node's own disk.

*Batches are lost*: all damage is below the place that the checkpoint needs. Promises and state are
whole. The groups wait until the peers were asked for the batches once, then take part. Batches that
no peer gave are asked for again and again; until then, reads of them are refused by name.

*Votes are lost*: promises or accepted values may be gone. The groups take part at once without
voting. Each asks its leader to be made a learner, which only an instance chosen after the damage
does; it is allowed to vote when it is made a voter again (consensus/reconfiguration.py). That votes
were lost is in `damage.json` before anything else is written, because with the next checkpoint the
damaged place looks harmless.

The node tells its peers how lost batches were written (storage/traces.py): one of them may have
the bytes among values that it has accepted and cannot apply.

*An install lacked messages* that no peer gave, because one was away: the start after it finds that
in the list, too, and asks for them like for lost batches.

When both are over, the list of damages is marked as repaired, but not while an install is under
way. The install has copied batches that no machine of this node names yet, and the damage may have
taken some of them. The start after the install finds the list, and asks for the batches that its
machines name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from store_nodes.client import StoreClient
from store_nodes.node.copying import Copier, Missing, Sources
from store_nodes.node.group import Group
from store_nodes.storage.damage import DamageReport, LostBatch
from store_nodes.storage.traces import Trace, traces_of
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.recovery import Damage

if TYPE_CHECKING:
    from store_nodes.node.recovering import Recovering

RETRY_S = 2.0
MOST_RETRY_S = 60.0
NO_SEGMENT = 0xFFFF_FFFF
"""A number that no compacted segment reaches: damage that is in no file and costs no votes."""

log = structlog.get_logger()


def note_lost_votes(wal: WriteAheadLog, report: DamageReport, boot: int) -> None:
    """Record that votes may be lost, durably when this returns, so that it outlives the damaged
    place.
    """
    if not any(damage.segment == 0 for damage in wal.damages.open()):
        wal.damages.add(Damage(0, boot, boot, f"votes may be lost since start {boot}"))


def note_missing(wal: WriteAheadLog, boot: int) -> None:
    """Record that an install continues without messages that no peer gave; durable when this
    returns.

    Until they are fetched, every start asks for them.
    """
    wal.damages.add(Damage(NO_SEGMENT, boot, boot, f"an install in start {boot} lacked messages"))


class Repair:
    """The repair of one node's damage, from its start until there is none."""

    def __init__(
        self,
        host: Recovering,
        wal: WriteAheadLog,
        report: DamageReport | None,
        bytes_per_s: int,
        own: Callable[[asyncio.Task[None]], None],
    ) -> None:
        """Prepare a repair; `own` keeps the task and notices when it fails."""
        self.report = report
        self.missing: tuple[Missing, ...] = ()
        """Messages that were asked for and that no node had."""
        self.traces: list[Trace] = []
        """Traces of the lost batches: a peer may have their bytes without knowing it."""
        self._untraced: list[LostBatch] = list(report.lost) if report is not None else []
        self._tracing = asyncio.Lock()
        self._host = host
        self._wal = wal
        self._bytes_per_s = bytes_per_s
        self._own = own
        self._asked_once = report is None
        self._batches_whole = report is None
        self._covered: list[Damage] = []
        """The damages that the last attempt was to repair."""
        self._again = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def holds_back(self) -> bool:
        """Whether the groups wait for the first attempt."""
        return self.report is not None and not self.report.votes and not self._asked_once

    @property
    def tracing(self) -> bool:
        """Whether there are lost batches whose traces are not known yet."""
        return bool(self._untraced)

    def start(self) -> None:
        if self.report is not None:
            log.error("damaged", votes_lost=self.report.votes, damage=str(self.report))
            self._begin()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def found(self, report: DamageReport) -> None:
        """Repair damage that the running node found; the index has dropped the lost batches.

        The node keeps voting: the state that it needs for that is in memory, and below the next
        checkpoint.
        """
        before = self.report
        texts = before.texts if before is not None else ()
        self.report = DamageReport(
            votes=before is not None and before.votes, texts=(*texts, *report.texts)
        )
        if report.lost:
            # A peer may need the traces while an attempt goes on.
            self._untraced += report.lost
            self._own(asyncio.create_task(self._trace(), name="store-node-traces"))
        self._batches_whole = False
        self._again.set()
        if self._task is None or self._task.done():
            self._begin()

    def voting_allowed(self, group: Group) -> None:
        """Let a group vote, because a membership that answers this start's request is on the disk
        here.
        """
        log.info("may vote again", group=group.id)
        group.replica.set_voting()
        self._again.set()

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._run(), name="store-node-repair")
        self._own(self._task)

    async def _run(self) -> None:
        client = self._host.store_client()
        await client.start()
        wait_s = RETRY_S / 8
        try:
            while self.report is not None:
                self._again.clear()
                if not self._batches_whole:
                    # It is set again if more damage is found meanwhile, which this attempt may not
                    # cover.
                    self._batches_whole = True
                    self._covered = self._wal.damages.open()
                    filled = await self._fill(client)
                    self._batches_whole = self._batches_whole and filled
                if not self._asked_once:
                    self._asked_once = True
                    self._host.may_begin()
                report = self.report
                whole = self._batches_whole and self._may_vote_everywhere()
                if whole and not self._host.installing:
                    await asyncio.to_thread(self._wal.damages.repaired, self._covered)
                    log.info("repaired", damage=str(report))
                    if self.report is report:
                        self.report = None
                        self.traces = []
                    continue
                await self._pause(wait_s)
                wait_s = min(MOST_RETRY_S, wait_s * 2)
        finally:
            await client.close()

    async def _pause(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._again.wait()
        except TimeoutError:
            return

    async def _fill(self, client: StoreClient) -> bool:
        """Try once to fetch everything; return whether nothing is missing any more."""
        await self._trace()
        sources = Sources(client, self._host.sources())
        await sources.linked()
        copier = Copier(self._host, sources, self._bytes_per_s)
        missing: list[Missing] = []
        outdated = False
        for group in list(self._host.groups()):
            lack = await copier.fill(group.machine)
            missing += lack.missing
            outdated = outdated or lack.outdated
        self.missing = tuple(missing)
        log.info("asked peers for what is lost", copied_bytes=copier.copied_bytes)
        for one in missing:
            log.error("nobody has these messages", **one._asdict() | {"queue": one.queue.hex()})
        # This node's own machine will name the offsets that a truncation keeps, once it has applied
        # it.
        return not missing and not outdated

    async def _trace(self) -> None:
        """Find the traces of all batches that are known to be lost."""
        async with self._tracing:
            lost = list(self._untraced)
            if lost:
                self.traces += await asyncio.to_thread(traces_of, self._wal, lost)
                del self._untraced[: len(lost)]

    def _may_vote_everywhere(self) -> bool:
        """Return whether this node may vote in each of its groups.

        A group in which it is no member does not count. A group with an unknown membership does:
        that the node was its voter may be among the lost data.
        """
        assert self.report is not None
        return all(
            group.replica.state.voting
            for group in self._host.groups()
            if not group.replica.state.membership.members
            or group.replica.state.membership.member(group.replica.state.me) is not None
        )
