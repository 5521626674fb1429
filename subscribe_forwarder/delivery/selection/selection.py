"""The verdicts of a subscription's filter and skip rules over a batch.

A skip rule is asked about what the filter lets through, so that each message has one reason. The
unit is a piece of a stored batch, cut by what pieces cost; the batch keeps what it is told.

An expression that an earlier version stored and this one refuses is never evaluated. It is true
for no message, as one whose evaluation fails: a filter lets nothing through, a rule skips nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import structlog

from edge.expressions import BadExpression, compile_expression
from edge.slices import Slices
from metadata.types import Subscription
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.selection.pieces import Pieces
from subscribe_forwarder.delivery.selection.rule import Rule
from subscribe_forwarder.delivery.selection.variables import Bodies
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from subscribe_forwarder.delivery.state.cursor import Settled

PIECE_S = 0.001
MAX_PIECE = 1_000
Verdicts = Sequence[Settled | None] | None
_NEVER = "false"
_bodies = Bodies()
_log = structlog.get_logger("packetboat.subscribe")


class Selection:
    """Compared by what it was made of."""

    __slots__ = (
        "_evaluator",
        "_filter",
        "_looks",
        "_piece",
        "_pieces",
        "_skips",
        "_tenant_id",
        "key",
    )

    def __init__(
        self,
        filter_text: str | None,
        skip_texts: Sequence[str],
        bodies: Bodies = _bodies,
        *,
        tenant_id: bytes = b"",
        evaluator: WorkerEvaluator | None = None,
    ) -> None:
        """Create a selection. Without `evaluator`, all is judged here, however long it takes.

        Raises BadExpression.
        """
        self._tenant_id = tenant_id
        self._evaluator = evaluator
        self.key = (filter_text, tuple(skip_texts))
        self._filter = None if filter_text is None else Rule(filter_text, bodies)
        self._skips = [Rule(text, bodies) for text in skip_texts]
        self._pieces = Pieces(self._rules)
        self._looks = any(rule.looks for rule in self._rules)
        self._piece = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def errors(self) -> int:
        return sum(rule.errors for rule in self._rules)

    @property
    def first_error(self) -> str | None:
        return next((rule.first_error for rule in self._rules if rule.first_error), None)

    @property
    def _rules(self) -> list[Rule]:
        return self._skips if self._filter is None else [self._filter, *self._skips]

    def slice_end(self, batch: Batch, low: int) -> int:
        """Return the end of a slice that takes about `PIECE_S` and cannot take much longer; it has
        one message at least.
        """
        messages = batch.messages()
        if not self._looks:
            return len(messages)
        return self._pieces.end(messages, low, min(len(messages), low + self._piece))

    def took(self, count: int, elapsed_s: float) -> None:
        """Pieces grow and shrink with what they cost."""
        if elapsed_s > PIECE_S:
            self._piece = max(1, min(self._piece // 2, int(count * PIECE_S / elapsed_s)))
        elif count >= self._piece and 2 * elapsed_s < PIECE_S:
            self._piece = min(MAX_PIECE, 2 * self._piece)

    def verdicts(self, batch: Batch, low: int = 0, high: int | None = None) -> Verdicts:
        """Return how each message of the indices `low` … `high` − 1 (by default, all) is settled
        instead of delivered.

        A delivered message has None; the result is None if all are delivered. Raises BadBatch and
        Pending.
        """
        failed = self.errors
        high = len(batch.messages()) if high is None else high
        count = high - low
        # A message that is dear is a piece of its own.
        if self._evaluator is not None and count == 1 and self._pieces.dear(batch.messages()[low]):
            self._evaluator.require(self._tenant_id, self._pieces, batch, low)
        delivered: list[int] | range = range(low, high)
        verdicts: list[Settled | None] = [None] * count
        if self._filter is not None:
            delivered = self._filter.matches(batch, delivered)
            if len(delivered) < count:
                verdicts = [Settled.FILTERED] * count
                for index in delivered:
                    verdicts[index - low] = None
        skipped = 0
        for rule in self._skips:
            for index in rule.matches(batch, delivered):
                skipped += verdicts[index - low] is None
                verdicts[index - low] = Settled.SKIPPED
        if self.errors > failed:
            metrics.filter_failed.inc(self.errors - failed)
        return None if len(delivered) == count and not skipped else verdicts


async def read_ahead(subscription: Subscription) -> None:
    """Reads its expressions one by one, and gives others a turn between: `of` finds them read."""
    slices = Slices()
    for text in _active(subscription):
        with contextlib.suppress(BadExpression):
            Rule(text, _bodies)
        if slices.over:
            await slices.rest()


def _active(subscription: Subscription) -> list[str]:
    """Return the filter, if there is one, and the skip rules."""
    filters = [] if subscription.filter is None else [subscription.filter]
    return filters + [rule.expression for rule in subscription.skip_rules if not rule.removed_at]


def of(subscription: Subscription, evaluator: WorkerEvaluator | None = None) -> Selection | None:
    """Return the selection of a subscription; None if everything is delivered."""
    if subscription.filter is None and not subscription.skip_rules:
        return None
    active = [rule.expression for rule in subscription.skip_rules if rule.removed_at is None]
    if subscription.filter is None and not active:
        return None
    filter_text = subscription.filter
    return Selection(
        None if filter_text is None else _taken(filter_text, subscription),
        [_taken(text, subscription) for text in active],
        tenant_id=subscription.tenant_id,
        evaluator=evaluator,
    )


def _taken(text: str, subscription: Subscription) -> str:
    """Return `text`, or an expression that is true for no message if `text` is refused."""
    try:
        compile_expression(text)
    except BadExpression as error:
        _log.error(
            "a stored expression is refused; it is true for no message",
            subscription=subscription.name,
            expression=text,
            error=str(error),
        )
        return _NEVER
    return text
