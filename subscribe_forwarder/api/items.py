"""Finds the messages that the ids of ack, nack, release and modify_ack_deadline name.

Some ids name nothing; the answer says why. These are the rules of DESIGN §7. At least once: an ack
id with the subscription's uid and present generation is good whatever its epoch, attempt or
deadline; a message id is good for messages that were read in the present generation, whichever form
it has. Nack, release and modify need the present lease as well. Exactly once: everything needs the
ack id of the present lease (acks.py).

The message of an id may be in a partition that is owned elsewhere. Then the whole request is
misdirected (peers.py), before anything is done.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from edge import message_id
from edge.message_id import BadMessageId, MessageId
from edge.problem import Problem
from metadata.types import Epoch, Subscription, Topic
from peering.shared_secret import SharedSecret
from subscribe_forwarder.delivery import ack_id
from subscribe_forwarder.delivery.ack_id import BadAckId, Head, Minter
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.staged import Nowhere, Where
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.peers import misdirected


class UnknownPartition(Exception):
    """An ack id of ours is of a partition that the topic, as it was known, does not have."""


Locate = Callable[[Sequence[MessageId]], Awaitable[Sequence[Where | Nowhere]]]
"""A function that finds messages with ids of the stage form."""


class Ids(NamedTuple):
    """The ids of a request, in one of its four forms, as a list."""

    field: str
    """`ack_id` or `message_id`."""
    texts: Sequence[str]


class Failure(NamedTuple):
    """One item that was not done; `item` is its place in the request."""

    item: int
    problem: Problem


class LaneItem(NamedTuple):
    """One item of a lane. From an ack id, `attempt` and `epoch` name the lease meant."""

    item: int
    offset: int
    attempt: int = 0
    epoch: Epoch = Epoch(0, 0)


class Named(NamedTuple):
    """The items by lane, in the order given, and those that name nothing. `gone` are those
    whose message is no longer stored, which makes them settled."""

    places: dict[Lane, list[LaneItem]]
    failures: list[Failure]
    gone: list[int]


async def resolve(
    ids: Ids,
    subscription: Subscription,
    readers: Mapping[Lane, Reader],
    key: SharedSecret,
    topic: Topic,
    locate: Locate,
    *,
    fresh: bool = False,
) -> Named:
    """Return the messages that ids name, and the reason for each id that names none.

    Asks `locate` for ids of the stage form only; raises what it raises, the Problem `misdirected`,
    and, unless the topic was just read, UnknownPartition.
    """
    if ids.field == "ack_id":
        named = _by_ack_ids(ids.texts, subscription, readers, key)
        _require_here(named, readers, topic, fresh=fresh)
        return named
    if subscription.delivery == "exactly_once":
        return Named({}, [Failure(item, _ack_id_required()) for item in range(len(ids.texts))], [])
    return await _by_message_ids(ids.texts, subscription, readers, topic, locate)


def lease_of(reader: Reader, place: LaneItem) -> Problem | None:
    """Return why the place does not belong to the present lease of its message; None if it does."""
    ledger = reader.ledger
    grant = ledger.leases.grant_of(place.offset)
    if grant is None:
        return lease_expired()
    if not place.attempt:
        return None
    if ledger.policy.exactly_once:
        present = ledger.held.holds(place.offset, place.epoch, place.attempt)
    else:
        present = (grant.epoch_n, ledger.exact.turn(place.offset)) == (place.epoch.n, place.attempt)
    return None if present else lease_expired()


def lease_expired() -> Problem:
    return Problem.of("lease-expired", "This delivery is no longer leased to anybody.")


def _by_ack_ids(
    texts: Sequence[str],
    subscription: Subscription,
    readers: Mapping[Lane, Reader],
    key: SharedSecret,
) -> Named:
    """Return the messages that ack ids name, with a failure for each bad id."""
    places: dict[Lane, list[LaneItem]] = {}
    failures: list[Failure] = []
    minters = {reader.minter.prefix: reader.minter for reader in readers.values()}
    for index, text in enumerate(texts):
        prefix = text[: ack_id.HEAD_CHARS]
        try:
            minter = minters.get(prefix)
            if minter is None:
                minter = minters[prefix] = Minter(ack_id.parse_head(text), key)
            attempt, offset = minter.open(text)
        except BadAckId as error:
            failures.append(Failure(index, _bad_ack_id(str(error))))
            continue
        head = minter.head
        problem = _misfit(head, subscription, readers)
        if problem is not None:
            failures.append(Failure(index, problem))
            continue
        place = LaneItem(index, offset, attempt, head.epoch)
        places.setdefault(Lane(head.partition, head.lane), []).append(place)
    return Named(places, failures, [])


def _misfit(
    head: Head, subscription: Subscription, readers: Mapping[Lane, Reader]
) -> Problem | None:
    """Return the Problem of an ack id of another subscription or of an earlier seek, or None."""
    if head.subscription_uid != subscription.uid:
        return _bad_ack_id("It belongs to another subscription.")
    reader = readers.get(Lane(head.partition, head.lane))
    if reader is not None and head.generation != reader.cursor.generation:
        return _stale()
    return None


def _require_here(
    named: Named, readers: Mapping[Lane, Reader], topic: Topic, *, fresh: bool
) -> None:
    """Raise `misdirected` if a named partition is owned elsewhere; fail ids of none at all.

    Raises UnknownPartition if the topic may have grown since it was read.
    """
    for lane in [lane for lane in named.places if lane not in readers]:
        if _has(topic, lane):
            raise misdirected()
        if not fresh:
            raise UnknownPartition
        named.failures.extend(Failure(place.item, _stale()) for place in named.places.pop(lane))


def _has(topic: Topic, lane: Lane) -> bool:
    return lane.partition < topic.partition_count and lane.lane < topic.priorities


def _stale() -> Problem:
    return Problem.of(
        "stale-ack-id",
        "The subscription was moved since this delivery; the message may be delivered again.",
    )


async def _by_message_ids(
    texts: Sequence[str],
    subscription: Subscription,
    readers: Mapping[Lane, Reader],
    topic: Topic,
    locate: Locate,
) -> Named:
    named = Named({}, [], [])
    staged: list[tuple[int, MessageId]] = []
    for index, text in enumerate(texts):
        try:
            parsed = message_id.parse(text)
        except BadMessageId as error:
            named.failures.append(Failure(index, bad_message_id(str(error))))
            continue
        if parsed.topic_uid != subscription.topic_uid:
            named.failures.append(Failure(index, _not_delivered()))
        elif parsed.form == message_id.FORM_STAGE:
            staged.append((index, parsed))
        else:
            lane = Lane(parsed.partition, parsed.lane)
            _place(named, index, lane, parsed.number, readers, topic)
    for index, found in zip(
        [index for index, _ in staged],
        await locate([parsed for _, parsed in staged]) if staged else (),
        strict=True,
    ):
        if isinstance(found, Where):
            _place(named, index, found.place, found.offset, readers, topic)
        elif found is Nowhere.TRUNCATED and any(
            reader.cursor.start < reader.tail.first for reader in readers.values()
        ):
            named.gone.append(index)
        else:
            named.failures.append(Failure(index, _not_delivered()))
    return named


def _place(
    named: Named,
    index: int,
    lane: Lane,
    offset: int,
    readers: Mapping[Lane, Reader],
    topic: Topic,
) -> None:
    reader = readers.get(lane)
    if reader is None and _has(topic, lane):
        raise misdirected()
    if reader is None or not reader.cursor.start <= offset < reader.cursor.read_to:
        named.failures.append(Failure(index, _not_delivered()))
    else:
        named.places.setdefault(lane, []).append(LaneItem(index, offset))


def _ack_id_required() -> Problem:
    return Problem.of(
        "ack-id-required",
        "An exactly-once subscription accepts only the ack id of the current lease.",
    )


def bad_message_id(detail: str) -> Problem:
    return Problem.of("bad-message-id", f"{detail}.")


def _bad_ack_id(detail: str) -> Problem:
    return Problem.of("bad-ack-id", detail)


def _not_delivered() -> Problem:
    return Problem.of(
        "not-delivered",
        "The subscription has not handed out a message of this id.",
    )
