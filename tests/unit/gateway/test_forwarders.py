"""The fleet as it is shown, to programs and to people."""

from __future__ import annotations

from io import StringIO
from typing import Any

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

import openapi
from gateway.command import app
from gateway.commands import forwarders_operation
from gateway.commands.forwarder_view import document, named_in
from gateway.commands.forwarders_operation import tables
from metadata.delivery.fleet import LiveForwarder
from metadata.delivery.hints import Hint
from metadata.delivery.loads import Load, UnitLoad
from metadata.ids import new_uid
from metadata.types import Unit

TENANT, OTHER_TENANT = new_uid(), new_uid()
ORDERS, BILLING, STRANGE = new_uid(), new_uid(), new_uid()
PART = Unit(TENANT, ORDERS, 3, BILLING)
THEIRS = Unit(OTHER_TENANT, STRANGE, 0, new_uid())
HERE, THERE, DEAD = new_uid(), new_uid(), new_uid()
NAMES = {ORDERS: "orders", BILLING: "billing"}


def part(unit: Unit) -> UnitLoad:
    return UnitLoad.of(unit, per_second=120.0, backlog=7, growth_per_s=-2.0, waiting=1)


FLEET = [
    LiveForwarder(
        HERE,
        "subscribe",
        "10.0.0.1:7000",
        1.0,
        Load(0.42, 0.012, 240.0, 5e6, 9, 31, (part(PART.base),), (part(PART), part(THEIRS))),
        3600.04,
        3.2,
    ),
    LiveForwarder(THERE, "subscribe", "10.0.0.2:7000", 2.0, None, 0.5, 3.9),
]
HINTS = [
    Hint(PART.base, THERE, "partition: load", 12.34),
    Hint(PART, THERE, "split: backlog", 1.0),
    Hint(PART._replace(partition=4), DEAD, "split: backlog", 1.0),
    Hint(THEIRS, THERE, "split: load", 1.0),
]


def shown() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(document(FLEET, HINTS, NAMES)))
    return found


def test_what_names_are_asked_for() -> None:
    assert named_in(FLEET, HINTS) == {
        (TENANT, ORDERS),
        (TENANT, BILLING),
        (OTHER_TENANT, STRANGE),
        (OTHER_TENANT, THEIRS.subscription_uid),
    }


def test_loads_and_hints_are_told_by_name() -> None:
    here, there = shown()["forwarders"]
    assert here["id"] == HERE.hex()
    assert (here["age_seconds"], here["lease_seconds"]) == (3600.0, 3.2)
    assert here["load"] == {
        "cpu": 0.42,
        "lag_seconds": 0.012,
        "messages_per_second": 240.0,
        "bytes_per_second": 5e6,
        "waiting": 9,
        "units": 31,
    }
    assert here["busiest"] == [
        {
            "topic": "orders",
            "partition": 3,
            "subscription": "billing",
            "messages_per_second": 120.0,
            "backlog": 7,
            "backlog_growth_per_second": -2.0,
            "waiting": 1,
        }
    ]
    assert (there["load"], there["busiest"]) == (None, [])


def test_hints_in_force_are_those_that_name_the_living() -> None:
    hints = shown()["hints"]
    assert [(hint["subscription"], hint["reason"]) for hint in hints] == [
        (None, "partition: load"),
        ("billing", "split: backlog"),
    ]
    assert {hint["forwarder"] for hint in hints} == {THERE.hex()}


def test_nothing_of_another_tenant_is_told() -> None:
    text = str(shown())
    assert THEIRS.subscription_uid.hex() not in text
    assert STRANGE.hex() not in text


def test_the_answer_has_the_members_of_the_contract() -> None:
    schemas = openapi.document()["components"]["schemas"]
    found = shown()
    for name, value in (
        ("Fleet", found),
        ("Forwarder", found["forwarders"][0]),
        ("ForwarderLoad", found["forwarders"][0]["load"]),
        ("ForwarderUnit", found["forwarders"][0]["busiest"][0]),
        ("ForwarderHint", found["hints"][0]),
    ):
        assert set(schemas[name]["required"]) == set(schemas[name]["properties"]) == set(value)


def test_people_see_three_tables() -> None:
    out = StringIO()
    Console(file=out, width=200).print(tables(document(FLEET, HINTS, NAMES)))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert lines[1][:4] == [HERE.hex()[:8], "subscribe", "10.0.0.1:7000", "3600"]
    assert lines[1][5:] == ["31", "42%", "12", "ms", "240", "4.8", "MiB", "9"]
    assert lines[2][5:] == ["–"] * 6
    assert ["orders", "3", "billing", HERE.hex()[:8], "120", "7", "-2", "1"] in lines
    assert ["orders", "3", "all", THERE.hex()[:8], "partition:", "load", "12", "s"] in lines


def test_a_fleet_that_is_idle_is_one_table() -> None:
    out = StringIO()
    Console(file=out, width=200).print(tables(document(FLEET[1:], [], {})))
    assert len(out.getvalue().splitlines()) == 2


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PACKETBOAT_DATABASE_URL", raising=False)
    monkeypatch.setattr(forwarders_operation.logs, "configure", lambda *_, **__: None)


@pytest.mark.usefixtures("nothing_set")
@pytest.mark.parametrize(
    ("arguments", "word"),
    [([], "PACKETBOAT_DATABASE_URL"), (["--data-dir", "/nowhere"], "/nowhere")],
)
def test_wrong_use_is_status_2(arguments: list[str], word: str) -> None:
    result = CliRunner().invoke(app, ["forwarders", *arguments])
    assert result.exit_code == 2
    assert word in result.output


@pytest.mark.usefixtures("nothing_set")
def test_a_postgres_that_is_away_is_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACKETBOAT_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    result = CliRunner().invoke(app, ["forwarders"])
    assert result.exit_code == 1, result.output
    assert "unavailable" in result.output
