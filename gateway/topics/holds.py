"""The losses for which a topic or a subscription is not deleted without `force`.

    undelivered    messages that a subscription has not acked
    delayed        messages that wait for their time
    export         messages that an export has not taken
    snapshot       a snapshot, with the history that it keeps
    dead_letters   dead letters that are open

Counts are of messages committed and stored when they are made, without those published later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from edge.problem import FieldError, Problem, unavailable
from gateway.subscriptions.backlog import ASK_AT_ONCE, ASK_TIMEOUT_S, backlogs, ends
from gateway.topics.placement import queue_of
from metadata.delivery.cursors import CursorRepository
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.topics.holds import Held, HoldRepository
from metadata.types import Partition, SealedPartition, Subscription, Topic
from openapi.common import Hold, HoldKind
from store_nodes.client import StoreClient
from store_nodes.errors import QueueNotFound, StoreError

NAMED = 20
PAGE = 1000
MAX_COUNTED = 100_000
"""Delayed messages of one queue that are counted."""
_LOSSES: dict[HoldKind, tuple[str, str]] = {
    "undelivered": ("messages that are not acked", "have the subscriptions ack their messages"),
    "delayed": ("delayed messages", "cancel the delayed messages or wait for their time"),
    "export": ("messages that exports have not taken", "run the exports or delete them"),
    "snapshot": ("snapshots, with the messages that they keep", "delete the snapshots"),
    "dead_letters": ("open dead letters", "redrive or discard the dead letters"),
}
"""The loss, and the advice to avoid it, by kind."""


def hold(kind: HoldKind, name: str | None, messages: int) -> Hold:
    """Return one thing that would be lost, with the advice to avoid it."""
    advice = _LOSSES[kind][1]
    return Hold(kind, name, messages, advice[0].upper() + advice[1:] + ".")


class Holds:
    """Counts them; answers nothing for a topic that somebody else is deleting."""

    def __init__(
        self,
        store: StoreClient,
        cursors: CursorRepository,
        subscriptions: SubscriptionRepository,
        rows: HoldRepository,
        letters: DeadLetterRepository,
    ) -> None:
        self._store = store
        self._cursors = cursors
        self._subscriptions = subscriptions
        self._rows = rows
        self._letters = letters

    async def of_topic(self, topic: Topic) -> list[Hold]:
        """Raises Problem where the store does not answer."""
        key = topic.tenant_id, topic.uid
        named = await self._subscriptions.of_topic(*key)
        cursors = await self._cursors.of_topic(*key)
        rows = await self._rows.of_topic(*key)
        try:
            left = await backlogs(self._store, topic, cursors)
            delayed = await self._delayed(topic)
            pinned = await self._pinned(topic, rows)
        except QueueNotFound:
            return []
        except StoreError as error:
            raise _uncounted() from error
        return [
            *(hold("undelivered", one.name, left[one.uid]) for one in named if left[one.uid]),
            *delayed,
            *pinned,
            *(hold("dead_letters", name, count) for name, count in rows.letters.items()),
        ]

    async def of_subscription(self, subscription: Subscription, topic: Topic) -> list[Hold]:
        """`topic` is the one that it reads, whose delayed messages it would get. Raises Problem
        where the store does not answer."""
        key = subscription.tenant_id, subscription.uid
        cursors = await self._cursors.of_subscription(*key)
        letters = await self._letters.open_count(*key)
        try:
            left = (await backlogs(self._store, topic, cursors))[subscription.uid]
            delayed = await self._delayed(topic)
        except QueueNotFound:
            return []
        except StoreError as error:
            raise _uncounted() from error
        found = [
            hold("undelivered", subscription.name, left),
            *delayed,
            hold("dead_letters", subscription.name, letters),
        ]
        return [hold for hold in found if hold.messages]

    async def _delayed(self, topic: Topic) -> list[Hold]:
        """Return holds of delayed messages, also in sealed generations, whose successors
        publish them.
        """
        at_once = asyncio.Semaphore(ASK_AT_ONCE)

        async def count(generation: Partition | SealedPartition) -> int:
            async with at_once:
                return await self._count_delayed(topic, generation)

        generations: list[Partition | SealedPartition] = [*topic.partitions, *topic.sealed]
        found = sum(await asyncio.gather(*(count(one) for one in generations)))
        return [hold("delayed", None, found)] if found else []

    async def _count_delayed(self, topic: Topic, generation: Partition | SealedPartition) -> int:
        """Count messages with a time; one staged without a time belongs to an ack that
        publishes.
        """
        queue, after, found = queue_of(topic.uid, generation), -1, 0
        while found < MAX_COUNTED:
            try:
                async with asyncio.timeout(ASK_TIMEOUT_S):
                    page = (await self._store.staged(generation.group, queue, after, PAGE)).staged
            except QueueNotFound:
                if isinstance(generation, SealedPartition):
                    return found  # it was removed, since nothing was left in it
                raise
            found += sum(one.due_us is not None for one in page)
            if len(page) < PAGE:
                break
            after = page[-1].stage_number
        return found

    async def _pinned(self, topic: Topic, rows: Held) -> list[Hold]:
        """Return holds of exports and snapshots; an export that has taken all holds nothing."""
        there = {(part.number, part.lane) for part in topic.partitions}
        pins = [pin for pin in rows.pins if (pin.partition, pin.lane) in there]
        found = await ends(self._store, topic, {(pin.partition, pin.lane) for pin in pins})
        kept: Counter[tuple[HoldKind, str]] = Counter()
        for pin in pins:
            kept[pin.kind, pin.name] += max(0, found[pin.partition, pin.lane] - pin.offset)
        return [
            hold(kind, name, messages)
            for (kind, name), messages in kept.items()
            if messages or kind == "snapshot"
        ]


def held(kind: str, name: str, holds: Sequence[Hold]) -> Problem:
    """Return the 409 of a delete: the losses by kind and name, and the advice to avoid them."""
    worst = sorted(holds, key=lambda hold: (-hold.messages, hold.name or ""))[:NAMED]
    more = f", and of {len(holds) - len(worst)} more" if len(holds) > len(worst) else ""
    kinds = [each for each in _LOSSES if any(hold.kind == each for hold in worst)]
    losses = "; ".join(_loss(each, worst) for each in kinds)
    advice = "; ".join(_LOSSES[each][1] for each in kinds)
    return Problem.of(
        "backlog-not-empty",
        f"Deleting the {kind} {name!r} loses {losses}{more}. To keep that, {advice}. "
        "Give force=true to delete it all the same.",
        errors=[FieldError(hold.name or hold.kind, _counted(hold)) for hold in worst],
        extra={"holds": worst},
    )


def _loss(kind: HoldKind, holds: Iterable[Hold]) -> str:
    """Return a text such as `messages that are not acked: 'billing' (40), 'audit' (2)`."""
    counts = ", ".join(
        str(hold.messages) if hold.name is None else f"{hold.name!r} ({hold.messages})"
        for hold in holds
        if hold.kind == kind
    )
    return f"{_LOSSES[kind][0]}: {counts}"


def _counted(hold: Hold) -> str:
    messages = "1 message" if hold.messages == 1 else f"{hold.messages} messages"
    return messages if hold.kind == "undelivered" else f"{messages}, {hold.kind}"


def _uncounted() -> Problem:
    detail = "The losses cannot be counted now; force=true deletes anyway."
    return unavailable("store", detail)
