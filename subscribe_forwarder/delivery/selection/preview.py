"""The effect of a filter, counted over stored messages; no ack state changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from edge.expressions import compile_filter
from openapi import common as contract
from openapi.common import MAX_FILTER_SAMPLES
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.render import PartitionRenderer
from subscribe_forwarder.delivery.selection.pieces import Pieces
from subscribe_forwarder.delivery.selection.rule import Rule
from subscribe_forwarder.delivery.selection.variables import Bodies

_UNIX = datetime(1970, 1, 1, tzinfo=UTC)


class Sample(NamedTuple):
    publish_time_us: int
    shown: contract.FilterSample


class Preview:
    """Counts one filter beside the present one, batch by batch. Its constructor raises
    BadExpression."""

    def __init__(self, filter_text: str, present_text: str | None) -> None:
        compile_filter(filter_text)
        bodies = Bodies()
        self._rule = Rule(filter_text, bodies)
        self._present = None if present_text is None else Rule(present_text, bodies)
        self.pieces = Pieces([rule for rule in (self._rule, self._present) if rule is not None])
        self._matched: deque[Sample] = deque(maxlen=MAX_FILTER_SAMPLES)
        self._unmatched: deque[Sample] = deque(maxlen=MAX_FILTER_SAMPLES)
        self._newly = self._no_longer = self._matches = 0
        self.examined = 0
        self.examined_bytes = 0

    def look(self, batch: Batch, low: int, high: int, renderer: PartitionRenderer) -> None:
        """Count the messages with the indices `low` … `high` − 1. Raises BadBatch."""
        messages = batch.messages()
        indices = range(low, high)
        matched = set(self._rule.matches(batch, indices))
        present = self._present
        before = set(indices) if present is None else set(present.matches(batch, indices))
        self.examined += len(indices)
        self.examined_bytes += sum(len(messages[index].data) for index in indices)
        self._matches += len(matched)
        self._newly += len(matched - before)
        self._no_longer += len(before - matched)
        self._keep(self._matched, batch, sorted(matched), renderer)
        self._keep(self._unmatched, batch, sorted(set(indices) - matched), renderer)

    def result(self) -> contract.FilterPreview:
        """Return the counts; the latest samples come first."""
        return contract.FilterPreview(
            self.examined,
            self._matches,
            self._rule.errors,
            self._rule.first_error,
            contract.FilterPreviewSamples(_shown(self._matched), _shown(self._unmatched)),
            contract.FilterChanges(self._newly, self._no_longer),
        )

    def _keep(
        self,
        samples: deque[Sample],
        batch: Batch,
        indices: Sequence[int],
        renderer: PartitionRenderer,
    ) -> None:
        """Keep the latest samples."""
        fresh = [
            Sample(batch.log_time_us, _sample(batch, i, renderer))
            for i in indices[-MAX_FILTER_SAMPLES:]
        ]
        kept = sorted([*samples, *fresh], key=lambda sample: sample.publish_time_us)
        samples.clear()
        samples.extend(kept)


def _sample(batch: Batch, index: int, renderer: PartitionRenderer) -> contract.FilterSample:
    message = batch.messages()[index]
    return contract.FilterSample(
        batch.message_id(index, renderer).decode(),
        _UNIX + timedelta(microseconds=batch.log_time_us),
        batch.partition,
        batch.base + index,
        message.key,
        message.attributes or {},
    )


def _shown(samples: deque[Sample]) -> list[contract.FilterSample]:
    return [sample.shown for sample in reversed(samples)]
