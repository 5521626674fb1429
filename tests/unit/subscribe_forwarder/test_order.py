"""KeyOrder against a list per key; of a key one message at a time, the oldest first."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from subscribe_forwarder.delivery.state.order import KeyOrder, Verdict, hash_of

KEYS = [hash_of(f"key {number}") for number in range(4)]


def test_a_hash_is_for_good() -> None:
    assert hash_of("") == -1970711489451281740
    assert hash_of("customer-7") == hash_of("customer-7") != hash_of("customer-8")
    assert all(-(2**63) <= key < 2**63 for key in KEYS)


class OrderMachine(RuleBasedStateMachine):
    """The model: unsettled offsets by key, ascending, and which keys are parked."""

    def __init__(self) -> None:
        super().__init__()
        self.order = KeyOrder()
        self.next = 0
        self.unsettled: dict[int, list[int]] = {key: [] for key in KEYS}
        self.expires: dict[int, int] = {}
        self.parked: set[int] = set()
        self.now = 0

    def heads(self) -> set[int]:
        return {offsets[0] for offsets in self.unsettled.values() if offsets}

    @rule(key=st.sampled_from(KEYS), ttl=st.integers(0, 5))
    def admit(self, key: int, ttl: int) -> None:
        offset, self.next = self.next, self.next + 1
        expires_us = self.now + ttl if ttl else 0
        verdict = self.order.admit(offset, key, expires_us)
        behind = bool(self.unsettled[key])
        self.unsettled[key].append(offset)
        if ttl:
            self.expires[offset] = expires_us
        if not behind:
            assert verdict is Verdict.GO
        else:
            assert verdict is (Verdict.BEHIND if key in self.parked else Verdict.HOLD)

    @precondition(lambda self: any(self.unsettled.values()))
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        there = sorted(offset for offsets in self.unsettled.values() for offset in offsets)
        chosen = sorted(data.draw(st.sets(st.sampled_from(there), min_size=1)))
        before = self.heads()
        freed = self.order.settled(chosen)
        for key, offsets in self.unsettled.items():
            if offsets and offsets[0] in chosen:
                self.parked.discard(key)
            self.unsettled[key] = [offset for offset in offsets if offset not in chosen]
        assert sorted(freed) == sorted(self.heads() - before)

    @rule(key=st.sampled_from(KEYS))
    def park(self, key: int) -> None:
        behind = self.order.park(key)
        assert list(behind) == self.unsettled[key][1:]
        if self.unsettled[key]:
            self.parked.add(key)

    @rule(key=st.sampled_from(KEYS))
    def unpark(self, key: int) -> None:
        head = self.order.unpark(key)
        assert head == (self.unsettled[key][0] if key in self.parked else None)
        self.parked.discard(key)

    @rule(step=st.integers(1, 4))
    def pass_time(self, step: int) -> None:
        due = self.order.next_expiry_us()
        self.now += step
        overdue = {head for head in self.heads() if 0 < self.expires.get(head, 0) <= self.now}
        assert self.order.overdue(self.now) == overdue
        new = {offset for offset in overdue if self.expires[offset] > self.now - step}
        if new:
            assert due is not None
            assert due <= self.now, "it may be early, never late"

    @invariant()
    def same(self) -> None:
        known = [offset for offsets in self.unsettled.values() for offset in offsets]
        assert len(self.order) == len(known)
        assert self.order.held == len(known) - len(self.heads())
        assert {offset for offset in known if self.order.is_head(offset)} == self.heads()
        assert self.order.set_aside == sum(len(self.unsettled[key]) for key in self.parked)
        assert self.order.parked_keys() == {
            key: (self.unsettled[key][0], len(self.unsettled[key]) - 1) for key in self.parked
        }
        for key, offsets in self.unsettled.items():
            assert self.order.head_of(key) == (offsets[0] if offsets else None)
            assert list(self.order.behind(key)) == offsets[1:]


TestOrderMachine = OrderMachine.TestCase
