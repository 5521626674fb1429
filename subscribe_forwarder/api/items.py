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

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

from edge import message_id
from edge.message_id import BadMessageId, MessageId
from edge.problem import FieldError, Problem, invalid
from metadata.types import Epoch, Subscription, Topic
from openapi.consume import MAX_IDS
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
    """One item that was not done, or one message of it; `item` is its place in the request."""

    item: int
    problem: Problem
    ack_id: str | None = None
    """The ack id of the one message, where the item names several."""


class LaneItem(NamedTuple):
    """One message of a lane. From an ack id, `attempt` and `epoch` name the lease meant."""

    item: int
    offset: int
    attempt: int = 0
    epoch: Epoch = Epoch(0, 0)
    ack_id: str | None = None
    """The ack id of the message, where its item names several."""

    def failed(self, problem: Problem) -> Failure:
        """Return the failure of this message."""
        return Failure(self.item, problem, self.ack_id)


class LaneItems(NamedTuple):
    """Messages of a lane as columns of equal length; those from ack ids are of one epoch."""

    items: Sequence[int]
    offsets: Sequence[int]
    attempts: Sequence[int] | None = None
    epoch: Epoch = Epoch(0, 0)
    token: str = ""
    """The token of the page, where they are named by one page ack id."""
    numbers: Sequence[int] = ()
    """The numbers in the page of messages that one page ack id names."""

    def each(self) -> Iterator[LaneItem]:
        """Yield the messages one by one."""
        attempts = repeat(0) if self.attempts is None else self.attempts
        ack_ids: Iterable[str | None] = repeat(None)
        if self.token:
            ack_ids = [f"{self.token}.{number}" for number in self.numbers]
        for item, offset, attempt, name in zip(
            self.items, self.offsets, attempts, ack_ids, strict=False
        ):
            yield LaneItem(item, offset, attempt, self.epoch, name)


class Named(NamedTuple):
    """The items by lane, in the order given, and those that name nothing. `gone` are those
    whose message is no longer stored, which makes them settled."""

    places: dict[Lane, list[LaneItems]]
    failures: list[Failure]
    gone: list[int]

    @property
    def messages(self) -> int:
        """The number of messages that are named."""
        lanes = self.places.values()
        return len(self.gone) + sum([len(each.offsets) for lane in lanes for each in lane])

    def offsets(self, lane: Lane) -> list[int]:
        """Return the offsets that are named of a lane, ascending; repeats are possible."""
        offsets = [offset for items in self.places[lane] for offset in items.offsets]
        offsets.sort()
        return offsets

    def each(self, lane: Lane) -> Iterator[LaneItem]:
        """Yield the items of a lane one by one."""
        return chain.from_iterable([items.each() for items in self.places[lane]])


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
    named = Named({}, [], [])
    minters = {reader.minter.prefix: reader.minter for reader in readers.values()}

    def minter_of(text: str) -> Minter:
        prefix = text[: ack_id.HEAD_CHARS]
        if prefix not in minters:
            minters[prefix] = Minter(ack_id.parse_head(text), key)
        return minters[prefix]

    left = MAX_IDS
    by_prefix: dict[str, list[int]] = {}
    for item, text in enumerate(texts):
        if not ack_id.is_page_id(text):
            by_prefix.setdefault(text[: ack_id.HEAD_CHARS], []).append(item)
            continue
        try:
            minter = minter_of(text)
            page = minter.open_page(text)
        except BadAckId as error:
            named.failures.append(Failure(item, _bad_ack_id(str(error))))
            continue
        left -= len(page.offsets)
        if left < 0:
            raise _too_many()
        token, items = text.partition(".")[0], [item] * len(page.offsets)
        of = LaneItems(items, page.offsets, page.attempts, minter.head.epoch, token, page.numbers)
        _add(named, minter.head, of, subscription, readers)
    for items in by_prefix.values():
        try:
            minter = minter_of(texts[items[0]])
        except BadAckId as error:
            named.failures.extend(Failure(item, _bad_ack_id(str(error))) for item in items)
            continue
        of = _opened(minter, texts, items, named.failures)
        left -= len(of.offsets)
        _add(named, minter.head, of, subscription, readers)
    if left < 0:
        raise _too_many()
    return named


def _too_many() -> Problem:
    return invalid(
        "A request names too many messages.",
        [FieldError("ack_ids", f"at most {MAX_IDS} messages together")],
    )


def _add(
    named: Named,
    head: Head,
    items: LaneItems,
    subscription: Subscription,
    readers: Mapping[Lane, Reader],
) -> None:
    """Add messages named by ack ids of one head; they fail if that does not fit."""
    problem = _misfit(head, subscription, readers)
    if problem is not None:
        named.failures.extend(Failure(item, problem) for item in dict.fromkeys(items.items))
    elif items.items:
        named.places.setdefault(Lane(head.partition, head.lane), []).append(items)


def _opened(
    minter: Minter, texts: Sequence[str], items: list[int], failures: list[Failure]
) -> LaneItems:
    """Return the items whose ids are whole; each of the others is a failure."""
    try:
        leases = minter.open_all([texts[item] for item in items])
    except BadAckId:
        leases, whole = [], []
        for item in items:
            try:
                leases.append(minter.open(texts[item]))
                whole.append(item)
            except BadAckId as error:
                failures.append(Failure(item, _bad_ack_id(str(error))))
        items = whole
    offsets, attempts = [offset for _, offset in leases], [attempt for attempt, _ in leases]
    return LaneItems(items, offsets, attempts, minter.head.epoch)


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
        items = dict.fromkeys(place.item for place in named.each(lane))
        named.failures.extend(Failure(item, _stale()) for item in items)
        del named.places[lane]


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
        named.places.setdefault(lane, []).append(LaneItems([index], [offset]))


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
