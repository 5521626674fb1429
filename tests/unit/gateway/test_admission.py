"""Admission over a server that is simulated: one core, a queue, and tenants that ask at rates."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Mapping

import pytest

from edge.load import EVERY_S, MachineLoad
from gateway.admission.admission import Admission, Limits
from gateway.admission.kinds import Kind, Urgency
from gateway.admission.sharing import water_level

PUBLISH = Kind(Urgency.NORMAL)
ACK = Kind(Urgency.SETTLING)
LIST = Kind(Urgency.DEFERRABLE)
PULL = Kind(Urgency.NORMAL, waits=True)
CAPACITY_PER_S = 1000.0
REFUSAL_COST = 0.1
"""The cost of a refused request relative to a served one."""
Offered = Mapping[tuple[bytes, Kind], float]
CALM, FLOOD, THIRD = b"calm", b"flood", b"third"


class Server:
    """Looks at requests in the order in which they came, and is done with each before the next: its
    loop is as late as the oldest has waited."""

    def __init__(self, weights: Mapping[bytes, float] | None = None) -> None:
        weights = weights or {}
        self.admission = Admission(weight_of=lambda tenant: weights.get(tenant, 1.0))
        self.now_s = 0.0
        self.load = MachineLoad(
            clock=lambda: self.now_s, process_s=lambda: 0.0, machine=lambda: (0.0, 0.0)
        )
        self.random = random.Random(7)
        self.queue: deque[tuple[float, bytes, Kind]] = deque()
        self.lags: list[float] = []

    def run(self, seconds: float, offered: Offered) -> tuple[Counter[object], Counter[object]]:
        """Return how many requests were served and refused, by tenant and kind."""
        served: Counter[object] = Counter()
        refused: Counter[object] = Counter()
        for _ in range(round(seconds / EVERY_S)):
            self._arrive(offered)
            self.now_s += EVERY_S
            left = CAPACITY_PER_S * EVERY_S
            while self.queue and left > 0:
                _, tenant, kind = self.queue.popleft()
                if self.admission.enter(tenant, kind) is None:
                    served[tenant, kind] += 1
                    self.admission.leave(tenant, kind)
                    left -= 1
                else:
                    refused[tenant, kind] += 1
                    left -= REFUSAL_COST
            lag_s = self.now_s - self.queue[0][0] if self.queue else 0.0
            self.lags.append(lag_s)
            self.load.sample(lag_s)
            self.admission.tick(EVERY_S, self.load.overloaded)
        return served, refused

    def _arrive(self, offered: Offered) -> None:
        arrivals = [
            (self.now_s + self.random.random() * EVERY_S, *each)
            for each, per_s in offered.items()
            for _ in range(self._poisson(per_s * EVERY_S))
        ]
        self.queue += sorted(arrivals, key=lambda each: each[0])

    def _poisson(self, mean: float) -> int:
        """Draw from a Poisson distribution by counting exponential gaps."""
        count, at = 0, self.random.expovariate(1.0) if mean else mean + 1
        while at < mean:
            count += 1
            at += self.random.expovariate(1.0)
        return count


@pytest.fixture
def server() -> Server:
    return Server()


def test_all_is_let_in_below_capacity(server: Server) -> None:
    _, refused = server.run(20, {(FLOOD, PUBLISH): 900.0})
    assert not refused


@pytest.mark.parametrize("times", [2, 5])
def test_most_of_the_capacity_is_used_well_when_more_comes(server: Server, times: int) -> None:
    server.run(10, {(FLOOD, PUBLISH): times * CAPACITY_PER_S})
    server.lags.clear()
    served, _ = server.run(30, {(FLOOD, PUBLISH): times * CAPACITY_PER_S})
    room = CAPACITY_PER_S - REFUSAL_COST * (times - 1) * CAPACITY_PER_S
    assert served[FLOOD, PUBLISH] / 30 > 0.75 * room
    assert sorted(server.lags)[len(server.lags) * 9 // 10] < 0.5


def test_a_tenant_within_its_share_is_refused_nothing_beside_a_flood(server: Server) -> None:
    offered = {(FLOOD, PUBLISH): 5000.0, (CALM, PUBLISH): 50.0}
    server.run(5, offered)
    served, refused = server.run(30, offered)
    assert refused[CALM, PUBLISH] == 0
    assert served[CALM, PUBLISH] > 30 * 50 * 0.9
    assert refused[FLOOD, PUBLISH] > 0


def test_who_comes_anew_under_a_flood_is_let_in(server: Server) -> None:
    server.run(10, {(FLOOD, PUBLISH): 3000.0})
    served, refused = server.run(3, {(FLOOD, PUBLISH): 3000.0, (CALM, PUBLISH): 20.0})
    assert refused[CALM, PUBLISH] == 0
    assert served[CALM, PUBLISH] > 0


def test_floods_share_by_weight() -> None:
    server = Server({FLOOD: 1.0, THIRD: 3.0})
    offered = {(FLOOD, PUBLISH): 3000.0, (THIRD, PUBLISH): 3000.0}
    server.run(10, offered)
    served, _ = server.run(30, offered)
    assert served[THIRD, PUBLISH] / served[FLOOD, PUBLISH] == pytest.approx(3.0, rel=0.2)


def test_acks_go_before_publishes_and_those_before_listings(server: Server) -> None:
    offered = {(FLOOD, ACK): 300.0, (FLOOD, PUBLISH): 1500.0, (FLOOD, LIST): 1000.0}
    server.run(10, offered)
    served, refused = server.run(30, offered)
    assert refused[FLOOD, ACK] / served[FLOOD, ACK] < 0.05
    assert refused[FLOOD, PUBLISH] / served[FLOOD, PUBLISH] > 0.5
    assert served[FLOOD, PUBLISH] > 5 * served[FLOOD, LIST]
    assert served[FLOOD, LIST] > 30, "none is starved"


def test_a_flood_of_acks_leaves_room_for_publishes(server: Server) -> None:
    offered = {(FLOOD, ACK): 5000.0, (CALM, PUBLISH): 50.0}
    server.run(10, offered)
    served, refused = server.run(20, offered)
    assert refused[FLOOD, ACK] > 0
    assert refused[CALM, PUBLISH] == 0
    assert served[CALM, PUBLISH] > 0


def test_it_is_over_soon_after_the_load_is(server: Server) -> None:
    server.run(20, {(FLOOD, PUBLISH): 5000.0})
    assert server.admission.pacing
    server.run(5, {(FLOOD, PUBLISH): 200.0})
    assert not server.admission.pacing
    _, refused = server.run(10, {(FLOOD, PUBLISH): 900.0})
    assert not refused


def test_a_loop_that_is_late_for_somebody_else_s_work_refuses_nothing() -> None:
    admission = Admission()
    for _ in range(50):
        assert admission.enter(CALM, PUBLISH) is None
        admission.tick(EVERY_S, 1.0, cpu=0.3)
    assert not admission.pacing
    admission.tick(EVERY_S, 1.0, cpu=0.9)
    assert admission.pacing, "its own work"


# Publishes that fill the process.

TIMED = Kind(Urgency.NORMAL, timed=True)
LESS_URGENT = Kind(Urgency.DEFERRABLE, timed=True)


def crowded(admission: Admission, tenants: tuple[bytes, ...], each: int = 300) -> None:
    """Let publishes enter until they are paced; `each` publishes of every tenant stay open."""
    for _ in range(each):
        for tenant in tenants:
            assert admission.enter(tenant, TIMED) is None
    for _ in range(5):
        admission.enter(tenants[0], TIMED)
        admission.leave(tenants[0], TIMED, 0, 0.001)
        admission.tick(EVERY_S, 0.0)
    for _ in range(100):
        admission.enter(tenants[0], TIMED)
        admission.leave(tenants[0], TIMED, 0, 5.0)
        admission.tick(EVERY_S, 0.0)
    assert admission.pacing


def test_publishes_that_wait_for_an_election_are_no_crowd_of_ours() -> None:
    """A store node was restarted: for a second nothing is answered, and there is nothing to do."""
    admission = Admission()
    for _ in range(500):
        assert admission.enter(CALM, TIMED) is None
    admission.enter(CALM, TIMED)
    admission.leave(CALM, TIMED, 0, 0.002)
    for _ in range(20):
        admission.enter(CALM, TIMED)
        admission.leave(CALM, TIMED, 0, 1.0)
        admission.tick(EVERY_S, 1.0, cpu=0.1)
    assert not admission.pacing
    assert admission.enter(CALM, TIMED) is None


def test_who_is_within_its_part_passes_a_crowd_of_another() -> None:
    admission = Admission()
    crowded(admission, (FLOOD,))
    assert admission.enter(FLOOD, TIMED) is not None
    for _ in range(30):
        assert admission.enter(CALM, TIMED) is None
    assert admission.enter(FLOOD, ACK) is None, "what is no publish does not wait for the store"


def test_of_a_crowd_all_who_are_above_their_part_are_refused() -> None:
    admission = Admission()
    crowded(admission, (FLOOD, THIRD))
    assert admission.enter(FLOOD, TIMED) is not None
    assert admission.enter(THIRD, TIMED) is not None


@pytest.mark.parametrize(
    ("asked", "shared"),
    [
        ({FLOOD: 1000}, False),
        ({FLOOD: 1000, THIRD: 900}, False),
        ({FLOOD: 1000, CALM: 50}, True),
        ({FLOOD: 1000, THIRD: 900, CALM: 50}, True),
        ({FLOOD: 1000, b"": 50}, False),
    ],
)
def test_who_publishes_little_beside_others_is_not_to_wait_for_them(
    asked: dict[bytes, int], shared: bool
) -> None:
    admission = Admission()
    for _ in range(20):
        for tenant, per_s in asked.items():
            for _ in range(round(per_s * EVERY_S)):
                admission.enter(tenant, TIMED)
                admission.leave(tenant, TIMED, 0, 0.001)
        admission.tick(EVERY_S, 0.0)
    assert admission._shared() == shared


@pytest.mark.parametrize(("kind", "every_s"), [(PUBLISH, 0.1), (LIST, 0.1), (TIMED, 2.0)])
def test_who_hardly_publishes_limits_nobody(kind: Kind, every_s: float) -> None:
    """`packetboat up`: the runner of exports asks for work every 20 s. Publishes of the only tenant
    were refused because of that."""
    admission = Admission()
    for tick in range(200):
        for _ in range(100):
            admission.enter(FLOOD, TIMED)
            admission.leave(FLOOD, TIMED, 0, 0.02)
        if tick % round(every_s / EVERY_S) == 0:
            admission.enter(CALM, kind)
            admission.leave(CALM, kind, 0, 0.001)
        admission.tick(EVERY_S, 0.0)
        assert not admission._shared()


def test_who_published_little_and_ended_limits_nobody_any_more() -> None:
    admission = Admission()
    for tick in range(40):
        for _ in range(100):
            admission.enter(FLOOD, TIMED)
            admission.leave(FLOOD, TIMED, 0, 0.02)
        for _ in range(5 if tick < 20 else 0):
            admission.enter(CALM, TIMED)
            admission.leave(CALM, TIMED, 0, 0.001)
        admission.tick(EVERY_S, 0.0)
        if tick == 19:
            assert admission._shared()
    assert not admission._shared()


def test_less_urgent_publishes_are_refused_before_others() -> None:
    admission = Admission()
    crowded(admission, (FLOOD,))
    limit = admission._publish_limit.limit
    assert limit is not None
    while admission.publishing > 0.9 * limit:
        admission.leave(FLOOD, TIMED)
    admission.enter(CALM, ACK)  # so that the flood's part is a half
    assert admission.enter(FLOOD, LESS_URGENT) is not None
    assert admission.enter(FLOOD, TIMED) is None


# Bounds.


def full(admission: Admission, tenant: bytes, kind: Kind, most: int = 10_000) -> int:
    """Return how many requests are let in before one is refused."""
    for count in range(most):
        if admission.enter(tenant, kind) is not None:
            return count
    return most


def test_one_tenant_alone_has_nine_tenths_and_others_what_is_left() -> None:
    admission = Admission(Limits(requests=100))
    assert full(admission, FLOOD, PUBLISH) == 90
    assert full(admission, CALM, PUBLISH) == 10
    assert admission.running == 100


def test_a_crowd_is_cut_to_its_part_when_somebody_else_comes() -> None:
    admission = Admission(Limits(requests=100))
    full(admission, FLOOD, PUBLISH)
    assert admission.enter(CALM, PUBLISH) is None
    for _ in range(20):
        admission.leave(FLOOD, PUBLISH)
    assert admission.enter(FLOOD, PUBLISH) is None, "below three quarters nobody is held back"
    for _ in range(4):
        admission.enter(FLOOD, PUBLISH)
    assert admission.enter(FLOOD, PUBLISH) is not None
    assert admission.enter(CALM, PUBLISH) is None


def test_acks_are_let_in_where_publishes_are_not() -> None:
    admission = Admission(Limits(requests=100))
    admission.enter(CALM, PUBLISH)
    full(admission, FLOOD, PUBLISH)
    assert admission.enter(FLOOD, ACK) is None
    assert admission.enter(FLOOD, LIST) is not None


def test_long_polls_are_counted_apart() -> None:
    admission = Admission(Limits(requests=10, waiting=1000))
    assert full(admission, CALM, PULL, 500) == 500
    assert admission.enter(CALM, PUBLISH) is None


def test_bodies_are_bounded() -> None:
    admission = Admission(Limits(body_bytes=1000))
    assert admission.enter(FLOOD, PUBLISH, 800) is None
    assert admission.enter(FLOOD, PUBLISH, 150) is not None
    assert admission.enter(CALM, PUBLISH, 150) is None
    assert admission.enter(CALM, PUBLISH, 100) is not None, "never beyond"
    admission.leave(FLOOD, PUBLISH, 800)
    assert admission.body_bytes == 150


def test_what_is_only_asked_is_not_counted_unless_it_is_refused() -> None:
    admission = Admission(Limits(requests=10))
    assert admission.refuses(CALM, PUBLISH) is None
    assert admission.running == 0
    full(admission, CALM, PUBLISH)
    problem = admission.refuses(CALM, PUBLISH)
    assert problem is not None
    assert (problem.status, problem.slug) == (503, "overloaded")
    assert problem.retry_after_s is not None


def test_tenants_that_are_away_are_forgotten() -> None:
    admission = Admission()
    for number in range(1000):
        tenant = number.to_bytes(16)
        assert admission.enter(tenant, PUBLISH) is None
        admission.leave(tenant, PUBLISH)
    for _ in range(200):
        admission.tick(EVERY_S, 0.0)
    assert not admission._tenants


# The level.


@pytest.mark.parametrize(
    ("demands", "room", "level"),
    [
        ([(10, 1), (20, 1)], 30, None),
        ([(10, 1), (100, 1)], 50, 40),
        ([(100, 1), (100, 3)], 80, 20),
        ([(5, 1), (100, 1), (100, 2)], 65, 20),
    ],
)
def test_what_some_leave_is_for_the_others(
    demands: list[tuple[float, float]], room: float, level: float | None
) -> None:
    found = water_level(demands, room)
    assert found == (None if level is None else pytest.approx(level))
    if found is not None:
        assert sum(min(d, w * found) for d, w in demands) == pytest.approx(room)
