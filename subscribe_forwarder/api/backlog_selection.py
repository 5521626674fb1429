"""The subscriptions of a stream of backlogs are selected by name, or by how their names begin."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from edge.caller import Caller
from edge.problem import FieldError, Problem, invalid
from edge.slices import Slices
from metadata.catalog import Catalog
from metadata.errors import NotFound
from metadata.subscriptions.names import NamedSubscription, SubscriptionNames
from subscribe_forwarder.fleet.backlogs.part import Wanted

MAX_FOLLOWED = 1000
"""Subscriptions of one stream."""
MAX_NAMES = 100
_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}|[A-Za-z0-9._-]{0,128}\*")
RULE = "a name, or the beginning of names and a '*'"


class Selection(NamedTuple):
    """A selection of one tenant's subscriptions."""

    names: tuple[str, ...]
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, given: Sequence[str]) -> Selection:
        """Return the selection of a query; all where nothing is given. Raises a 400 Problem."""
        if len(given) > MAX_NAMES or not all(_NAME.fullmatch(one) for one in given):
            raise invalid(
                f"Give up to {MAX_NAMES} subscriptions, each {RULE}.",
                [FieldError("subscription", RULE)],
                status=400,
            )
        wanted = dict.fromkeys(given or ("*",))
        return cls(
            tuple(one for one in wanted if not one.endswith("*")),
            tuple(one[:-1] for one in wanted if one.endswith("*")),
        )


class Selected(NamedTuple):
    """One subscription of them."""

    name: str
    wanted: Wanted
    paused: str | None
    """The state that holds back its messages, if one does."""


class Selector:
    """Finds them."""

    def __init__(self, subscriptions: Catalog, names: SubscriptionNames) -> None:
        self._subscriptions = subscriptions
        self._names = names

    async def find(
        self, tenant_id: bytes, selection: Selection, caller: Caller, *, strict: bool
    ) -> Mapping[bytes, Selected]:
        """Return, by uid, those that the caller may read.

        Raises a 400 Problem where they are too many, MetadataUnavailable and, if `strict`, NotFound
        for a name that there is not.
        """
        begun = await self._names.beginning_with(tenant_id, selection.prefixes, MAX_FOLLOWED + 1)
        if len(begun) > MAX_FOLLOWED:
            raise _too_many()
        found, slices = [], Slices()
        for one in begun:
            if slices.over:
                await slices.rest()
            if await caller.allows("read", "subscription", one.name):
                found.append(one)
        for name in selection.names:
            try:
                known = await self._subscriptions.subscription(tenant_id, name)
            except NotFound:
                if strict:
                    raise
                continue
            found.append(NamedSubscription(known.name, known.uid, known.topic_uid, known.state))
        if len(found) > MAX_FOLLOWED:
            raise _too_many()
        selected = {}
        for one in found:
            try:
                topic = await self._subscriptions.topic_by_uid(tenant_id, one.topic_uid)
            except NotFound:
                continue  # it goes with its topic
            wanted = Wanted(tenant_id, one.topic_uid, one.uid, topic.partition_count)
            paused = None if one.state == "active" else one.state
            selected[one.uid] = Selected(one.name, wanted, paused)
        return selected


def _too_many() -> Problem:
    return invalid(
        f"A stream is about {MAX_FOLLOWED} subscriptions at most: open several, by longer"
        " beginnings of their names.",
        [FieldError("subscription", f"more than {MAX_FOLLOWED} match")],
        status=400,
    )
