"""Brings a node up to date that cannot learn its missing values instance by instance.

Its peers do not have those instances any more, or it is new and knows no members.

For each group, one peer gives its machine. Then the node fetches every live batch of it that its
own log lacks (copying.py). If peers meanwhile drop instances after it, or truncate a queue, they
give the machine once more, and the few batches since. Later instances are learned as usual. Then a
checkpoint with the machine is written, with this node's own promises, and the process starts again:
only the start, which is tested better than anything else, loads it.

Batches that no peer gave are fetched by a repair after that start, because a peer that has them may
be away now.

An install that is cut short loses nothing but time: fetched batches are kept, and the next attempt
fetches only the rest.

No group ever goes back, because it may have voted for values after the machine that it would go
back to. A source is told the least number of instances that the group needs, and refuses if it has
fewer itself. While an install copies, the group may continue from the log of another peer; then the
install ends, and an image that the group has passed is not used (`is_ahead`; start.CheckpointDraft
asks again in the turn in which the checkpoint is drafted).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from store_nodes.client import SnapshotImage, StoreClient
from store_nodes.consensus.acceptor import Acceptor
from store_nodes.errors import StoreError, Unavailable
from store_nodes.machine.machine import Machine
from store_nodes.node.copying import Copier, Sources

if TYPE_CHECKING:
    from store_nodes.node.recovering import Recovering

GATHER_S = 0.5
"""Seconds to wait for other groups that need an install, too: one restart serves all."""
RETRY_S = 2.0
ROUNDS = 20

log = structlog.get_logger()


class Want(NamedTuple):
    """A group that needs an image: `source` may give it, and has no instance below `oldest`."""

    source: int
    oldest: int


def is_ahead(acceptor: Acceptor, applied: int) -> bool:
    """Return whether a machine that covers `applied` instances brings a group forward."""
    return applied > acceptor.chosen


def least_of(acceptor: Acceptor, oldest: int) -> int | None:
    """Return the number of instances that an image must cover for a group that cannot learn below
    `oldest`.

    The result is None if the group does not need those instances any more.
    """
    if acceptor.membership.members and not is_ahead(acceptor, oldest):
        return None
    return max(oldest, acceptor.chosen + 1)


class Installer:
    """Collects the groups that need an install and carries the installs out, in one task."""

    def __init__(
        self,
        host: Recovering,
        bytes_per_s: int,
        own: Callable[[asyncio.Task[None]], None],
    ) -> None:
        """Prepare an installer; `own` keeps the task and notices when it fails."""
        self.progress: dict[int, str] = {}
        """The state of each group's install, in words."""
        self._host = host
        self._bytes_per_s = bytes_per_s
        self._own = own
        self._wanted: dict[int, Want] = {}
        self._failed: dict[int, Want] = {}
        """Installs that failed, until somebody reports again that they are needed."""
        self._images: dict[int, SnapshotImage] = {}
        self._incomplete: set[int] = set()
        """Groups with an image of which no node had all messages."""
        self._task: asyncio.Task[None] | None = None

    @property
    def active(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def pending(self) -> bool:
        """Whether an install may still give a group another machine, also after a start that was
        asked for.
        """
        return self.active or bool(self._images)

    def want(self, group: int, source: int, oldest: int) -> None:
        """Install a group; `source` says that it can give an image, and has no instance below
        `oldest`.
        """
        if group in self._wanted or group in self._images:
            return
        log.warning("a checkpoint is needed", group=group, source=source)
        self._wanted[group] = Want(source, oldest)
        self._failed.pop(group, None)
        self._host.set_installing(group, True)
        self.progress[group] = f"waiting for node {source}"
        if not self.active:
            self._task = asyncio.create_task(self._run(), name="store-node-install")
            self._own(self._task)

    def status(self) -> dict[int, str]:
        """Return the state of each install, except for groups that have continued without an
        image.
        """
        return {
            group: text
            for group, text in self.progress.items()
            if (failed := self._failed.get(group)) is None
            or least_of(self._host.acceptor(group), failed.oldest) is not None
        }

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._wanted:
            # More may be wanted while the client closes.
            await self._collect()
        for group, image in list(self._images.items()):
            if not is_ahead(self._host.acceptor(group), image.applied):
                del self._images[group]
                self._end(group)
        if self._images:
            log.info("installed", groups=sorted(self._images))
            whole = self._incomplete.isdisjoint(self._images)
            await self._host.finish_install(self._images, whole=whole)

    async def _collect(self) -> None:
        """Get an image for each group that needs one, until none does."""
        client = self._host.store_client()
        await client.start()
        try:
            await asyncio.sleep(GATHER_S)
            while self._wanted:
                for group, want in list(self._wanted.items()):
                    try:
                        image = await self._install(client, group, want)
                    except StoreError as error:
                        log.warning("install failed", group=group, reason=str(error))
                        self.progress[group] = f"failed, will be tried again: {error}"
                        self._failed[group] = want
                        # The next peer that tells this node that it is behind names another source.
                        self._host.set_installing(group, False)
                    else:
                        if image is None:
                            self._end(group)
                        else:
                            self._images[group] = image
                    del self._wanted[group]
                if not self._images:
                    await asyncio.sleep(RETRY_S)
                else:
                    await asyncio.sleep(GATHER_S)
        finally:
            await client.close()

    def _end(self, group: int) -> None:
        """End the install of a group that continued without an image."""
        log.info("a checkpoint is not needed any more", group=group)
        del self.progress[group]
        self._host.set_installing(group, False)

    async def _install(self, client: StoreClient, group: int, want: Want) -> SnapshotImage | None:
        """Return an image whose batches are here; None if the group does not need one any more."""
        sources = Sources(client, self._host.sources(want.source))
        await sources.linked()
        copier = Copier(self._host, sources, self._bytes_per_s)
        image: SnapshotImage | None = None
        outdated = looked_again = False
        for _ in range(ROUNDS):
            least = least_of(self._host.acceptor(group), want.oldest)
            if least is None:
                return None
            newest = await _snapshot(sources, group, least)
            is_enough = image is not None and image.applied >= max(least, newest.oldest)
            if is_enough and not outdated:
                if looked_again or group not in self._incomplete:
                    return image
                # A newer machine may not name the messages that nobody gave, a peer that was away
                # may be back, and one that found its damage just now knows what it lost. With the
                # start that follows, this node forgets the values that it has accepted.
                looked_again = True
                await asyncio.sleep(RETRY_S)
            image = newest
            outdated = await self._fill(copier, group, image)
        return image

    async def _fill(self, copier: Copier, group: int, image: SnapshotImage) -> bool:
        """Fetch the batches of an image; return whether a peer has truncated more than it says."""
        machine = await asyncio.to_thread(Machine.restore, group, image.raw)
        self.progress[group] = f"instance {image.applied}, {copier.copied_bytes} bytes copied"
        lack = await copier.fill(machine)
        log.info(
            "install",
            group=group,
            applied=image.applied,
            copied_bytes=copier.copied_bytes,
            missing=len(lack.missing),
        )
        self._incomplete.discard(group)
        if lack:
            # The group agreed on this state; a peer that is away now may have the messages.
            self._incomplete.add(group)
        for one in lack.missing:
            log.error("nobody has these messages", **one._asdict() | {"queue": one.queue.hex()})
        return lack.outdated


async def _snapshot(sources: Sources, group: int, least: int) -> SnapshotImage:
    """Return the image of the first node that has `least` instances; raises the last one's
    error.
    """
    trouble: StoreError = Unavailable("no peer is up")
    for node in sources.in_turn():
        try:
            return await sources.client.snapshot(group, node, least=least)
        except StoreError as error:
            trouble = error
    raise trouble
