"""A topic whose queues are sealed continues in others: accepted messages follow, and none fails.

When a partition is moved to another group, or a topic grows, its queues are sealed and successors
are made. The messages that this process holds for the old queues go to the new ones in the order in
which they were accepted. Three rules hold:

1. A queue sender learns of the seal from the log (QueueSealed) or from the catalog, whichever is
   first. The log's word alone only stops it; the topic is then read again until it names the
   successors.
2. The senders of successors are held until every older sender is quiet (its last append is
   answered), because its messages may still have to go first.
3. Messages with nowhere to go by their deadlines are answered as not stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from metadata.catalog import Catalog
from metadata.errors import MetadataError, NotFound
from metadata.types import Topic
from publish_forwarder.append_request import AppendRequest
from publish_forwarder.failures import topic_changed
from publish_forwarder.partitioner import Partitioner, TopicSender, queue_of
from publish_forwarder.router import TopicRoutes
from store_nodes.errors import QueueNotFound

FIRST_LOOK_S = 0.02
MAX_LOOK_S = 0.25


class Moves:
    """The moves of all topics of this process; `open_routes` makes the routes of a topic that was
    read.
    """

    def __init__(
        self,
        routes: dict[bytes, TopicRoutes],
        catalog: Catalog,
        open_routes: Callable[[Topic, TopicRoutes | None], TopicRoutes],
    ) -> None:
        self._routes = routes
        self._catalog = catalog
        self._open = open_routes
        self._following: dict[bytes, asyncio.Task[None]] = {}

    async def close(self) -> None:
        tasks = list(self._following.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def replaced(self, before: TopicRoutes, routes: TopicRoutes) -> None:
        """Move from `before` to `routes`, the topic's present routes; queue senders that both have
        stay.
        """
        kept = set(routes.open_senders())
        old = list(before.open_senders())
        gone = [sender for sender in old if sender not in kept]
        routes.draining |= before.draining
        routes.draining.update(sender for sender in gone if not sender.idle)
        if routes.draining:
            new = kept.difference(old)
            for sender in new:
                sender.hold()
        for sender in gone:
            sender.close()

    def quiet(self, topic: Topic, sender: TopicSender) -> None:
        """Move the requests of a closed sender that has nothing in flight."""
        routes = self._routes.get(topic.uid)
        if routes is not None and sender in routes.draining:
            routes.draining.discard(sender)
            routes.take_in(sender.take_all())
            if not routes.draining:
                for held in routes.open_senders():
                    if held.held:
                        held.let_go()
        elif sender.pending and topic.uid not in self._following:
            task = asyncio.get_running_loop().create_task(self._follow(topic))
            self._following[topic.uid] = task

    def onward(self, topic: Topic, requests: list[AppendRequest], after_us: int) -> None:
        """Pass on requests that have been to a sealed queue, which did not know them."""
        routes = self._routes.get(topic.uid)
        for request in requests:
            if routes is None:
                request.resolve(topic_changed())
                continue
            for sender, part in routes.place(request, after_us):
                sender.add(part)

    async def _follow(self, topic: Topic) -> None:
        """Read the topic until none of its senders with waiting requests is closed."""
        pause_s = FIRST_LOOK_S
        try:
            while True:
                gone = False
                try:
                    fresh = await self._catalog.topic(topic.tenant_id, topic.name, refresh=True)
                except NotFound:
                    gone = True
                except MetadataError:
                    pass  # the requests have their deadlines
                else:
                    gone = fresh.uid != topic.uid
                    if not gone:
                        self._reopen(fresh)
                if not self._stuck(topic, refuse=gone):
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MAX_LOOK_S)
        finally:
            del self._following[topic.uid]

    def _reopen(self, fresh: Topic) -> None:
        routes = self._routes.get(fresh.uid)
        if routes is None or routes.topic is not fresh:
            self._open(fresh, routes)

    def _stuck(self, topic: Topic, *, refuse: bool) -> bool:
        """Return whether requests wait in a closed sender of the topic as it is now."""
        routes = self._routes.get(topic.uid)
        if routes is None:
            return False
        stuck = [sender for sender in routes.all_senders() if sender.closed and sender.pending]
        stuck = [sender for sender in stuck if sender not in routes.draining]
        if refuse:
            for sender in stuck:
                sender.give_up_pending(QueueNotFound("the topic is gone"))
            return False
        return bool(stuck)


def kept_senders(
    before: Partitioner, now: Partitioner
) -> tuple[dict[int, TopicSender], dict[int, TopicSender]]:
    """Return the senders of `before` whose queues `now` still has, by partition: to append, to
    stage.
    """
    at = {queue_of(now.topic, each): number for number, each in enumerate(now.partitions)}
    appending: dict[int, TopicSender] = {}
    staging: dict[int, TopicSender] = {}
    for number, sender in enumerate(before.senders):
        now_at = at.get(queue_of(before.topic, before.partitions[number]))
        if now_at is None:
            continue
        appending[now_at] = sender
        if number in before.staging:
            staging[now_at] = before.staging[number]
    return appending, staging
