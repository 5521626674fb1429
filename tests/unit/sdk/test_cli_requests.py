"""Test the requests of commands: the API has each of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jsonschema_rs
import pytest

import openapi
from tests.unit.sdk.cli_support import Command

CASES: dict[str, tuple[str, Any]] = {
    "topics list --limit 5": ("GET /topics?page_size=5", None),
    "topics get o": ("GET /topics/o", None),
    "topics create o --partitions 8 --label a=b --set retention.mode=retain": (
        "POST /topics",
        {"name": "o", "partitions": 8, "labels": {"a": "b"}, "retention": {"mode": "retain"}},
    ),
    "topics create o --if-absent": ("PUT /topics/o", {}),
    "topics update o --retention-seconds 600": ("PATCH /topics/o", {"retention": {"seconds": 600}}),
    "topics delete o --force": ("DELETE /topics/o?force=true", None),
    "topics grow o 16": ("POST /topics/o:grow", {"partitions": 16}),
    "topics holds o": ("GET /topics/o/holds", None),
    "topics partitions o": ("GET /topics/o/partitions", None),
    "topics move o 3 --group 1": ("POST /topics/o/partitions/3:move", {"group": 1}),
    "topics preview-filter o true --messages 9": (
        "POST /topics/o:preview_filter",
        {"filter": "true", "messages": 9},
    ),
    "topics preview-schema o --schema n": ("POST /topics/o:preview_schema", {"schema": "n"}),
    "topics preview-schema o -f file.json --type avro --messages 9": (
        "POST /topics/o:preview_schema",
        {"type": "avro", "definition": {"x": 1}, "messages": 9},
    ),
    "topics message o m --acks": ("GET /topics/o/messages/m/ack", None),
    "topics delayed o": ("GET /topics/o/delayed?page_size=200", None),
    "topics cancel o m": ("DELETE /topics/o/messages/m", None),
    "subscriptions list --topic o": ("GET /topics/o/subscriptions?page_size=200", None),
    "subscriptions get s": ("GET /subscriptions/s", None),
    "subscriptions create o s --start earliest --push-url https://x --ordered": (
        "POST /topics/o/subscriptions",
        {
            "name": "s",
            "start": "earliest",
            "type": "push",
            "push": {"url": "https://x"},
            "ordered": True,
        },
    ),
    "subscriptions create o s --if-absent --start 2026-01-01T00:00:00Z": (
        "PUT /subscriptions/s",
        {"topic": "o", "start": {"time": "2026-01-01T00:00:00+00:00"}},
    ),
    "subscriptions update s --max-attempts 3 --dead-letter-topic d": (
        "PATCH /subscriptions/s",
        {"retry": {"max_attempts": 3}, "dead_letter_topic": "d"},
    ),
    "subscriptions delete s": ("DELETE /subscriptions/s", None),
    "subscriptions pause s --reason why": ("POST /subscriptions/s/pause", {"reason": "why"}),
    "subscriptions resume s": ("POST /subscriptions/s/resume", {}),
    "subscriptions drain s": ("POST /subscriptions/s/drain", {}),
    "subscriptions holds s": ("GET /subscriptions/s/holds", None),
    "subscriptions backlog s": ("GET /subscriptions/s/backlog", None),
    "subscriptions parked-keys s": ("GET /subscriptions/s/parked_keys", None),
    "subscriptions resume-key s k": ("POST /subscriptions/s/parked_keys:resume", {"key": "k"}),
    "subscriptions skip-key s k --no-dead-letter": (
        "POST /subscriptions/s/parked_keys:skip",
        {"key": "k", "dead_letter": False},
    ),
    "subscriptions attempts s": ("GET /subscriptions/s/attempts?page_size=50", None),
    "subscriptions test s": ("POST /subscriptions/s:test", None),
    "subscriptions enable s": ("POST /subscriptions/s:enable", None),
    "subscriptions verify s": ("POST /subscriptions/s:verify", None),
    "subscriptions replay s --id a --id b": (
        "POST /subscriptions/s:replay",
        {"message_ids": ["a", "b"]},
    ),
    "subscriptions replay s --since 2026-01-01T00:00Z --until 2026-01-02T00:00Z --max 9": (
        "POST /subscriptions/s:replay",
        {
            "from": "2026-01-01T00:00:00+00:00",
            "to": "2026-01-02T00:00:00+00:00",
            "max_messages": 9,
        },
    ),
    "subscriptions preview-filter s true": (
        "POST /subscriptions/s:preview_filter",
        {"filter": "true"},
    ),
    "skip-rules list s": ("GET /subscriptions/s/skip_rules", None),
    "skip-rules list s --removed": ("GET /subscriptions/s/skip_rules?removed=true", None),
    "skip-rules add s true --reason why": (
        "POST /subscriptions/s/skip_rules",
        {"expression": "true", "reason": "why"},
    ),
    "skip-rules remove s r": ("DELETE /subscriptions/s/skip_rules/r", None),
    "flow get s": ("GET /subscriptions/s/flow", None),
    "flow set s --rate 0 --max-outstanding 5 --ttl 30 --reason why": (
        "POST /subscriptions/s/flow",
        {"messages_per_second": 0.0, "max_outstanding": 5, "ttl_seconds": 30.0, "reason": "why"},
    ),
    "flow set s --max-outstanding 5": ("POST /subscriptions/s/flow", {"max_outstanding": 5}),
    "flow clear s": ("DELETE /subscriptions/s/flow", None),
    "signing-secrets list s": ("GET /subscriptions/s/signing_secrets", None),
    "signing-secrets create s --kind v1a --old-expires-in 60": (
        "POST /subscriptions/s/signing_secrets",
        {"kind": "v1a", "expires_previous_after_seconds": 60.0},
    ),
    "signing-secrets create s": ("POST /subscriptions/s/signing_secrets", {}),
    "signing-secrets delete s i": ("DELETE /subscriptions/s/signing_secrets/i", None),
    "subscriptions reconcile s": ("GET /subscriptions/s/reconciliation", None),
    "pull s --max 2 --wait 1": (
        "GET /subscriptions/s/messages?max_messages=2&wait_seconds=1.0",
        None,
    ),
    "ack s a b": ("POST /subscriptions/s/ack", {"ack_ids": ["a", "b"]}),
    "ack s m --message-id": ("POST /subscriptions/s/ack", {"message_ids": ["m"]}),
    "nack s a --delay 5 --reason r": (
        "POST /subscriptions/s/nack",
        {"ack_ids": ["a"], "delay_seconds": 5.0, "reason": "r"},
    ),
    "nack s a --reject": ("POST /subscriptions/s/reject", {"ack_ids": ["a"]}),
    "nack s a --release": ("POST /subscriptions/s/release", {"ack_ids": ["a"]}),
    "seek s --to earliest --dry-run": (
        "POST /subscriptions/s/seek",
        {"to": "earliest", "dry_run": True},
    ),
    "seek s --snapshot n": (
        "POST /subscriptions/s/seek",
        {"to": {"snapshot": "n"}, "dry_run": False},
    ),
    "seek s --offset 7": ("POST /subscriptions/s/seek", {"to": {"offset": 7}, "dry_run": False}),
    "snapshots create s n --expires-in 60": (
        "POST /subscriptions/s/snapshots",
        {"name": "n", "expires_in_seconds": 60.0},
    ),
    "snapshots delete n": ("DELETE /snapshots/n", None),
    "dead-letters list s --state open --filter true": (
        "GET /subscriptions/s/dead_letters?page_size=200&filter=true&state=open",
        None,
    ),
    "dead-letters show s l": ("GET /subscriptions/s/dead_letters/l", None),
    "dead-letters redrive s --all --dry-run": (
        "POST /subscriptions/s/dead_letters:redrive",
        {"dry_run": True},
    ),
    "dead-letters redrive s --id l --rate 5 --to other --no-wait": (
        "POST /subscriptions/s/dead_letters:redrive",
        {"ids": ["l"], "rate": 5.0, "to": "other"},
    ),
    "dead-letters redrives s": ("GET /subscriptions/s/redrives?page_size=200", None),
    "dead-letters cancel s r": ("POST /subscriptions/s/redrives/r:cancel", None),
    "dead-letters discard s --filter true": (
        "POST /subscriptions/s/dead_letters:discard",
        {"filter": "true"},
    ),
    "schedules create n --topic o --cron * --data 1 --key k": (
        "POST /schedules",
        {"name": "n", "topic": "o", "cron": "*", "message": {"data": 1, "key": "k"}},
    ),
    "schedules update n --time-zone UTC": ("PATCH /schedules/n", {"time_zone": "UTC"}),
    "schedules next n --count 2": ("GET /schedules/n/next?count=2", None),
    "schedules pause n": ("POST /schedules/n:pause", None),
    "schedules resume n": ("POST /schedules/n:resume", None),
    "schedules run n": ("POST /schedules/n:run", None),
    "export create n --topic o --if-absent": ("PUT /exports/n", {"topic": "o"}),
    "export create n --topic o": ("POST /exports", {"name": "n", "topic": "o"}),
    "export create n --topic o-* --table t --lake l --format parquet --body raw"
    " --start 2026-01-01T00:00:00Z --partition-by hour --key-buckets 4 --keep-data --filter true"
    " --cron @hourly --time-zone UTC --missed-runs latest --maintain-cron @daily"
    " --max-bytes-per-second 5 --column a=long --label a=b"
    " --set maintenance.keep_snapshots_seconds=60": (
        "POST /exports",
        {
            "name": "n",
            "topic": "o-*",
            "table": "t",
            "lake": "l",
            "format": "parquet",
            "body": "raw",
            "start": "2026-01-01T00:00:00+00:00",
            "partition_by": "hour",
            "key_buckets": 4,
            "keep_data": True,
            "filter": "true",
            "cron": "@hourly",
            "time_zone": "UTC",
            "missed_runs": "latest",
            "maintain_cron": "@daily",
            "max_bytes_per_second": 5,
            "columns": {"a": "long"},
            "labels": {"a": "b"},
            "maintenance": {"keep_snapshots_seconds": 60},
        },
    ),
    "export list --topic o --limit 5": ("GET /exports?page_size=5&topic=o", None),
    "export show n": ("GET /exports/n", None),
    "export table n": ("GET /exports/n", None),
    "export change n --no-keep-data --set cron=null": (
        "PATCH /exports/n",
        {"keep_data": False, "cron": None},
    ),
    "export delete n": ("DELETE /exports/n", None),
    "export pause n": ("POST /exports/n:pause", None),
    "export resume n": ("POST /exports/n:resume", None),
    "export run n": ("POST /exports/n:run", {}),
    "export run n --kind backfill --from-time 2026-01-01T00:00:00Z"
    " --to-time 2026-01-02T00:00:00Z": (
        "POST /exports/n:run",
        {
            "kind": "backfill",
            "from_time": "2026-01-01T00:00:00+00:00",
            "to_time": "2026-01-02T00:00:00+00:00",
        },
    ),
    "export run n --kind reconcile --from-offset 0 --to-offset 5 --topic o -p 1": (
        "POST /exports/n:run",
        {"kind": "reconcile", "from_offset": 0, "to_offset": 5, "topic": "o", "partition": 1},
    ),
    "export runs n": ("GET /exports/n/runs?page_size=200", None),
    "export log n 7": ("GET /exports/n/runs/7/log", None),
    "export cancel n 7": ("POST /exports/n/runs/7:cancel", None),
    "schemas create n file.json --compatibility full": (
        "POST /schemas",
        {"name": "n", "type": "json_schema", "definition": {"x": 1}, "compatibility": "full"},
    ),
    "schemas update n --compatibility none": ("PATCH /schemas/n", {"compatibility": "none"}),
    "schemas versions n": ("GET /schemas/n/versions", None),
    "schemas add-version n file.json": ("POST /schemas/n/versions", {"definition": {"x": 1}}),
    "schemas check n file.json": ("POST /schemas/n:check", {"definition": {"x": 1}}),
    "schemas validate n file.json": ("POST /schemas/n:validate", {"data": {"x": 1}}),
    "locks delete a": ("DELETE /locks/a", None),
    "tenants set t --owner root": ("PUT /tenants/t", {"owner": {"name": "root"}}),
    "tenants delete t --force": ("DELETE /tenants/t?force=true", None),
    "clients set c --display-name C": ("PUT /clients/c", {"display_name": "C"}),
    "clients add-secret c --old-expires-in 60": (
        "POST /clients/c/secrets",
        {"old_expires_in_seconds": 60},
    ),
    "clients remove-secret c p": ("DELETE /clients/c/secrets/p", None),
    "clients revoke-tokens c": ("POST /clients/c:revoke_tokens", None),
    "keys set k --scope read --scope publish:topics/a": (
        "PUT /keys/k",
        {"scopes": ["read", "publish:topics/a"]},
    ),
    "keys rotate k": ("POST /keys/k:rotate", {}),
    "policies set p --role viewer --member client:c --force": (
        "PUT /policies/p?force=true",
        {"role": "viewer", "members": ["client:c"]},
    ),
    "issuers set i --issuer https://i --audience a --algorithm RS256": (
        "PUT /issuers/i",
        {"issuer": "https://i", "audience": "a", "algorithms": ["RS256"]},
    ),
    "quotas get --tenant t": ("GET /tenants/t/quotas", None),
    "quotas set t topics=5 publish_messages_per_second=0.5 --weight 2": (
        "PUT /tenants/t/quotas",
        {"limits": {"topics": 5, "publish_messages_per_second": 0.5}, "weight": 2.0},
    ),
    "usage --from 2026-01-01T00:00:00Z --metric requests": (
        "GET /usage?page_size=200&metric=requests&from=2026-01-01T00:00:00+00:00",
        None,
    ),
    "audit --actor client:c --oldest": (
        "GET /audit?page_size=100&actor=client:c&order=oldest",
        None,
    ),
    "replay o -p 1 --offset 5 --max 2 --filter true": (
        "GET /topics/o/partitions/1/messages?max_messages=2&filter=true&offset=5",
        None,
    ),
    "jobs list --state running": ("GET /jobs?page_size=200&state=running", None),
    "jobs tasks j --state failed": ("GET /jobs/j/tasks?page_size=200&state=failed", None),
    "jobs outputs j": ("GET /jobs/j/outputs?page_size=200", None),
    "jobs cancel j": ("POST /jobs/j:cancel", None),
    "jobs retry j": ("POST /jobs/j:retry", None),
    "jobs delete j --force": ("DELETE /jobs/j?force=true", None),
    "pools set p --max-running 4": ("PUT /pools/p", {"max_running": 4}),
    "pools delete p": ("DELETE /pools/p", None),
    "whoami": ("GET /whoami", None),
}


@pytest.mark.parametrize("line", CASES)
def test_the_request(command: Command, line: str) -> None:
    """The answer is a 404; only the request counts."""
    Path("file.json").write_text('{"x": 1}')
    ran = command(*line.split())
    expected, body = CASES[line]
    request = ran.server.requests[0]
    path, _, query = expected.partition("?")
    assert f"{request.method} {request.path.partition('?')[0]}" == path
    assert parse_qs(urlsplit(request.path).query) == parse_qs(query.replace("+", "%2B"))
    assert (json.loads(request.body) if request.body else None) == body
    assert ran.code in (1, 4)


@pytest.mark.parametrize("line", CASES)
def test_the_api_has_it(line: str) -> None:
    expected, body = CASES[line]
    method, _, rest = expected.partition(" ")
    parts = urlsplit(rest)
    operation = operation_of(method, parts.path)
    assert set(parse_qs(parts.query)) <= parameters(operation)
    if body is not None:
        validator(operation).validate(body)


@cache
def paths() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    return [
        (re.compile(re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(path))), item)
        for path, item in openapi.document()["paths"].items()
    ]


def operation_of(method: str, path: str) -> dict[str, Any]:
    for pattern, item in paths():
        if pattern.fullmatch(path) and method.lower() in item:
            shared = item.get("parameters", [])
            operation: dict[str, Any] = item[method.lower()]
            return {**operation, "parameters": [*shared, *operation.get("parameters", [])]}
    raise AssertionError(f"the API has no {method} {path}")


def parameters(operation: dict[str, Any]) -> set[str]:
    known = openapi.document()["components"]["parameters"]
    found = (
        known.get(each.get("$ref", "").rpartition("/")[2], each) for each in operation["parameters"]
    )
    return {each["name"] for each in found}


def validator(operation: dict[str, Any]) -> Any:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return jsonschema_rs.validator_for(
        {**schema, "components": openapi.document()["components"]}, validate_formats=True
    )
