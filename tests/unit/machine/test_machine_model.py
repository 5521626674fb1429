"""The machine against its dumb twin: queues, sessions, seals, truncation."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from store_nodes import commands as c
from store_nodes.errors import SequenceGap
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    CreateDone,
    DeleteDone,
    Outcome,
    SealDone,
)
from tests.unit.machine.machine_twin import DAY, SECOND, Twin

QUEUES = [bytes([n]) * 25 for n in range(3)]
SESSIONS = [bytes([n]) * 16 for n in range(3)]
Step = tuple[int, list[c.Command]]

appends = st.builds(
    c.Append,
    st.sampled_from(QUEUES),
    st.sampled_from(SESSIONS),
    st.integers(0, 6),
    st.sampled_from([0, SECOND, 40 * SECOND, 100 * SECOND, 300 * SECOND, 3 * DAY]),
    st.integers(1, 5),
    st.just(b""),
    st.just(0),
    st.just(0),
)
controls = st.one_of(
    st.builds(c.Create, st.sampled_from(QUEUES), st.sampled_from([0, 7]), st.just(b"")),
    st.builds(c.Seal, st.sampled_from(QUEUES), st.sampled_from([(), ((1, QUEUES[0]),)])),
    st.builds(c.Delete, st.sampled_from(QUEUES)),
    st.builds(
        c.Truncate,
        st.sampled_from(QUEUES),
        st.integers(0, 30),
        st.lists(st.integers(0, 30), max_size=5).map(tuple),
    ),
)
commands = st.one_of(appends, appends, appends, appends, controls)
steps = st.lists(
    st.tuples(
        st.sampled_from([0, 1, SECOND, 30 * SECOND, 61 * SECOND, 200 * SECOND]),
        st.lists(commands, max_size=6),
    ),
    max_size=40,
)


def raw(command: c.Command) -> bytes:
    if isinstance(command, c.Append):
        return c.encode_append(*command[:5], b"x")
    assert not isinstance(command, c.Stage)
    return c.encode(command)


def history(drawn: list[Step]) -> list[Step]:
    """Make all queues first; take times and deadlines from the drawn steps of time."""
    now = SECOND
    made: list[Step] = [(now, [c.Create(queue, 0, b"") for queue in QUEUES])]
    for step, batch in drawn:
        now += step
        made.append(
            (
                now,
                [
                    a._replace(deadline_us=max(0, now - 20 * SECOND + a.deadline_us))
                    if isinstance(a, c.Append)
                    else a
                    for a in batch
                ],
            )
        )
    return made


def value(step: Step) -> bytes:
    now, batch = step
    return c.encode_value([raw(a) for a in batch], now) if batch else c.encode_noop(now)


def short(outcome: Outcome) -> tuple[object, ...]:
    match outcome:
        case CommandRefused(error=SequenceGap() as gap):
            return ("SequenceGap", gap.expected)
        case CommandRefused(duplicate=True) if type(outcome.error).__name__ != "OutcomeUnknown":
            return ("again", type(outcome.error).__name__, 0, 0)
        case CommandRefused():
            return (type(outcome.error).__name__,)
        case AppendDone():
            head = ("again", "stored") if outcome.duplicate else ("stored",)
            return (*head, outcome.base_offset, outcome.log_time_us)
        case CreateDone():
            return ("created", outcome.end)
        case SealDone():
            return ("sealed", outcome.offset)
        case DeleteDone():
            return ("deleted",)
        case _:
            return ("truncated", outcome.first_offset, outcome.kept)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_the_machine_agrees_with_its_twin(drawn: list[Step]) -> None:
    machine, twin = Machine(1), Twin()
    for instance, step in enumerate(history(drawn)):
        outcomes = machine.apply(instance, value(step))
        assert [short(outcome) for outcome in outcomes] == twin.apply(*step)
        for name, queue in twin.queues.items():
            found = machine.offsets(name)
            assert (found.first, found.end) == (queue.first, queue.end)
            assert (found.successors if found.sealed else None) == queue.successors
        assert [q.queue for q in machine.queues()] == list(twin.queues)


def test_a_long_session_against_the_twin() -> None:
    """The session goes beyond the ring of receipts, which short histories do not reach."""
    machine, twin = Machine(1), Twin()
    steps: list[Step] = [(SECOND, [c.Create(QUEUES[0], 0, b"")])]
    for seq in range(1, 200):
        for back in (0, 1, 63, 64, 65):
            a = c.Append(QUEUES[0], SESSIONS[0], max(seq - back, 0), 50 * SECOND, 1, b"", 0, 0)
            steps.append((SECOND, [a]))
    for at, step in enumerate(steps):
        assert [short(o) for o in machine.apply(at, value(step))] == twin.apply(*step)
        if at % 50 == 0:
            machine = Machine.restore(1, machine.state_snapshot())


PROGRAM = """
from store_nodes import commands as c
from store_nodes.machine.machine import Machine
m = Machine(1)
names = [bytes([n]) * 25 for n in range(40)]
m.apply(0, c.encode_value([c.encode(c.Create(n, 0, b"")) for n in names], 1000))
for i in range(1, 200):
    raws = [c.encode_append(names[i * k % 40], bytes([i * k % 7]) * 16, 1, 10**9, 2, b"x")
            for k in range(1, 9)]
    m.apply(i, c.encode_value(raws, i * 10**6))
print(m.state_digest().hex(), m.digest.hex())
"""


def test_the_order_of_hashing_changes_nothing() -> None:
    answers = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert answers[0] == answers[1]
    assert len(answers[0]) > 60
