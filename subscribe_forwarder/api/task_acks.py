"""Serves acks that publish: `publish` beside the ids of an ack; both are done, or neither.

The ids are of one partition, so that one row of Postgres decides. Each id must name a message that
may be acked; where one does not, nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from edge.problem import FieldError, Problem, invalid, unavailable
from outbox.staging import Output
from store_nodes.errors import StoreError
from subscribe_forwarder import metrics
from subscribe_forwarder.api.items import Failure, LaneItem, Named, lease_expired
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.publishing import AckPublisher, Published
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.ledger import Now


class Outputs(Protocol):
    """Reads the messages that an ack publishes: `publish_forwarder.outputs.OutputReader`."""

    async def read(
        self, tenant_id: bytes, raw: bytes, *, refresh: bool = False
    ) -> list[Output]: ...


class TaskAcks:
    """Carries out the acks that publish in one process."""

    def __init__(self, publisher: AckPublisher, outputs: Outputs) -> None:
        self._publisher = publisher
        self._outputs = outputs

    async def ack(
        self,
        tenant_id: bytes,
        hub: Hub,
        readers: Mapping[Lane, Reader],
        named: Named,
        publish: bytes,
        now: Callable[[], Now],
    ) -> Published:
        """Return the messages that were published with the acks.

        Raises Problem: nothing was done, or with 503 the outcome is unknown; sending it again is
        safe.
        """
        if hub.subscription.delivery == "at_most_once":
            raise invalid(
                "The messages of an at_most_once subscription are acked before they are delivered:"
                " no ack of theirs can decide about others.",
                [FieldError("publish", "not with at_most_once")],
            )
        reader, places = _only(readers, named)
        offsets = sorted({place.offset for place in places})
        exactly_once = hub.subscription.delivery == "exactly_once"
        refreshed = False

        async def read() -> list[Output]:
            nonlocal refreshed
            outputs = await self._outputs.read(tenant_id, publish, refresh=refreshed)
            refreshed = True
            return outputs

        def check() -> None:
            if exactly_once:
                reader.ledger.expire(now())
                _require_leases(reader, places)

        check()
        try:
            published = await self._publisher.ack(tenant_id, reader, offsets, read, check)
        except StoreError as error:
            raise unavailable(
                "store", f"The outputs could not be stored ({error.code}); send the ack again."
            ) from error
        if not published.duplicate:
            metrics.acked.inc(len(offsets))
        return published


def _only(readers: Mapping[Lane, Reader], named: Named) -> tuple[Reader, Sequence[LaneItem]]:
    """Return the reader and the places of the one partition to which the ids belong."""
    if named.failures:
        raise _of(named.failures[0])
    if len(named.places) != 1 or named.gone:
        raise several_partitions()
    (lane,) = named.places
    return readers[lane], list(named.each(lane))


def several_partitions() -> Problem:
    return invalid(
        "An ack that publishes is of messages of one partition (and priority): send one for each.",
        [FieldError("ack_ids", "of one partition")],
    )


def _require_leases(reader: Reader, places: Sequence[LaneItem]) -> None:
    for place in places:
        lease = place.offset, place.epoch, place.attempt
        if not reader.ledger.held.holds(*lease) and not reader.ledger.held.acked_under(*lease):
            raise _of(place.failed(lease_expired()))


def _of(failure: Failure) -> Problem:
    """Return the problem of a call of which nothing was done, because of this item."""
    problem = failure.problem
    return Problem(
        problem.status,
        problem.slug,
        problem.title,
        f"Item {failure.item}: {problem.detail} Nothing was acked or published.",
        extra={"index": failure.item},
    )
