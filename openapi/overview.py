"""The head of the document: the name of the API, its common rules, its areas."""

from __future__ import annotations

from typing import Any

DESCRIPTION = """\
HTTP pub/sub. A publish that was answered 201 is on disk at a majority of replicas; an ack that \
was answered 200 is committed.

Times are RFC 3339 in UTC, durations are seconds. Every error is application/problem+json. \
Every answer has an `X-Request-Id`; send one to choose it.

A query parameter that an operation does not have is refused. HEAD is answered where GET is, \
with the same head and no body; where a GET leases messages or streams, HEAD is 405.

A tenant may have limits: beyond `requests_per_second` any operation answers 429 \
`rate-limited`, with `Retry-After`, `RateLimit` and `RateLimit-Policy`.

Bytes that are no request of HTTP/1.1 are answered 400 `malformed-request`, before there is an \
operation, and the connection is closed."""
TAGS = {
    "publish": "Make messages durable.",
    "consume": "Pull messages and settle them.",
    "topics": "Named streams of messages.",
    "subscriptions": "Readers of topics.",
    "schemas": "Formats of the bodies of topics, in versions.",
    "schedules": "Messages published by the clock.",
    "jobs": "Work cut into tasks, which any worker may run.",
    "exports": "Topics that become tables of a lake.",
    "locks": "Leases that one of many programs holds at a time.",
    "access": "Callers and their permissions: clients, keys, policies, issuers.",
    "tenants": "The tenants of the installation; for its operators.",
    "usage": "Quotas and usage of a tenant, and the audit log of its changes.",
    "tokens": "Access tokens, and the keys they are signed with.",
    "operations": "The forwarders that deliver messages, and their loads.",
    "server": "Health and this description; no token needed.",
}
HEAD: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {
        "title": "Packetboat",
        "version": "0.3.0",
        "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        "description": DESCRIPTION,
    },
    "servers": [{"url": "/"}],
    "security": [{"bearer": []}],
    "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
}
