"""A driver that dies at any step, and the attempt that comes after: the table has the log, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.export_specs import spec_of
from spark_exports.driver import export
from spark_exports.fail_points import FAIL_POINTS, FailPoint
from spark_exports.order import Done, Failed
from tests.integration.exports.driver.fake_log import Log
from tests.integration.exports.driver.scripted_runner import ScriptedRunner
from tests.integration.exports.driver.tables import files, place, rejects, rows

SPEC = spec_of(name="all-orders", topic="orders", table="orders")


class Killed(BaseException):
    """Nothing of the driver catches it."""


@pytest.fixture
def runner(tmp_path: Path) -> ScriptedRunner:
    """With one run in the table, and more to come: rows, rejects, a new column."""
    runner = ScriptedRunner(None, Log(), tmp_path, SPEC)
    publish(runner.log, {"id": 0}, b"no")
    runner.run()
    publish(runner.log, {"id": 1}, b"no", {"id": 2, "late": "x"})
    return runner


def publish(log: Log, *bodies: object) -> None:
    for number, body in enumerate(bodies):
        log.publish(body, partition=number % 2)


def check(runner: ScriptedRunner) -> None:
    """Every message is in the one or in the other table, once, and as it was published."""
    good = [one for one in runner.log.all() if one["data"] != b"no"]
    bad = [one for one in runner.log.all() if one["data"] == b"no"]
    assert list(map(place, rows(runner.lake, SPEC))) == list(map(place, good))
    assert list(map(place, rejects(runner.lake, SPEC))) == list(map(place, bad))


@pytest.mark.parametrize("point", FAIL_POINTS)
def test_the_next_attempt_finishes_what_one_began(
    runner: ScriptedRunner, point: FailPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reach(reached: FailPoint) -> None:
        if reached == point:
            raise Killed

    order = runner.order()
    with monkeypatch.context() as patch:
        patch.setattr(export, "reach", reach)
        with pytest.raises(Killed):
            runner.carry_out(order)
    done = runner.run(runner.order(number=order.number, attempt=2))
    assert done.result.already == (point in ("committed", "before_done"))
    assert {one.key: one.offset for one in done.positions} == runner.log.ends
    check(runner)
    publish(runner.log, {"id": 3}, b"no")
    runner.run()
    check(runner)


@pytest.mark.parametrize("point", ["planned", "files_written", "rejects_committed"])
def test_two_attempts_at_once_are_one(
    runner: ScriptedRunner, point: FailPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first hangs, the second does all, then the first goes on."""
    order = runner.order()
    second: list[Done] = []

    def reach(reached: FailPoint) -> None:
        if reached == point and not second:
            monkeypatch.undo()
            second.append(runner.run(runner.order(number=order.number, attempt=2)))

    monkeypatch.setattr(export, "reach", reach)
    first = runner.carry_out(order)
    assert isinstance(first, Done) or (first.code, first.retry) == ("superseded", True), first
    assert not second[0].result.already
    check(runner)
    assert all(f"attempt-{order.attempt}-" not in file for file in new_files(runner, order.number))


def new_files(runner: ScriptedRunner, number: int) -> list[str]:
    return [file for file in files(runner.lake, SPEC) if f"/run-{number}/" in file]


def test_a_later_run_fences_an_earlier_one_off(
    runner: ScriptedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = runner.order()
    later: list[Done] = []

    def reach(reached: FailPoint) -> None:
        if reached == "files_written" and not later:
            monkeypatch.undo()
            publish(runner.log, {"id": 9})
            later.append(runner.run())

    monkeypatch.setattr(export, "reach", reach)
    said = runner.carry_out(order)
    assert isinstance(said, Done | Failed)
    assert said.result.already if isinstance(said, Done) else said.code == "superseded"
    check(runner)
