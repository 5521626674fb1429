"""Load reports as they travel."""

from __future__ import annotations

from metadata.delivery import loads
from metadata.ids import new_uid
from metadata.types import Unit


def test_a_report_fits_however_much_goes_on() -> None:
    units = tuple(
        loads.UnitLoad.of(
            Unit(new_uid(), new_uid(), 255, new_uid()),
            per_second=123456.7,
            backlog=10**12,
            growth_per_s=-98765.4,
            waiting=10_000,
        )
        for _ in range(loads.MAX_UNITS)
    )
    load = loads.Load(0.987654, 0.123456, 1e6, 1e9, 100_000, 100_000, units, units)
    body = loads.encode(load)
    assert len(body) <= loads.MAX_BYTES
    decoded = loads.decode(body)
    assert decoded is not None
    assert decoded.partitions == units[: len(decoded.partitions)]
    assert decoded.subscriptions == units[: len(decoded.subscriptions)]
    assert min(len(decoded.partitions), len(decoded.subscriptions)) >= 10
    assert decoded.partitions[0].unit.subscription_uid != bytes(16)
