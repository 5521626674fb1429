"""Test what a leader may say of a sealed queue without asking the log."""

from __future__ import annotations

from store_nodes import commands as c
from store_nodes.errors import QueueSealed
from tests.unit.machine.driver import Q2, S2, START, Driver, Q, S, refusal, with_queue

SUCCESSORS = ((3, Q2),)


def asked(d: Driver, seq: int, session: bytes = S, queue: bytes = Q) -> QueueSealed | None:
    command = c.parse(c.encode_append(queue, session, seq, START, 1, b"x"))
    assert isinstance(command, c.Append)
    return d.machine.sealed_for(command)


def test_sealed_for_is_what_apply_would_say() -> None:
    d = with_queue()
    d.append(1)
    assert asked(d, 2) is None
    d.one(c.Seal(Q, SUCCESSORS))
    for found in (asked(d, 2), asked(d, 9), asked(d, 1, S2)):
        assert found is not None
        assert (found.offset, found.successors) == (1, SUCCESSORS)
    said = refusal(d.append(2))
    assert isinstance(said, QueueSealed)
    assert (said.offset, said.successors) == (1, SUCCESSORS)
    assert asked(d, 1) is None, "it has a receipt"
    assert asked(d, 1, queue=Q2) is None
