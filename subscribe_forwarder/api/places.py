"""Reads `partitions` and `affinity`, which say from which partitions a consumer takes."""

from __future__ import annotations

from edge.parameters import Query, refused, text_of
from edge.problem import FieldError, invalid
from openapi.consume import AFFINITY, MAX_PARTITION, MAX_PARTITIONS, PARTITIONS
from subscribe_forwarder.delivery.places import PartitionChoice
from subscribe_forwarder.delivery.state.rate import NAMELESS

_RULE = f"numbers from 0 to {MAX_PARTITION}, {MAX_PARTITIONS} at most, with commas between"


def places_of(query: Query, consumer: str) -> PartitionChoice | None:
    """Return the partitions that a query chooses, None for all; raise a 400 Problem."""
    text = text_of(PARTITIONS, query.text("partitions"), _RULE)
    named = None
    if text is not None:
        named = frozenset(map(int, text.split(",")))
        if len(named) > MAX_PARTITIONS or max(named) > MAX_PARTITION:
            raise refused(PARTITIONS, _RULE)
    return chosen(named, query.flag(AFFINITY.name), consumer, status=400)


def chosen(
    partitions: frozenset[int] | None, affinity: bool, consumer: str, *, status: int
) -> PartitionChoice | None:
    """Return the choice of partitions, None for all; raise a Problem of that status."""
    if partitions is None and not affinity:
        return None
    if affinity and partitions is not None:
        wrong = FieldError("partitions", "not with affinity, which chooses them")
    elif affinity and consumer == NAMELESS:
        wrong = FieldError("consumer", "needed with affinity: the partitions are dealt to it")
    else:
        return PartitionChoice(partitions, affinity)
    raise invalid("The choice of partitions does not fit.", [wrong], status=status)


def query_of(places: PartitionChoice | None) -> dict[str, object]:
    """Return the parameters, to be passed on."""
    if places is None:
        return {}
    if places.affinity:
        return {"affinity": "true"}
    return {"partitions": ",".join(map(str, sorted(places.partitions or ())))}
