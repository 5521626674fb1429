"""`partitions` and `affinity`: the parameters that say which partitions a consumer takes from."""

from __future__ import annotations

import re

from edge.problem import FieldError
from subscribe_forwarder.delivery.places import Places
from subscribe_forwarder.state.rate import NAMELESS

MAX_PARTITION = 65_535
MAX_PARTITIONS = 1000
"""Named by one request."""
RULE = f"numbers from 0 to {MAX_PARTITION}, {MAX_PARTITIONS} at most"
_PARTITIONS = re.compile(r"[0-9]{1,5}(,[0-9]{1,5})*")


def places_of(
    partitions: str | None, affinity: str | None, consumer: str
) -> tuple[Places | None, list[FieldError]]:
    """As a query has them, and what is wrong with them; None: it takes from all."""
    errors = []
    named = None
    if partitions is not None:
        if _PARTITIONS.fullmatch(partitions):
            named = frozenset(map(int, partitions.split(",")))
        else:
            errors.append(FieldError("partitions", f"{RULE}, with commas between"))
    if affinity not in (None, "true", "false"):
        errors.append(FieldError("affinity", "true or false"))
    places, more = checked(named, affinity == "true", consumer)
    return places, errors + more


def checked(
    partitions: frozenset[int] | None, affinity: bool, consumer: str
) -> tuple[Places | None, list[FieldError]]:
    """What is wrong with them."""
    errors = []
    if partitions is not None and not (
        0 < len(partitions) <= MAX_PARTITIONS
        and min(partitions) >= 0
        and max(partitions) <= MAX_PARTITION
    ):
        errors.append(FieldError("partitions", RULE))
    if affinity and partitions is not None:
        errors.append(FieldError("partitions", "not with affinity, which chooses them"))
    if affinity and consumer == NAMELESS:
        errors.append(FieldError("consumer", "needed with affinity: whose the partitions are"))
    if partitions is None and not affinity:
        return None, errors
    return Places(partitions, affinity), errors


def query_of(places: Places | None) -> dict[str, object]:
    """The parameters, to be passed on."""
    if places is None:
        return {}
    if places.affinity:
        return {"affinity": "true"}
    return {"partitions": ",".join(map(str, sorted(places.partitions or ())))}
