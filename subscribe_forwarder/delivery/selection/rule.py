"""One expression over the messages of a batch: what an index answers, and the rest evaluated."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from edge.expressions import Expression, compile_expression
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.selection.attribute_index import holders
from subscribe_forwarder.delivery.selection.variables import Bodies, variables_of


class Rule:
    """Raises BadExpression for a text that is not taken."""

    __slots__ = ("_equalities", "_residual", "_variables", "text")

    def __init__(self, text: str, bodies: Bodies) -> None:
        whole = compile_expression(text)
        equalities, residual = whole.conjunction()
        self.text = text
        self._equalities = equalities
        self._residual = _residual(whole, residual) if equalities else whole
        self._variables = None
        if self._residual is not None:
            self._variables = variables_of(self._residual, bodies)

    @property
    def errors(self) -> int:
        """Evaluations that failed or gave no boolean."""
        return 0 if self._residual is None else self._residual.errors

    @property
    def first_error(self) -> str | None:
        return None if self._residual is None else self._residual.first_error

    @property
    def looks_at_data(self) -> bool:
        return self._residual is not None and "data" in self._residual.variables

    def ns(self, size_bytes: float) -> float:
        """Return the highest cost of evaluating the rule for a message of that size."""
        return 0.0 if self._residual is None else self._residual.price.ns(size_bytes)

    @property
    def looks(self) -> bool:
        """Whether it has to look at messages, beyond the index."""
        return self._residual is not None

    def matches(self, batch: Batch, among: Iterable[int] | None = None) -> list[int]:
        """Return the ascending indices for which the rule is true; `among` limits them,
        ascending too.
        """
        found = self._by_index(batch, among)
        residual, variables = self._residual, self._variables
        if residual is None or variables is None:
            return found
        if batch.evaluated:
            return [index for index in found if self._matches_one(batch, index)]
        return [index for index in found if residual.matches(variables(batch, index))]

    def _matches_one(self, batch: Batch, index: int) -> bool:
        residual, variables = self._residual, self._variables
        assert residual is not None
        assert variables is not None
        known = batch.evaluated.get((self.text, index))
        if known is None:
            return residual.matches(variables(batch, index))
        matched, reason = known
        if reason is not None:
            residual.failed(reason)
        return matched

    def _by_index(self, batch: Batch, among: Iterable[int] | None) -> list[int]:
        found = None if among is None else list(among)
        for equality in self._equalities:
            if found == []:
                return found
            held = holders(batch, equality)
            if found is not None:
                held = held[bisect_left(held, found[0]) : bisect_right(held, found[-1])]
            if found is None:
                found = held
                continue
            if len(held) < len(found):
                kept, other = held, set(found)
            else:
                kept, other = found, set(held)
            found = [index for index in kept if index in other]
        return list(range(len(batch.messages()))) if found is None else found


def _residual(whole: Expression, text: str | None) -> Expression | None:
    return None if text is None else compile_expression(text)
