"""Snapshots: the bytes are the state, and going on from them is going on."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store_nodes import commands as c
from store_nodes.machine import dedup as table
from store_nodes.machine import stages
from store_nodes.machine.machine import Machine
from store_nodes.machine.snapshot import BadSnapshot
from store_nodes.membership import LEARNER, VOTER, Membership
from tests.unit.machine.driver import Q2, S2, SECOND, START, Driver, Q, S, dedup

FIRST = Membership.first({1: ("a:1", "x"), 2: ("b:1", ""), 3: ("c:1", "")})

queues = st.sampled_from([Q, Q, Q2])
numbers = st.lists(st.integers(0, 40), max_size=20).map(tuple)
sections = st.lists(st.sampled_from("abcdefghij"), max_size=3).map(lambda ids: dedup(*ids))
sessions = st.tuples(st.sampled_from([S, S2]), st.integers(1, 8))
appends = st.builds(
    lambda queue, session, late, section, window_s: c.encode_append(
        queue, *session, 1 if late else START * 2, 3, b"x", section, dedup_window_s=window_s
    ),
    queues,
    sessions,
    st.booleans(),
    sections,
    st.sampled_from([2, 10, 600]),
)
staged = st.builds(
    lambda queue, session, section, due, tag: c.encode_append(
        queue, *session, START * 2, 3, b"x", section, c.StageExtras(due and (due,) * 3, tag)
    ),
    queues,
    sessions,
    sections,
    st.none() | st.integers(START, START + 100 * SECOND),
    st.sampled_from([b"", b"tag"]),
)
controls = st.one_of(
    st.builds(c.Create, queues, st.just(0), st.just(b"")),
    st.builds(c.Seal, queues, st.just(((1, Q2),))),
    st.builds(c.Delete, st.sampled_from([Q2])),
    st.builds(c.Truncate, queues, st.integers(0, 30), numbers),
    st.builds(c.Release, queues, numbers),
    st.builds(c.Release, queues, numbers),
    st.builds(c.Discard, queues, numbers),
    st.builds(lambda queue, n: c.Reschedule(queue, n, (START,) * len(n)), queues, numbers),
    st.builds(c.CompareAndSet, st.sampled_from("xyz"), st.integers(0, 1), st.integers(0, 1)),
    st.builds(c.Transfer, st.integers(0, 4)),
    st.just(c.Checkpoint("now")),
).map(c.encode)
commands = st.one_of(appends, staged, staged, controls, controls)
values = st.tuples(
    st.sampled_from([1, SECOND, 30 * SECOND]), st.lists(commands, min_size=1, max_size=5)
).map(lambda drawn: (drawn[0], c.encode_value(drawn[1], 0)))
steps = st.builds(
    lambda version, node, role: (1, c.encode_membership(step(version, node, role), 0)),
    st.integers(1, 4),
    st.integers(3, 5),
    st.sampled_from([LEARNER, VOTER]),
)
histories = st.lists(st.one_of(values, values, values, steps), max_size=40)


def step(version: int, node: int, role: str) -> c.Reconfigure:
    return c.Reconfigure(version, node, role, "d:1", {})


def stamped(history: list[tuple[int, bytes]]) -> list[bytes]:
    """Return the values with their stamps; two queues are made first."""
    now = START
    made = [c.encode_value([c.encode(c.Create(q, 0, b"")) for q in (Q, Q2)], now)]
    for elapsed, value in history:
        now += elapsed
        made.append(value[:4] + now.to_bytes(8, "little") + value[12:])
    return made


def answers(machine: Machine) -> list[object]:
    """Return the answers to all questions that a reader can ask."""
    found: list[object] = [
        machine.queues(),
        machine.counters,
        machine.membership,
        machine.preferred_leader,
        machine.dedup_entries,
        (machine.applied, machine.log_time_us, machine.digest),
        [machine.is_deleted(queue) for queue in (Q, Q2)],
    ]
    probe = c.parse(c.encode_append(Q, bytes(16), 1, 0, 10, b"x", dedup(*"abcdefghij")))
    assert isinstance(probe, c.Append)
    found.append(machine.dedup_known(probe))
    for info in machine.queues():
        queue = info.queue
        found += [machine.kept(queue), machine.staged(queue, -1, 99)]
        found += [machine.locate(queue, number) for number in range(45)]
        found += [machine.batch_of_stage(queue, number) for number in range(45)]
        found += [machine.stage_changes_since(queue, since) for since in range(20)]
    return found


@settings(max_examples=60, deadline=None)
@given(histories, st.integers(1, 8))
def test_going_on_from_a_snapshot_is_going_on(history: list[tuple[int, bytes]], every: int) -> None:
    """One machine lives through, one is restored every few values, each time as a new one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "SHARD_ENTRIES", 4)
        patch.setattr(table, "MAX_DEDUP_ENTRIES", 9)
        patch.setattr(stages, "CHUNK_MESSAGES", 6)
        patch.setattr(stages, "TIDY_MESSAGES", 3)
        whole, parts = Machine(3, FIRST), Machine(3, FIRST)
        for instance, value in enumerate(stamped(history)):
            if instance % every == 0:
                parts = Machine.restore(3, parts.state_snapshot())
            assert repr(whole.apply(instance, value)) == repr(parts.apply(instance, value))
            assert parts.state_snapshot() == whole.state_snapshot()
            assert parts.state_digest() == whole.state_digest()
        restored = Machine.restore(3, whole.state_snapshot())
        assert answers(restored) == answers(whole) == answers(parts)


def golden_driver() -> Driver:
    driver = Driver()
    driver.one(c.Create(Q, 5, b"m"))
    driver.append(1, count=2)
    driver.append(2, deadline=1)
    driver.one(c.Truncate(Q, 7, (6,)))
    driver.one(c.Seal(Q, ((2, Q2),)))
    driver.one(c.Delete(Q2))
    return driver


VERSION_1 = bytes.fromhex(
    "01960306ce3b9aca05c410327f9959797fa4158b2f7e74d4f39ed9919ac419000000000000000000"
    "0000000000000000000000000000000105c4016d070700c3919202c4190000000000000000000000"
    "000000000000000000000000000291069195c4107373737373737373737373737373737302ce3baa"
    "0c40ce3b9aca02c4300500000000000000020000000000000001ca9a3b00000000ffffffffffffff"
    "ff070000000000000002ca9a3b0000000091c4190000000000000000000000000000000000000000"
    "0000000002"
)


VERSION_2 = bytes.fromhex(
    "029a030cce3b9aca0bc41067b26a088833c04fb862e025a931ef28919bc419000000000000000000"
    "0000000000000000000000000000000105c4016d080904c2909205079195c4107373737373737373"
    "737373737373737304ce3baa0c40ce3b9aca08c4600500000000000000020000000000000001ca9a"
    "3b000000000000000000000000030000000100000002ca9a3b000000000300000000000000010000"
    "000100000005ca9a3b00000000ffffffffffffffff0d0000000000000008ca9a3b00000000980401"
    "9197c4200000000000000000010000000000000002000000000000000300000000000000c4200700"
    "0000000000000800000000000000feffffffffffffffffffffffffffffffc42000ca9a3b00000000"
    "00ca9a3b00000000009435770000000000ca9a3b00000000c4100000000000000000030000000000"
    "0000c41003000000000000000100000000000000c41002ca9a3b0000000005ca9a3b0000000092c4"
    "0174c400c4080300000000000000c4080800000000000000c4080100000000000000c41007000000"
    "00000000000000000000000092c400c400909301949401a5766f746572a3613a3181a47a6f6e65a1"
    "789402a5766f746572a3623a31809403a5766f746572a3633a31809404a76c6561726e6572a3643a"
    "3180909192a667726f75707309029194ce6000000091c41900000000000000000000000000000000"
    "000000000000000001c4182e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2e2ec4542e2e2e"
    "2e2e2e2e6500000000000000000000000000000080000000002e2e2e2e2e2e2e6207000000000000"
    "000600000000000000000000002e2e2e2e2e2e2e6107000000000000000500000000000000000000"
    "00"
)


def test_version_1_still_loads() -> None:
    """A snapshot of version 1 holds no membership; it loads with the first one of the group."""
    found = Machine.restore(3, VERSION_1, FIRST)
    assert found.membership == FIRST
    driver = golden_driver()
    driver.machine.membership = FIRST
    assert found.state_snapshot() == driver.machine.state_snapshot()


def test_version_2_golden() -> None:
    """The format of a checkpoint's machine is frozen with its version byte."""
    driver = Driver(FIRST)
    driver.one(c.Create(Q, 5, b"m"))
    driver.append(1, count=2, dedup=dedup("a", "b", body=7))
    driver.stage(2, count=3, due=(START, START, START * 2), tag=b"t", dedup=dedup("e"))
    driver.release(0, 1)
    driver.one(c.Discard(Q, (2,)))
    driver.stage(3)
    driver.one(c.Reschedule(Q, (3,), (START,)))
    driver.one(c.Truncate(Q, 8, (5, 7)))
    driver.append(4, deadline=1, dedup=dedup("a"))
    driver.one(c.CompareAndSet("groups", 0, 9))
    driver.one(c.Transfer(2))
    value = c.encode_membership(step(1, 4, LEARNER), driver.now)
    driver.machine.apply(driver.machine.applied, value)
    raw = driver.machine.state_snapshot()
    assert raw.hex() == VERSION_2.hex()
    assert Machine.restore(3, raw).state_snapshot() == raw


def test_bad_snapshots_are_refused() -> None:
    driver = golden_driver()
    driver.one(c.Create(b"n" * 25, 0, b""))
    driver.stage(1, queue=b"n" * 25, count=2, dedup=dedup("a", "b"))
    raw = driver.machine.state_snapshot()
    for bad in (b"", b"\x03" + raw[1:], b"\x00" + raw[1:], raw[:-1], raw + b"x", raw[:1]):
        with pytest.raises(BadSnapshot):
            Machine.restore(3, bad)
    with pytest.raises(BadSnapshot):
        Machine.restore(4, raw)
    for at in range(len(raw)):
        for flip in (0x01, 0x80, 0xFF):
            damaged = bytearray(raw)
            damaged[at] ^= flip
            try:
                Machine.restore(3, bytes(damaged))
            except BadSnapshot:
                continue


def broken(name: str) -> Machine:
    """Return a machine with queues, staged messages and ids, which breaks one of its rules."""
    driver = Driver()
    machine = driver.machine
    driver.one(c.Create(Q, 5, b""))
    driver.append(1, count=4, dedup=dedup("a" * 16, "b" * 16))
    driver.stage(2, count=6)
    driver.one(c.Discard(Q, (1,)))
    queue = machine._queues[Q]
    assert queue.stages is not None
    match name:
        case "first beyond the end":
            queue.first = queue.end + 1
        case "first below the base":
            queue.first = queue.base - 1
        case "kept above the first":
            queue.kept = (queue.end - 1,)
        case "a queue twice":
            machine._queues[Q2] = queue
        case "stage numbers beyond their end":
            queue.stages._chunks[0].numbers[-1] = queue.stages.end
        case "stage numbers out of order":
            queue.stages._chunks *= 2
        case "ranges out of order":
            queue.stages._discarded.add(9)
            queue.stages._discarded.add(20)
            queue.stages._discarded._starts.reverse()
        case "ids that end out of order":
            machine._dedup._buckets *= 2
        case "ids out of the order of their hashes":
            machine._dedup._buckets[0]._shards[0].keys.reverse()
    return machine


@pytest.mark.parametrize(
    "name",
    [
        "first beyond the end",
        "first below the base",
        "kept above the first",
        "a queue twice",
        "stage numbers beyond their end",
        "stage numbers out of order",
        "ranges out of order",
        "ids that end out of order",
        "ids out of the order of their hashes",
    ],
)
def test_a_state_that_breaks_a_rule_of_its_own_is_no_snapshot(name: str) -> None:
    group = broken("nothing").group
    assert Machine.restore(group, broken("nothing").state_snapshot())
    with pytest.raises(BadSnapshot):
        Machine.restore(group, broken(name).state_snapshot())


def test_many_ids_are_copied_not_encoded() -> None:
    """The bytes are what msgpack would make of the joined arrays; restoring cuts new shards."""
    driver = Driver()
    driver.one(c.Create(Q, 0, b""))
    for seq in range(1, 65):
        section = b"".join(
            c.DEDUP_ENTRY.pack(0, (n * 0x9E3779B97F4A7C15 % 2**128).to_bytes(16, "little"), n)
            for n in range(seq * 400, seq * 400 + 400)
        )
        driver.append(seq, count=200, dedup=section, window_s=4 if seq % 2 else 600)
        # Now and then a section gets a bucket of its own: more buckets than a short array holds.
        driver.now += 1_000_000
    raw = driver.machine.state_snapshot()
    encoded = msgspec.msgpack.encode(msgspec.msgpack.decode(raw[1:]))
    assert raw[1:] == encoded
    driver.reload()
    assert driver.machine.state_snapshot() == raw
    shards = [shard for bucket in driver.machine._dedup._buckets for shard in bucket._shards]
    assert max(len(shard.keys) for shard in shards) <= table.SHARD_ENTRIES
