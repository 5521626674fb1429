"""Exports over HTTP, with a runner that is written here: what each answer is, and what is left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from gateway.operators import Credential
from harness.fork_server import run_forked
from tests.e2e.installation import Installation
from tests.security.tenants import Actor, fresh, new_tenant, operator_of, signed_in

MAX_RUN_MESSAGES = 10
WAIT_S = 60.0
KEPT = {"mode": "retain", "seconds": 86_400}


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield an installation whose runs belong to this module alone."""
    made = Installation(tmp_path_factory.mktemp("exports") / "data")
    made.settings["PACKETBOAT_EXPORT_LAKES"] = "default,attic"
    made.settings["PACKETBOAT_EXPORT_MAX_RUN_MESSAGES"] = str(MAX_RUN_MESSAGES)
    try:
        yield made.start()
    finally:
        if made.process is not None:
            made.stop()


@pytest.fixture(scope="module")
def runner(installation: Installation) -> Runner:
    """Return a runner whose operator may do nothing else."""
    file = installation.directory / "runner.env"
    command = ["operator", "--data-dir", str(installation.directory), "create", "runner"]
    command += ["--credential-file", str(file), "--permission", "run_exports"]
    assert run_forked("gateway", command, timeout_s=60).returncode == 0
    credential = Credential.from_exports(file.read_text())
    actor = signed_in(installation.url, credential.client_id, credential.client_secret)
    return Runner(actor)


@pytest.fixture
def tenant(installation: Installation) -> Actor:
    """Return the owner of a new tenant."""
    return new_tenant(installation)[1]


class Held:
    """A run that was claimed."""

    def __init__(self, actor: Actor, run: dict[str, Any]) -> None:
        self.actor = actor
        self.run = run
        self.path = f"/export_runs/{run['uid']}"
        self.url = actor.url

    def ask(self, what: str, status: int = 200, **body: Any) -> Any:
        body = {"lease": self.run["lease"]} | body
        return self.actor.post(f"{self.path}:{what}", status, **body).json()

    def plan(self, positions: list[Any] | None = None) -> list[dict[str, Any]]:
        ranges: list[dict[str, Any]] = self.ask("plan", positions=positions or [])["ranges"]
        return ranges

    def succeed(self, ranges: list[dict[str, Any]], **result: Any) -> None:
        positions = [{"key": each["key"], "offset": each["end"]} for each in ranges]
        rows = sum(each["end"] - each["start"] for each in ranges)
        self.ask("finish", state="succeeded", result={"rows": rows} | result, positions=positions)

    def reader(self, token: str | None = None) -> Actor:
        return Actor(self.url, token or self.run["token"])


class Runner:
    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def claim(self, lakes: tuple[str, ...] = ("default",), **more: Any) -> Held | None:
        asked = {"runner": "scripted", "lakes": list(lakes), "wait_seconds": 0} | more
        run = self.actor.post("/export_runs:claim", 200, **asked).json()["run"]
        return None if run is None else Held(self.actor, run)

    def held(self, **more: Any) -> Held:
        """There is one."""
        held = self.claim(wait_seconds=30, **more)
        assert held is not None
        return held


def topic_of(tenant: Actor, messages: int = 0) -> str:
    """Make a topic whose messages stay, whether an export is there for them or not."""
    name = fresh("topic")
    tenant.post("/topics", 201, name=name, partitions=1, retention=KEPT)
    publish(tenant, name, messages)
    return name


def publish(tenant: Actor, topic: str, messages: int) -> None:
    for number in range(messages):
        tenant.ask("POST", f"/topics/{topic}/messages", 201, json={"n": number})


def export_of(tenant: Actor, topic: str, **more: Any) -> str:
    name = fresh("export")
    tenant.post("/exports", 201, **{"name": name, "topic": topic} | more)
    return name


def slug(answer: requests.Response) -> str:
    return str(answer.json()["type"]).rpartition("/")[2]


def test_a_new_export_is_as_it_was_asked_for(tenant: Actor) -> None:
    topic = topic_of(tenant, 3)
    answer = tenant.post("/exports", 201, name="By-Hour.1", topic=topic, cron="@hourly")
    assert answer.headers["location"] == "/exports/By-Hour.1"
    assert answer.headers["etag"]
    made = answer.json()
    assert made == tenant.get("/exports/By-Hour.1")
    shown = {name: made[name] for name in ("table", "lake", "format", "body", "start", "state")}
    assert shown == {
        "table": "by_hour_1",
        "lake": "default",
        "format": "iceberg",
        "body": "json",
        "start": "earliest",
        "state": "idle",
    }
    assert len(made["next_runs"]) == 3
    assert made["maintain_cron"] == "@daily"
    (position,) = made["positions"]
    assert (position["topic"], position["offset"], position["end_offset"]) == (topic, 0, 3)
    assert made["lag_messages"] == 3
    assert made["last_run"] is None
    assert made["table_state"] is None


@pytest.mark.parametrize(
    ("start", "offset"), [("earliest", 0), ("latest", 4), ("2020-01-01T00:00:00+01:00", 0)]
)
def test_where_an_export_begins(tenant: Actor, start: str, offset: int) -> None:
    topic = topic_of(tenant, 4)
    name = export_of(tenant, topic, start=start)
    publish(tenant, topic, 2)
    found = tenant.get(f"/exports/{name}")
    assert [each["offset"] for each in found["positions"]] == [offset]
    assert found["lag_messages"] == 6 - offset


def test_all_that_is_wrong_is_said_at_once(tenant: Actor) -> None:
    topic = topic_of(tenant)
    body = {
        "name": "x",
        "topic": topic,
        "table": "x_rejects",
        "lake": "nowhere",
        "start": "2999-01-01T00:00:00Z",
        "filter": "attributes.",
        "columns": {"amount": "decimal(3,4)", "at": "time"},
        "cron": "never",
        "time_zone": "Mars/Olympus",
        "labels": {"": "x"},
    }
    answer = tenant.ask("POST", "/exports", 422, json=body)
    assert slug(answer) == "invalid-request"
    fields = {each["field"] for each in answer.json()["errors"]}
    assert fields >= {"table", "lake", "start", "filter", "columns.amount", "columns.at", "labels"}
    assert {"cron", "time_zone"} & fields
    assert "attic, default" in answer.text
    tenant.ask("GET", "/exports/x", 404)


def test_topics_that_are_not_there(tenant: Actor) -> None:
    answer = tenant.post("/exports", 422, name="x", topic="none")
    assert answer.json()["errors"] == [{"field": "topic", "detail": "there is no topic 'none'"}]
    # A pattern may match no topic yet.
    assert tenant.post("/exports", 201, name="x", topic="none-*").json()["positions"] == []


def test_names_and_tables_are_one_export_s(tenant: Actor) -> None:
    topic = topic_of(tenant)
    tenant.post("/exports", 201, name="a-b", topic=topic)
    assert slug(tenant.post("/exports", 409, name="a-b", topic=topic)) == "export-exists"
    taken = tenant.post("/exports", 409, name="a_b", topic=topic)
    assert slug(taken) == "table-taken"
    assert "'a-b'" in taken.json()["detail"]
    tenant.post("/exports", 201, name="a_b", topic=topic, lake="attic")


def test_put_is_repeatable_and_changes_what_can_change(tenant: Actor) -> None:
    topic = topic_of(tenant)
    body = {"topic": topic, "cron": "@daily", "start": "2026-01-01T00:00:00Z"}
    first = tenant.ask("PUT", "/exports/e", 201, json=body)
    again = tenant.ask("PUT", "/exports/e", 200, json=body | {"start": "2026-01-01T01:00:00+01:00"})
    assert again.headers["etag"] == first.headers["etag"]
    changed = tenant.ask("PUT", "/exports/e", 200, json=body | {"cron": None, "keep_data": True})
    assert (changed.json()["cron"], changed.json()["keep_data"]) == (None, True)
    assert changed.json()["next_runs"] == []
    stale = {"If-Match": first.headers["etag"]}
    tenant.ask("PUT", "/exports/e", 412, json=body, headers=stale)
    tenant.ask("PATCH", "/exports/e", 412, json={}, headers=stale)
    tenant.ask("DELETE", "/exports/e", 412, headers=stale)
    tenant.ask("PUT", "/exports/none", 412, json=body, headers=stale)


def test_what_never_changes(tenant: Actor) -> None:
    topic = topic_of(tenant)
    tenant.post("/exports", 201, name="e", topic=topic)
    fixed = {
        "topic": "other",
        "lake": "attic",
        "table": "other",
        "format": "parquet",
        "body": "raw",
        "partition_by": "hour",
        "key_buckets": 4,
        "start": "latest",
    }
    for field, value in fixed.items():
        answer = tenant.ask("PATCH", "/exports/e", 409, json={field: value})
        assert slug(answer) == "immutable-field"
        assert [each["field"] for each in answer.json()["errors"]] == [field]
    answer = tenant.ask("PATCH", "/exports/e", 409, json=fixed)
    assert {each["field"] for each in answer.json()["errors"]} == set(fixed)
    tenant.ask("PATCH", "/exports/e", 200, json={"topic": topic, "start": "earliest"})


def test_paused_and_resumed(tenant: Actor, runner: Runner) -> None:
    name = export_of(tenant, topic_of(tenant, 1), cron="@daily")
    assert tenant.post(f"/exports/{name}:pause", 200).json()["state"] == "paused"
    assert tenant.get(f"/exports/{name}")["next_runs"] == []
    # Requested runs run all the same.
    tenant.post(f"/exports/{name}:run", 201)
    held = runner.held()
    held.succeed(held.plan())
    assert tenant.post(f"/exports/{name}:resume", 200).json()["state"] == "idle"
    assert tenant.get(f"/exports/{name}")["next_runs"]


def test_a_run_from_its_start_to_its_end(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 7)
    name = export_of(tenant, topic, labels={"a": "b"}, filter="key == null")
    answer = tenant.post(f"/exports/{name}:run", 201)
    run = answer.json()
    assert answer.headers["location"] == f"/exports/{name}/runs/{run['number']}"
    assert (run["state"], run["trigger"], run["attempt"]) == ("queued", "manual", 0)
    same = tenant.post(f"/exports/{name}:run", 200)
    assert same.json()["number"] == run["number"]
    assert "location" not in same.headers
    assert tenant.get(f"/exports/{name}")["state"] == "queued"

    held = runner.held()
    assert (held.run["number"], held.run["attempt"], held.run["ranges"]) == (run["number"], 1, None)
    spec = held.run["export"]
    assert (spec["name"], spec["topic"], spec["filter"]) == (name, topic, "key == null")
    assert set(spec["maintenance"]) == {"target_file_bytes", "keep_snapshots_s", "orphans_after_s"}
    assert tenant.get(f"/exports/{name}")["state"] == "running"

    ranges = held.plan()
    assert [(each["start"], each["end"]) for each in ranges] == [(0, 7)]
    publish(tenant, topic, 1)
    assert held.plan() == ranges
    renewed = held.ask(
        "renew", progress={"stage": "reading", "rows": 3, "of_messages": 7}, log="one\n"
    )
    assert renewed["cancelled"] is False
    shown = tenant.get(f"/exports/{name}/runs/{run['number']}")
    assert shown["progress"] == {"stage": "reading", "rows": 3, "bytes": 0, "of_messages": 7}
    assert [each["end"] for each in shown["ranges"]] == [7]
    assert shown["runner"] == "scripted"

    table = {"identifier": "t.e", "location": "/lake", "metadata_location": None, "snapshot_id": 5}
    positions = [{"key": ranges[0]["key"], "offset": 7}]
    ending = {
        "state": "succeeded",
        "positions": positions,
        "log": "two\n",
        "result": {"rows": 5, "rejected": 1, "filtered": 1, "bytes": 70, "table": table, "new": 1},
    }
    held.ask("finish", **ending)
    assert held.ask("finish", **ending) == {}

    done = tenant.get(f"/exports/{name}")
    assert (done["state"], done["rows"], done["rejected"], done["filtered"]) == ("idle", 5, 1, 1)
    assert done["lag_messages"] == 1
    assert [each["offset"] for each in done["positions"]] == [7]
    assert done["table_state"] == table
    assert done["last_run"]["state"] == "succeeded"
    log = tenant.ask("GET", f"/exports/{name}/runs/{run['number']}/log", 200)
    assert log.text == "one\ntwo\n"
    assert log.headers["content-type"].startswith("text/plain")
    (listed,) = tenant.get(f"/exports/{name}/runs")["runs"]
    assert (listed["number"], listed["ranges"]) == (run["number"], None)


def until_refused(reader: Actor, path: str) -> None:
    """A token that was seen in the last minute is refused once the change feed tells of its end."""
    deadline_s = time.monotonic() + WAIT_S
    while (status := reader.ask("GET", path).status_code) == 200:
        assert time.monotonic() < deadline_s, "the token outlives its run"
        time.sleep(0.02)
    assert status == 401


def test_the_token_of_a_run_reads_its_topics_and_ends_with_it(
    tenant: Actor, runner: Runner
) -> None:
    topic, other = topic_of(tenant, 1), topic_of(tenant, 1)
    tenant.post(f"/exports/{export_of(tenant, topic)}:run", 201)
    held = runner.held()
    renewed = held.ask("renew")["token"]
    for reader in (held.reader(), held.reader(renewed)):
        page = reader.get(f"/topics/{topic}/partitions/0/messages")
        assert len(page["messages"]) == 1
        assert [each["name"] for each in reader.get("/topics")["topics"]] == [topic]
        reader.ask("GET", f"/topics/{other}/partitions/0/messages", 403)
        reader.ask("POST", f"/topics/{topic}/messages", 403, json=1)
        reader.ask("GET", "/exports", 403)
        reader.ask("POST", "/export_runs:claim", 403, json={"runner": "x", "lakes": ["default"]})
    held.succeed(held.plan())
    for reader in (held.reader(), held.reader(renewed)):
        until_refused(reader, f"/topics/{topic}/partitions/0/messages")


def test_a_cancelled_run_is_told_and_reads_no_more(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 1)
    path = f"/exports/{export_of(tenant, topic)}"
    number = tenant.post(f"{path}:run", 201).json()["number"]
    held = runner.held()
    cancelled = tenant.post(f"{path}/runs/{number}:cancel", 200).json()
    assert cancelled["state"] == "running"
    held.reader().ask("GET", f"/topics/{topic}/partitions/0/messages", 401)
    assert held.ask("renew")["cancelled"] is True
    held.ask("finish", state="failed", failure={"code": "x", "message": "y"}, retry=True)
    assert tenant.get(f"{path}/runs/{number}")["state"] == "cancelled"
    # And one that waits is at once.
    number = tenant.post(f"{path}:run", 201).json()["number"]
    assert tenant.post(f"{path}/runs/{number}:cancel", 200).json()["state"] == "cancelled"
    assert tenant.post(f"{path}/runs/{number}:cancel", 200).json()["state"] == "cancelled"
    assert runner.claim() is None


def test_a_deleted_export_leaves_its_runner_nothing(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 1)
    name = export_of(tenant, topic)
    tenant.post(f"/exports/{name}:run", 201)
    held = runner.held()
    tenant.ask("DELETE", f"/exports/{name}", 204)
    held.reader().ask("GET", f"/topics/{topic}/partitions/0/messages", 401)
    for what, more in LOST.items():
        answer = runner.actor.post(f"{held.path}:{what}", 409, lease=held.run["lease"], **more)
        assert slug(answer) == "lease-lost"
    tenant.ask("GET", f"/exports/{name}", 404)
    tenant.ask("GET", f"/exports/{name}/runs", 404)


LOST: dict[str, dict[str, Any]] = {
    "plan": {"positions": []},
    "renew": {},
    "finish": {"state": "succeeded"},
}


def test_what_is_no_lease_holds_nothing(tenant: Actor, runner: Runner) -> None:
    tenant.post(f"/exports/{export_of(tenant, topic_of(tenant, 1))}:run", 201)
    held = runner.held()
    for path in (held.path, "/export_runs/nothing", "/export_runs/" + "A" * 43):
        for lease in ("x", "0" * 32, held.run["lease"][:-1]):
            for what, more in LOST.items():
                answer = runner.actor.post(f"{path}:{what}", 409, lease=lease, **more)
                assert slug(answer) == "lease-lost"
    held.succeed(held.plan())


def test_a_failed_attempt_is_followed_by_another(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 2)
    name = export_of(tenant, topic)
    tenant.post(f"/exports/{name}:run", 201)
    first = runner.held()
    ranges = first.plan()
    first.ask("finish", state="failed", failure={"code": "boom", "message": "why"}, retry=True)
    waiting = tenant.get(f"/exports/{name}")["last_run"]
    assert (waiting["state"], waiting["failure"]) == ("queued", {"code": "boom", "message": "why"})
    second = runner.held()
    assert (second.run["attempt"], second.run["ranges"]) == (2, ranges)
    second.ask("finish", state="failed", failure={"code": "boom", "message": "why"})
    failed = tenant.get(f"/exports/{name}")
    assert (failed["last_run"]["state"], failed["failure"]["code"]) == ("failed", "boom")
    tenant.post(f"/exports/{name}:run", 201)
    third = runner.held()
    third.succeed(third.plan())
    assert tenant.get(f"/exports/{name}")["failure"] is None


def test_a_lease_that_ends_hands_the_run_out_again(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 1)
    tenant.post(f"/exports/{export_of(tenant, topic)}:run", 201)
    first = runner.held(lease_seconds=1)
    second = None
    deadline_s = time.monotonic() + WAIT_S
    while second is None:
        assert time.monotonic() < deadline_s
        second = runner.claim(wait_seconds=10)
    assert (second.run["uid"], second.run["attempt"]) == (first.run["uid"], 2)
    answer = runner.actor.post(f"{first.path}:renew", 409, lease=first.run["lease"])
    assert slug(answer) == "lease-lost"
    first.reader().ask("GET", f"/topics/{topic}/partitions/0/messages", 401)
    second.reader().get(f"/topics/{topic}/partitions/0/messages")
    second.succeed(second.plan())


def test_what_is_too_much_for_one_run_follows_with_the_next(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, MAX_RUN_MESSAGES + 3)
    name = export_of(tenant, topic)
    tenant.post(f"/exports/{name}:run", 201)
    first = runner.held()
    (planned,) = first.plan()
    assert (planned["start"], planned["end"]) == (0, MAX_RUN_MESSAGES)
    first.succeed([planned])
    second = runner.held()
    (rest,) = second.plan([{"key": planned["key"], "offset": planned["end"]}])
    assert (rest["start"], rest["end"]) == (MAX_RUN_MESSAGES, MAX_RUN_MESSAGES + 3)
    second.succeed([rest])
    assert tenant.get(f"/exports/{name}")["rows"] == MAX_RUN_MESSAGES + 3
    assert runner.claim() is None


def test_positions_of_the_table_decide(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 6)
    name = export_of(tenant, topic)
    tenant.post(f"/exports/{name}:run", 201)
    held = runner.held()
    (planned,) = held.plan()
    (again,) = held.plan([{"key": planned["key"], "offset": 4}])
    assert (again["start"], again["end"]) == (4, 6)
    held.succeed([again])
    assert [each["offset"] for each in tenant.get(f"/exports/{name}")["positions"]] == [6]


def test_topics_of_a_pattern_that_come_later_are_exported_whole(
    tenant: Actor, runner: Runner
) -> None:
    prefix = fresh("p")
    tenant.post("/topics", 201, name=f"{prefix}-a", partitions=1)
    publish(tenant, f"{prefix}-a", 2)
    name = export_of(tenant, f"{prefix}-*", start="latest")
    tenant.post("/topics", 201, name=f"{prefix}-b", partitions=2)
    publish(tenant, f"{prefix}-b", 3)
    tenant.post("/topics", 201, name="q" + prefix, partitions=1)
    assert tenant.get(f"/exports/{name}")["lag_messages"] == 3
    tenant.post(f"/exports/{name}:run", 201)
    held = runner.held()
    ranges = held.plan()
    assert {each["key"]["topic"] for each in ranges} == {f"{prefix}-b"}
    assert sum(each["end"] - each["start"] for each in ranges) == 3
    held.reader().get(f"/topics/{prefix}-b/partitions/0/messages")
    held.succeed(ranges)
    assert tenant.get("/exports", topic=f"{prefix}-b")["exports"][0]["name"] == name
    assert tenant.get("/exports", topic="q" + prefix)["exports"] == []


@pytest.mark.parametrize("kind", ["backfill", "maintain", "reconcile"])
def test_plain_files_have_no_runs_but_exports(tenant: Actor, kind: str) -> None:
    name = export_of(tenant, topic_of(tenant, 2), format="parquet")
    window = {"from_offset": 0} if kind == "backfill" else {}
    refused = tenant.post(f"/exports/{name}:run", 422, kind=kind, **window)
    assert [each["field"] for each in refused.json()["errors"]] == ["kind"]


def test_back_fills_say_what_they_read(tenant: Actor, runner: Runner) -> None:
    topic = topic_of(tenant, 5)
    name = export_of(tenant, topic, start="latest")
    path = f"/exports/{name}:run"
    run = tenant.post(path, 201, kind="backfill", from_offset=1, to_offset=4).json()
    assert [(each["start"], each["end"]) for each in run["ranges"]] == [(1, 4)]
    held = runner.held()
    assert (held.run["kind"], held.run["ranges"]) == ("backfill", held.plan())
    held.ask("finish", state="succeeded", result={"rows": 3})
    nothing = tenant.post(path, 409, kind="backfill", from_time="2999-01-01T00:00:00Z")
    assert slug(nothing) == "nothing-there"
    assert slug(tenant.post(path, 409, kind="reconcile")) == "nothing-there"
    publish(tenant, topic, MAX_RUN_MESSAGES)
    much = tenant.post(path, 409, kind="backfill", from_time="2020-01-01T00:00:00Z")
    assert slug(much) == "too-many-messages"
    assert much.json()["limit"] == MAX_RUN_MESSAGES


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"kind": "backfill"}, ["from_time"]),
        ({"from_offset": 1}, ["from_offset"]),
        ({"kind": "maintain", "topic": "x"}, ["topic"]),
        (
            {"kind": "backfill", "from_offset": 1, "from_time": "2026-01-01T00:00:00Z"},
            ["from_offset"],
        ),
        ({"kind": "backfill", "from_time": "yesterday"}, ["from_time"]),
        ({"kind": "backfill", "from_offset": 4, "to_offset": 4}, ["to_offset"]),
        ({"kind": "backfill", "from_offset": 0, "topic": "none"}, ["topic"]),
        ({"kind": "compact"}, ["kind"]),
    ],
)
def test_runs_that_cannot_be_asked_for(
    tenant: Actor, body: dict[str, Any], fields: list[str]
) -> None:
    name = export_of(tenant, topic_of(tenant, 1))
    answer = tenant.post(f"/exports/{name}:run", 422, **body)
    assert [each["field"] for each in answer.json()["errors"]] == fields


def test_a_claim_waits_for_a_run(tenant: Actor, runner: Runner) -> None:
    name = export_of(tenant, topic_of(tenant, 1), lake="attic")
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(runner.held, lakes=("attic", "default"))
        tenant.post(f"/exports/{name}:run", 201)
        held = waiting.result(WAIT_S)
    assert held.run["export"]["lake"] == "attic"
    assert runner.claim(("attic",)) is None
    held.succeed(held.plan())


def test_who_goes_away_while_it_waits_costs_no_attempt(tenant: Actor, runner: Runner) -> None:
    name = export_of(tenant, topic_of(tenant, 1))
    for _ in range(3):
        with pytest.raises(requests.exceptions.Timeout):
            runner.actor.session.post(
                runner.actor.url + "/export_runs:claim",
                json={"runner": "x", "lakes": ["default"], "wait_seconds": 30},
                timeout=0.2,
            )
    tenant.post(f"/exports/{name}:run", 201)
    held = runner.held()
    assert held.run["attempt"] == 1
    held.succeed(held.plan())


def test_whoever_has_topics_read_may_read_them(installation: Installation) -> None:
    _, owner = new_tenant(installation)
    for topic in ("orders-eu", "payments"):
        owner.post("/topics", 201, name=topic, partitions=1)
    maker = owner.key("manage:exports/*", "read:exports/*", "read:topics/orders-*")
    maker.post("/exports", 201, name="a", topic="orders-eu")
    maker.post("/exports", 201, name="b", topic="orders-*")
    for pattern in ("payments", "*", "order*", "*-eu"):
        answer = maker.post("/exports", 403, name="c", topic=pattern)
        assert "'read' on the topic" in answer.json()["detail"]
        maker.ask("PUT", "/exports/c", 403, json={"topic": pattern})
    owner.post("/exports", 201, name="c", topic="payments", filter="false")
    maker.ask("PATCH", "/exports/c", 403, json={"filter": None})
    maker.ask("PUT", "/exports/c", 403, json={"topic": "payments"})
    maker.post("/exports/c:run", 403)
    maker.post("/exports/c:resume", 403)
    # Calls that make it read less do not need it.
    maker.post("/exports/c:pause", 200)
    maker.ask("DELETE", "/exports/c", 204)


def test_who_may_run_exports(installation: Installation, runner: Runner) -> None:
    _, owner = new_tenant(installation)
    claim = {"runner": "x", "lakes": ["default"]}
    answer = owner.ask("POST", "/export_runs:claim", 403, json=claim)
    assert "'run_exports'" in answer.json()["detail"]
    for scope in ("run_exports", "operate"):
        owner.post("/keys", 422, name="k", scopes=[scope])
    operator_of(installation).post("/export_runs:claim", 200, **claim)
    # A client that may run exports may do nothing else.
    for path in ("/exports", "/topics", "/tenants", "/clients", "/forwarders"):
        runner.actor.ask("GET", path, 403)
    credential = Credential.from_exports((installation.directory / "runner.env").read_text())
    inside = requests.post(
        f"{installation.url}/oauth/token",
        data={"grant_type": "client_credentials", "tenant": "dev"},
        auth=(credential.client_id, credential.client_secret),
        timeout=WAIT_S,
    )
    assert (inside.status_code, inside.json()["error"]) == (400, "unauthorized_client")


def test_pages_of_runs_and_exports(tenant: Actor) -> None:
    topic = topic_of(tenant, 3)
    names = sorted(export_of(tenant, topic) for _ in range(3))
    for offset in range(3):
        body = {"kind": "backfill", "from_offset": offset, "to_offset": offset + 1}
        tenant.post(f"/exports/{names[0]}:run", 201, **body)
    seen: list[int] = []
    token = ""
    while token is not None:
        page = tenant.get(f"/exports/{names[0]}/runs", page_size=2, page_token=token)
        seen += [run["number"] for run in page["runs"]]
        token = page["next_page_token"]
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 3
    page = tenant.get("/exports", page_size=2)
    assert [each["name"] for each in page["exports"]] == names[:2]
    assert page["exports"][0]["positions"] is None
    rest = tenant.get("/exports", page_token=page["next_page_token"])
    assert [each["name"] for each in rest["exports"]] == names[2:]
    tenant.ask("GET", "/exports?page_token=x", 400)
    for number in seen:
        tenant.post(f"/exports/{names[0]}/runs/{number}:cancel", 200)


def test_changes_are_in_the_audit(tenant: Actor) -> None:
    topic = topic_of(tenant)
    tenant.post("/exports", 201, name="told", topic=topic)
    run = tenant.post("/exports/told:run", 201).json()["number"]
    tenant.post(f"/exports/told/runs/{run}:cancel", 200)
    tenant.ask("DELETE", "/exports/told", 204)
    entries = tenant.get("/audit")["entries"]
    told = {(each["action"], each["resource"]) for each in entries}
    assert told >= {
        ("createExport", "exports/told"),
        ("runExport", "exports/told"),
        ("cancelExportRun", f"exports/told/runs/{run}"),
        ("deleteExport", "exports/told"),
    }
