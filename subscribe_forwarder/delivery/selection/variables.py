"""The variables of an expression for a message; only those that it mentions are made.

A JSON body is parsed once for all subscriptions that look at it in a row; the parsed bodies of a
few batches are kept, by the bytes they came from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import msgspec

from edge.expressions import Expression
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.render import is_json

MAX_KEPT_BYTES = 8 * 1024 * 1024
_UNIX = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
_decode = msgspec.json.Decoder().decode


class Bodies:
    """Parsed bodies of the batches looked at last; a body that is no JSON is None."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._kept: OrderedDict[int, tuple[Batch, dict[int, object]]] = OrderedDict()
        self._kept_bytes = 0

    def body(self, batch: Batch, index: int) -> object:
        parsed = self._of(batch)
        if index not in parsed:
            parsed[index] = _parsed(batch.messages()[index])
        return parsed[index]

    def _of(self, batch: Batch) -> dict[int, object]:
        known = self._kept.get(id(batch))
        if known is not None:
            return known[1]
        self._kept[id(batch)] = batch, {}
        self._kept_bytes += batch.cost_bytes
        while self._kept_bytes > self._max_kept_bytes and len(self._kept) > 1:
            _, (oldest, _) = self._kept.popitem(last=False)
            self._kept_bytes -= oldest.cost_bytes
        return self._kept[id(batch)][1]


Variables = Callable[[Batch, int], dict[str, object]]


def variables_of(expression: Expression, bodies: Bodies) -> Variables:
    """Return a function that makes the variables for the message at an index of a batch."""
    makers = [(name, _maker(name, expression, bodies)) for name in expression.variables]

    def make(batch: Batch, index: int) -> dict[str, object]:
        return {name: maker(batch, index) for name, maker in makers}

    return make


def _maker(name: str, expression: Expression, bodies: Bodies) -> Callable[[Batch, int], object]:
    if name == "data":
        return _only(expression.fields(name), bodies.body)
    if name == "attributes":
        return _only(expression.fields(name), _attributes)
    if name == "publish_time":
        return lambda batch, index: _time(batch.log_time_us)
    if name == "partition":
        return lambda batch, index: batch.partition
    if name == "offset":
        return lambda batch, index: batch.base + index
    return lambda batch, index: getattr(_message(batch, index), name)


def _only(
    fields: frozenset[str] | None, whole: Callable[[Batch, int], object]
) -> Callable[[Batch, int], object]:
    """Take only these fields of a map, because the engine converts each member that it gets."""
    if fields is None:
        return whole

    def some(batch: Batch, index: int) -> object:
        value = whole(batch, index)
        if not isinstance(value, dict):
            return value
        return {field: value[field] for field in fields if field in value}

    return some


def _attributes(batch: Batch, index: int) -> object:
    return _message(batch, index).attributes or {}


def _message(batch: Batch, index: int) -> Message:
    return batch.messages()[index]


def _parsed(message: Message) -> object:
    if message.content_type is None or not is_json(message.content_type):
        return None
    try:
        return _decode(message.data)
    except (ValueError, RecursionError):
        return None


def _time(time_us: int) -> datetime:
    try:
        return _UNIX + timedelta(microseconds=time_us)
    except OverflowError:
        return _LAST
