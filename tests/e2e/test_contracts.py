"""Schemas and schedules over HTTP."""

from __future__ import annotations

import base64
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation

WITHIN_S = 10.0
"""A new version reaches publishers within 2 s on a machine that is not busy."""
ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "additionalProperties": False,
}
AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


class Api:
    def __init__(self, url: str, http: requests.Session) -> None:
        self._url = url
        self._http = http
        self.suffix = uuid.uuid4().hex[:8]

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> requests.Response:
        if body is not None:
            more["json"] = body
        return self._http.request(method, self._url + path, timeout=30, **more)

    def made(self, path: str, body: Any) -> dict[str, Any]:
        answer = self("POST", path, body)
        assert answer.status_code in (200, 201), answer.text
        return dict(answer.json())


@pytest.fixture(scope="module")
def api(running: Installation) -> Iterator[Api]:
    with running.session() as session:
        yield Api(running.url, session)


def slug(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].rpartition("/")[2]


def test_a_topic_with_a_schema_takes_only_what_fits(api: Api) -> None:
    name, topic = f"orders-{api.suffix}", f"checked-{api.suffix}"
    made = api.made("/schemas", {"name": name, "type": "json_schema", "definition": ORDER})
    assert (made["number"], made["compatibility"], made["definition"]) == (1, "backward", ORDER)
    unknown = api("POST", "/topics", {"name": topic, "schema": "none-" + api.suffix})
    assert slug(unknown) == (422, "invalid-request")
    api.made("/topics", {"name": topic, "schema": name})
    assert api("POST", f"/topics/{topic}/messages", {"id": 1}).status_code == 201
    refused = api("POST", f"/topics/{topic}/messages", {"id": "1"})
    assert slug(refused) == (422, "schema-violation")
    assert [error["field"] for error in refused.json()["errors"]] == ["/id"]
    refused = api("POST", f"/topics/{topic}/messages", data=b"x", headers={"Content-Type": "a/b"})
    assert [error["field"] for error in refused.json()["errors"]] == ["content_type"]
    items = [{"data": {"id": 2}}, {"data": {}, "key": "k"}, {"data": {"id": 3}, "key": "k"}]
    results = api.made(f"/topics/{topic}/messages:batch", {"messages": items})["results"]
    assert [result.get("status", 201) for result in results] == [201, 422, 424]
    assert results[1]["type"].endswith("/schema-violation")
    assert results[2]["type"].endswith("/preceding-item-failed")
    in_use = api("DELETE", f"/schemas/{name}")
    assert slug(in_use) == (409, "schema-in-use")
    assert api("PATCH", f"/topics/{topic}", {"schema": None}).status_code == 200
    assert api("DELETE", f"/schemas/{name}").status_code == 204
    assert slug(api("GET", f"/schemas/{name}")) == (404, "schema-not-found")


def test_a_new_version_is_compared_reaches_publishers_and_may_be_named(api: Api) -> None:
    name, topic = f"growing-{api.suffix}", f"growing-{api.suffix}"
    api.made("/schemas", {"name": name, "type": "json_schema", "definition": ORDER})
    api.made("/topics", {"name": topic, "schema": name})
    assert api("POST", f"/topics/{topic}/messages", {"id": 1}).status_code == 201
    stricter = ORDER | {"required": ["id", "note"]}
    refused = api("POST", f"/schemas/{name}/versions", {"definition": stricter})
    assert slug(refused) == (422, "schema-incompatible")
    assert [error["field"] for error in refused.json()["errors"]] == ["/note"]
    checked = api.made(f"/schemas/{name}:check", {"definition": stricter})
    assert (checked["compatible"], checked["number"]) == (False, 1)
    same = api("POST", f"/schemas/{name}/versions", {"definition": dict(reversed(ORDER.items()))})
    assert (same.status_code, same.json()) == (200, {"number": 1})
    tagged = ORDER | {"properties": ORDER["properties"] | {"tag": {"type": "string"}}}  # type: ignore[operator]
    assert api.made(f"/schemas/{name}/versions", {"definition": tagged}) == {"number": 2}
    deadline_s = time.monotonic() + WITHIN_S
    while api("POST", f"/topics/{topic}/messages", {"id": 1, "tag": "x"}).status_code != 201:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    old = {"Packetboat-Schema-Version": "1"}
    refused = api("POST", f"/topics/{topic}/messages", {"id": 1, "tag": "x"}, headers=old)
    assert slug(refused) == (422, "schema-violation")
    assert api("POST", f"/topics/{topic}/messages", {"id": 1}, headers=old).status_code == 201
    none = {"Packetboat-Schema-Version": "3"}
    assert api("POST", f"/topics/{topic}/messages", {"id": 1}, headers=none).status_code == 422
    validated = api.made(f"/schemas/{name}:validate", {"data": {"tag": "x"}, "number": 1})
    assert (validated["valid"], validated["number"]) == (False, 1)
    assert api("GET", f"/schemas/{name}/versions/1").json()["definition"] == ORDER
    listed = api("GET", f"/schemas/{name}/versions").json()["versions"]
    assert [version["number"] for version in listed] == [2, 1]
    preview = {"type": "json_schema", "definition": stricter, "messages": 10}
    seen = api.made(f"/topics/{topic}:preview_schema", preview)
    assert (seen["messages"], seen["valid"]) == (3, 0)
    assert len(seen["samples"]) == 3
    assert api.made(f"/topics/{topic}:preview_schema", {"schema": name})["valid"] == 3


def test_avro_bodies(api: Api) -> None:
    name, topic = f"avro-{api.suffix}", f"avro-{api.suffix}"
    api.made("/schemas", {"name": name, "type": "avro", "definition": AVRO})
    api.made("/topics", {"name": topic, "schema": name})
    binary = {"Content-Type": "avro/binary"}
    for body, status in ((b"\x02", 201), (b"", 422), (b"\x02\x02", 422)):
        answer = api("POST", f"/topics/{topic}/messages", data=body, headers=binary)
        assert answer.status_code == status, answer.text
    assert api("POST", f"/topics/{topic}/messages", {"id": 5}).status_code == 201
    given = {"data_base64": base64.b64encode(b"\x02").decode(), "content_type": "avro/binary"}
    assert api.made(f"/schemas/{name}:validate", given)["valid"] is True
    for bad in ({"type": "record"}, "not JSON", {"type": "array", "items": "none"}):
        refused = api("POST", f"/schemas/{name}/versions", {"definition": bad})
        assert slug(refused) == (422, "invalid-definition")


def test_a_schedule_is_made_changed_run_now_and_deleted(api: Api) -> None:
    name, topic = f"nightly-{api.suffix}", f"nightly-{api.suffix}"
    api.made("/topics", {"name": topic})
    api.made(f"/topics/{topic}/subscriptions", {"name": name})
    body: dict[str, Any] = {
        "name": name,
        "topic": topic,
        "cron": "30 2 * * *",
        "time_zone": "Europe/Berlin",
        "message": {"data": {"go": True}, "key": "k", "attributes": {"a": "b"}, "ttl_seconds": 60},
    }
    answer = api("POST", "/schedules", body)
    assert answer.status_code == 201
    made = answer.json()
    assert made["message"]["data"] == {"go": True}
    assert (made["runs"], made["missed_runs"], len(made["next_runs"])) == (0, "skip", 3)
    assert slug(api("POST", "/schedules", body)) == (409, "schedule-exists")
    wrong = api("POST", "/schedules", body | {"name": "w", "cron": "99 * * * *"})
    assert [error["field"] for error in wrong.json()["errors"]] == ["cron"]
    etag = answer.headers["etag"]
    patched = api("PATCH", f"/schedules/{name}", {"paused": True}, headers={"If-Match": etag})
    assert (patched.status_code, patched.json()["next_runs"]) == (200, [])
    stale = api("PATCH", f"/schedules/{name}", {"paused": False}, headers={"If-Match": etag})
    assert slug(stale) == (412, "precondition-failed")
    assert len(api("GET", f"/schedules/{name}/next?count=5").json()["next_runs"]) == 5
    assert api("POST", f"/schedules/{name}:resume").json()["next_runs"] == made["next_runs"]
    run = api("POST", f"/schedules/{name}:run").json()
    pulled = api("GET", f"/subscriptions/{name}/messages?wait_seconds=10").json()["messages"]
    assert [message["message_id"] for message in pulled] == [run["message_id"]]
    assert (pulled[0]["data"], pulled[0]["attributes"]) == ({"go": True}, {"a": "b"})
    replaced = body | {"cron": "@hourly", "missed_runs": "latest"}
    assert api("PUT", f"/schedules/{name}", replaced).json()["cron"] == "@hourly"
    listed = api("GET", "/schedules").json()["schedules"]
    assert name in [schedule["name"] for schedule in listed]
    assert api("DELETE", f"/schedules/{name}").status_code == 204
    assert slug(api("GET", f"/schedules/{name}")) == (404, "schedule-not-found")
