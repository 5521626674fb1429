"""Exports: what they begin with, what may change, and what their deletion leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from metadata.errors import BadPageToken, Conflict, NotFound
from metadata.exports.exports import ExportRepository, ImmutableField, TableTaken, TooManyExports
from metadata.exports.types import ExportSpec, LanePosition
from tests.integration.exports.export_support import Harbour, each, lanes

SPEC = ExportSpec(
    name="sales",
    topic="orders",
    table="sales",
    lake="blue",
    format="parquet",
    body="avro",
    columns={"id": "string"},
    keep_data=True,
    partition_by="hour",
    key_buckets=8,
    filter="true",
    max_bytes_per_second=1000,
    target_file_bytes=1,
    keep_snapshots_s=2,
    orphans_after_s=3,
    start="latest",
    cron="@hourly",
    time_zone="Europe/Berlin",
    missed_runs="skip",
    maintain_cron="@weekly",
    next_at=datetime(2026, 1, 1, tzinfo=UTC),
    maintain_next_at=datetime(2026, 1, 4, tzinfo=UTC),
    paused=True,
    labels={"team": "finance"},
)
"""Nothing of it is as it is by default."""


async def test_an_export_is_what_was_asked_for(harbour: Harbour) -> None:
    topic = await harbour.topic()
    starts = [LanePosition(lane, at) for lane, at in each(topic, 5, 7).items()]
    made = await harbour.exports.create(harbour.tenant_id, SPEC, starts)
    assert made.spec == SPEC
    assert (made.state, made.rows, made.last_run) == ("paused", 0, None)
    assert [(lane.lane, lane.offset, lane.end) for lane in made.positions] == [
        (lane, at, None) for lane, at in each(topic, 5, 7).items()
    ]
    assert await harbour.get("sales") == made
    assert await harbour.pinned(made, topic) == {(0, 0): 5, (1, 0): 7}


async def test_what_changes_is_all_that_may(harbour: Harbour) -> None:
    await harbour.topic()
    made = await harbour.exports.create(harbour.tenant_id, SPEC, [])
    mutable = {
        "columns": {},
        "keep_data": False,
        "filter": None,
        "max_bytes_per_second": None,
        "target_file_bytes": 10,
        "keep_snapshots_s": 20,
        "orphans_after_s": 30,
        "cron": None,
        "time_zone": "UTC",
        "missed_runs": "latest",
        "maintain_cron": None,
        "next_at": None,
        "maintain_next_at": None,
        "paused": False,
        "labels": {},
    }
    changed = await harbour.exports.update(
        harbour.tenant_id, "sales", lambda export: replace(export.spec, **mutable)
    )
    assert changed.spec == replace(SPEC, **mutable)  # type: ignore[arg-type]
    assert (changed.state, changed.version > made.version) == ("idle", True)
    for field in ExportSpec.__dataclass_fields__.keys() - mutable.keys():
        value = 9 if field == "key_buckets" else "other"
        with pytest.raises(ImmutableField, match=field):
            await harbour.exports.update(
                harbour.tenant_id,
                "sales",
                lambda export, field=field, value=value: replace(  # type: ignore[misc]
                    export.spec, **{field: value}
                ),
            )
    assert await harbour.get("sales") == changed


async def test_versions_and_names_are_held_to(harbour: Harbour) -> None:
    await harbour.topic()
    made = await harbour.export()
    with pytest.raises(Conflict) as taken:
        await harbour.export(table="another")
    assert taken.value.existing == made
    for change in (
        harbour.exports.update(
            harbour.tenant_id, "lake", lambda export: export.spec, if_version=made.version - 1
        ),
        harbour.exports.delete(harbour.tenant_id, "lake", if_version=made.version - 1),
    ):
        with pytest.raises(Conflict, match="is at version"):
            await change
    for missing in (
        harbour.get("none"),
        harbour.exports.delete(harbour.tenant_id, "none"),
        harbour.exports.update(harbour.tenant_id, "none", lambda export: export.spec),
    ):
        with pytest.raises(NotFound):
            await missing
    await harbour.exports.delete(harbour.tenant_id, "lake", if_version=made.version)
    with pytest.raises(NotFound):
        await harbour.get()


async def test_a_table_is_of_one_export(harbour: Harbour) -> None:
    """And so is its rejects table; in another lake it is another table."""
    await harbour.topic()
    await harbour.export("a", table="sales")
    for table in ("sales", "sales_rejects"):
        with pytest.raises(TableTaken, match="'a'"):
            await harbour.export("b", table=table)
    await harbour.export("b", table="rivers_rejects")
    with pytest.raises(TableTaken, match="'b'"):
        await harbour.export("c", table="rivers")
    await harbour.export("c", table="sales", lake="other")
    await harbour.exports.delete(harbour.tenant_id, "a")
    await harbour.export("a", table="sales_rejects")


async def test_pages_go_by_name_and_topic(harbour: Harbour) -> None:
    await harbour.topic("orders")
    await harbour.topic("orders-eu")
    await harbour.topic("orders_eu")
    for name, topic in (("a", "orders"), ("b", "orders*"), ("c", "*_eu"), ("d", "*")):
        await harbour.export(name, topic)

    async def of(topic: str | None) -> list[str]:
        names, token = [], None
        while True:
            page = await harbour.exports.page(
                harbour.tenant_id, topic=topic, page_size=2, page_token=token
            )
            names += [export.name for export in page.items]
            token = page.next_token
            if token is None:
                return names

    assert await of(None) == ["a", "b", "c", "d"]
    assert await of("orders") == ["a", "b", "d"]
    assert await of("orders-eu") == ["b", "d"]
    assert await of("orders_eu") == ["b", "c", "d"]
    with pytest.raises(BadPageToken):
        await harbour.exports.page(harbour.tenant_id, page_token="?")
    found = await harbour.exports.topics(harbour.tenant_id, "*_eu")
    assert [topic.name for topic in found] == ["orders_eu"]


async def test_a_tenant_has_so_many(harbour: Harbour, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metadata.exports.exports.MAX_EXPORTS", 2)
    await harbour.export("a")
    await harbour.export("b")
    with pytest.raises(TooManyExports):
        await harbour.export("c")


async def test_nothing_is_begun_in_a_topic_that_is_going(harbour: Harbour) -> None:
    topic = await harbour.topic()
    await harbour.world.topics.mark_deleting(harbour.tenant_id, "orders")
    starts = [LanePosition(lane, 0) for lane in lanes(topic)]
    with pytest.raises(NotFound, match="orders"):
        await harbour.exports.create(
            harbour.tenant_id, ExportSpec("lake", "orders", "lake"), starts
        )
    with pytest.raises(NotFound):
        await harbour.get()


async def test_deletion_takes_runs_pins_and_positions_and_leaves_the_number(
    harbour: Harbour,
) -> None:
    """A table knows runs by their numbers: those of the next export for it come after."""
    topic = await harbour.topic()
    for last in (2, 3):
        made = await harbour.export()
        await harbour.run(kind="maintain")
        assert (await harbour.run()).number == last
        assert await harbour.exports.delete(harbour.tenant_id, "lake") is None
        assert await harbour.pinned(made, topic) == {}
        for table in ("exports", "export_runs", "export_positions"):
            assert await harbour.ask(f"SELECT count(*) FROM {table}") == 0
        await harbour.do("UPDATE export_tables SET last_number = last_number - 1")
    await harbour.export("other", table="other")
    assert (await harbour.run("other")).number == 1


async def test_what_goes_with_a_topic_and_with_a_tenant(harbour: Harbour) -> None:
    topic, kept = await harbour.topic(), await harbour.topic("kept", 1)
    made = await harbour.export(topic="*")
    assert len(made.positions) == 3
    await harbour.world.topics.mark_deleting(harbour.tenant_id, "orders")
    await harbour.world.topics.remove(harbour.tenant_id, topic.uid)
    left = await harbour.get()
    assert [state.lane.topic for state in left.positions] == ["kept"]
    assert await harbour.pinned(made, topic) == {}
    assert await harbour.pinned(made, kept) == {(0, 0): 0}
    await harbour.run()
    await harbour.world.tenants.purge(harbour.tenant_id)
    assert await harbour.ask("SELECT count(*) FROM exports") == 0
    assert await harbour.ask("SELECT count(*) FROM export_runs") == 0


async def test_an_export_is_its_tenants(harbour: Harbour) -> None:
    await harbour.topic()
    await harbour.export()
    other = await Harbour.open(harbour.database, bytes(15) + b"\x0f")
    with pytest.raises(NotFound):
        await ExportRepository(harbour.database).get(other.tenant_id, "lake")
    assert (await other.exports.page(other.tenant_id)).items == ()
    await other.topic()
    await other.export()
