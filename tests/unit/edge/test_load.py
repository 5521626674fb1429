"""Load as it is measured, with clocks of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from edge.load import EVERY_S, IDLE_EVERY_S, MachineCpu, MachineLoad


class Site:
    """A process and its machine."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.used_s = 7.0
        self.busy = self.total = 1000.0
        self.load = MachineLoad(
            clock=lambda: self.now_s,
            process_s=lambda: self.used_s,
            machine=lambda: (self.busy, self.total),
        )

    def pass_time(
        self, samples: int, lag_s: float, *, process: float = 0.1, machine: float = 0.1
    ) -> None:
        for _ in range(samples):
            self.now_s += EVERY_S
            self.used_s += process * EVERY_S
            self.total += 100
            self.busy += machine * 100
            self.load.sample(lag_s)


@pytest.fixture
def site() -> Site:
    return Site()


def test_processor_of_the_process_and_of_the_machine(site: Site) -> None:
    site.pass_time(50, 0.0, process=0.5, machine=0.25)
    assert site.load.process_cpu == pytest.approx(0.5, abs=0.01)
    assert site.load.machine_cpu == pytest.approx(0.25, abs=0.01)
    assert site.load.cpu == pytest.approx(0.5, abs=0.01)


def test_threads_beside_the_loop_do_not_make_more_than_all(site: Site) -> None:
    site.pass_time(50, 0.0, process=1.8)
    assert site.load.cpu == 1.0


def test_one_late_timer_is_no_overload_half_a_second_of_them_is(site: Site) -> None:
    site.pass_time(10, 0.0)
    site.pass_time(4, 0.3)
    assert (site.load.overloaded, site.load.loop_lag_s) == (0.0, 0.3)
    site.pass_time(1, 0.3)
    assert site.load.overloaded == 1.0
    site.pass_time(1, 0.0)
    assert site.load.overloaded == 0.0


def test_a_full_processor_alone_is_no_overload(site: Site) -> None:
    site.pass_time(50, 0.01, process=1.0, machine=1.0)
    assert site.load.overloaded == 0.0
    site.pass_time(50, 0.08, process=1.0, machine=1.0)
    assert site.load.overloaded == 0.0


def test_the_first_samples_say_nothing(site: Site) -> None:
    site.pass_time(4, 5.0)
    assert site.load.overloaded == 0.0


def test_a_timer_that_comes_early_is_on_time(site: Site) -> None:
    site.pass_time(6, -0.001)
    assert site.load.loop_lag_s == 0.0


def test_the_machine_has_a_processor() -> None:
    machine = MachineCpu()
    busy, total = machine()
    assert 0 < busy < total
    machine.close()
    assert machine() == (0.0, 0.0)


def test_the_longest_lag_is_told_once(site: Site) -> None:
    site.pass_time(1, 0.3)
    site.pass_time(1, 0.1)
    assert site.load.take_longest_lag_s() == 0.3
    assert site.load.take_longest_lag_s() == 0.0


def test_an_idle_process_is_sampled_twice_a_second(site: Site) -> None:
    site.pass_time(1, 0.0, process=0.5)
    assert site.load.every_s == EVERY_S
    site.pass_time(1, 0.0, process=0.02)
    assert site.load.every_s == IDLE_EVERY_S
    site.pass_time(1, 0.2, process=0.02)
    assert site.load.every_s == EVERY_S, "its loop is late"


def test_a_sample_counts_by_the_time_that_it_took(site: Site) -> None:
    site.pass_time(50, 0.0, process=0.5)
    site.now_s += IDLE_EVERY_S
    site.total += 100
    site.load.sample(0.0)
    assert site.load.process_cpu == pytest.approx(0.0, abs=0.01)
    assert site.load.machine_cpu == pytest.approx(0.0, abs=0.01)


async def test_it_samples_the_loop_it_is_started_on() -> None:
    load, sampled = MachineLoad(), asyncio.Event()
    load.add_listener(lambda took_s: sampled.set() if took_s > 0 else None)
    load.start()
    async with asyncio.timeout(10):
        await sampled.wait()
    load.stop()
    sampled.clear()
    await asyncio.sleep(2 * load.every_s)
    assert not sampled.is_set()
