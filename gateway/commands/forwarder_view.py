"""The fleet of forwarders as the API and the command show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metadata.delivery.fleet import LiveForwarder
from metadata.delivery.hints import Hint
from metadata.delivery.loads import Load, UnitLoad
from metadata.types import WHOLE, Unit
from openapi.forwarders import Fleet, Forwarder, ForwarderHint, ForwarderLoad, ForwarderUnit


def named_in(
    forwarders: Sequence[LiveForwarder], hints: Sequence[Hint]
) -> set[tuple[bytes, bytes]]:
    """Topics and subscriptions, by tenant and uid, whose names `document` wants to know."""
    units = [hint.unit for hint in hints]
    for one in forwarders:
        units += [part.unit for part in _busiest(one.load)]
    topics = {(unit.tenant_id, unit.topic_uid) for unit in units}
    subscriptions = {(unit.tenant_id, unit.subscription_uid) for unit in units}
    return topics | {key for key in subscriptions if key[1] != WHOLE}


def document(
    forwarders: Sequence[LiveForwarder], hints: Sequence[Hint], names: Mapping[bytes, str]
) -> Fleet:
    """Return the answer to `GET /forwarders`. Units of topics without a name are left out."""
    live = {one.incarnation for one in forwarders}
    return Fleet(
        [_forwarder(one, names) for one in forwarders],
        [
            ForwarderHint(
                *_unit(hint.unit, names),
                forwarder=hint.forwarder.hex(),
                reason=hint.reason,
                age_seconds=_rounded(hint.age_s),
            )
            for hint in hints
            if hint.forwarder in live and hint.unit.topic_uid in names
        ],
    )


def _forwarder(one: LiveForwarder, names: Mapping[bytes, str]) -> Forwarder:
    return Forwarder(
        id=one.incarnation.hex(),
        role=one.role,
        address=one.address,
        weight=one.weight,
        age_seconds=_rounded(one.age_s),
        lease_seconds=_rounded(one.remaining_s),
        load=None if one.load is None else _load(one.load),
        busiest=[
            ForwarderUnit(
                *_unit(part.unit, names),
                messages_per_second=part.per_second,
                backlog=part.backlog,
                backlog_growth_per_second=part.growth_per_s,
                waiting=part.waiting,
            )
            for part in _busiest(one.load)
            if part.unit.topic_uid in names
        ],
    )


def _load(load: Load) -> ForwarderLoad:
    return ForwarderLoad(
        cpu=load.cpu,
        lag_seconds=load.lag_s,
        messages_per_second=load.per_second,
        bytes_per_second=load.bytes_per_second,
        waiting=load.waiting,
        units=load.units,
    )


def _busiest(load: Load | None) -> Sequence[UnitLoad]:
    return () if load is None else load.subscriptions


def _unit(unit: Unit, names: Mapping[bytes, str]) -> tuple[str, int, str | None]:
    """Return topic, partition and subscription. A subscription that has no name any more is told
    by its uid."""
    uid = unit.subscription_uid
    subscription = None if uid == WHOLE else names.get(uid, uid.hex())
    return names[unit.topic_uid], unit.partition, subscription


def _rounded(seconds: float) -> float:
    return round(max(0.0, seconds), 1)
