"""Schemas: what the bodies of a topic look like, their versions and checks."""

from __future__ import annotations

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["id"],
}
WIDER = {**ORDER, "properties": {**ORDER["properties"], "note": {"type": "string"}}}
NARROWER = {**ORDER, "required": ["id", "amount"]}
CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "page", "type": "string"}, {"name": "at", "type": "long"}],
}


def schemas(ask: Client) -> None:
    """Send the requests about schemas."""
    principals(ask)
    ask("list-none", "GET", "/schemas")
    _resources(ask)
    _versions(ask)
    _checks(ask)
    _in_use(ask)
    ask("delete", "DELETE", "/schemas/click")


def _resources(ask: Client) -> None:
    least = {"name": "order", "type": "json_schema", "definition": ORDER}
    ask("create-least", "POST", "/schemas", least)
    ask("create-again", "POST", "/schemas", least)
    full = {"name": "click", "type": "avro", "definition": CLICK, "compatibility": "full"}
    ask("create-full", "POST", "/schemas", full)
    ask("create-of-text", "POST", "/schemas", {"name": "id", "type": "avro", "definition": "long"})
    anything = {"name": "anything", "type": "json_schema", "definition": True}
    ask("create-of-boolean", "POST", "/schemas", anything)
    wrong = {
        "no-schema": {"definition": {"type": "shape"}},
        "reference": {"definition": {"$ref": "https://example.com/a.json"}},
        "recursive": {"definition": {"$ref": "#"}},
        "no-avro": {"type": "avro", "definition": {"type": "record"}},
        "bad-name": {"name": "a/b"},
        "unknown-type": {"type": "protobuf"},
        "unknown-compatibility": {"compatibility": "some"},
    }
    for name, fields in wrong.items():
        ask(f"create-{name}", "POST", "/schemas", {**least, "name": "x", **fields})
    ask("get", "GET", "/schemas/click")
    ask("get-as-reader", "GET", "/schemas/click", as_="reader")
    pages(ask, "/schemas")
    forward = {"compatibility": "forward"}
    changed = ask("patch", "PATCH", "/schemas/click", forward).etag
    ask("patch-at-version", "PATCH", "/schemas/click", forward, headers={"If-Match": changed})
    refusals(
        ask,
        "/schemas",
        "/schemas/click",
        {"POST": {**least, "name": "x"}, "PATCH": forward},
    )


def _versions(ask: Client) -> None:
    ask("add-version", "POST", "/schemas/order/versions", {"definition": WIDER})
    ask("add-version-again", "POST", "/schemas/order/versions", {"definition": WIDER})
    ask("add-incompatible", "POST", "/schemas/order/versions", {"definition": NARROWER})
    ask("add-invalid", "POST", "/schemas/order/versions", {"definition": {"type": 1}})
    ask("add-to-missing", "POST", "/schemas/none/versions", {"definition": ORDER})
    ask("add-as-reader", "POST", "/schemas/order/versions", {"definition": ORDER}, as_="reader")
    ask("list-versions", "GET", "/schemas/order/versions")
    ask("list-versions-missing", "GET", "/schemas/none/versions")
    ask("list-versions-page", "GET", "/schemas/order/versions?page_size=1")
    ask("get-version", "GET", "/schemas/order/versions/1")
    ask("get-version-missing", "GET", "/schemas/order/versions/9")
    ask("get-version-no-number", "GET", "/schemas/order/versions/latest")


def _checks(ask: Client) -> None:
    ask("check-compatible", "POST", "/schemas/order:check", {"definition": WIDER})
    ask("check-incompatible", "POST", "/schemas/order:check", {"definition": NARROWER})
    ask("check-invalid", "POST", "/schemas/order:check", {"definition": {"type": 1}})
    ask("check-missing", "POST", "/schemas/none:check", {"definition": ORDER})
    good, bad = {"id": "a", "amount": 1.5}, {"amount": "x"}
    ask("validate", "POST", "/schemas/order:validate", {"data": good, "number": 1})
    ask("validate-bad", "POST", "/schemas/order:validate", {"data": bad})
    ask("validate-bytes", "POST", "/schemas/order:validate", {"data_base64": "e30="})
    as_text = {"data": "x", "content_type": "text/plain"}
    ask("validate-other-type", "POST", "/schemas/order:validate", as_text)
    ask("validate-nothing", "POST", "/schemas/order:validate", {})
    ask("validate-two", "POST", "/schemas/order:validate", {"data": 1, "data_base64": "AA=="})
    ask("validate-no-version", "POST", "/schemas/order:validate", {"data": good, "number": 9})
    ask("validate-missing", "POST", "/schemas/none:validate", {"data": good})


def _in_use(ask: Client) -> None:
    made = {"partitions": 1, "schema": "order", "retention": {"mode": "retain"}}
    ask.set_up("PUT", "/topics/orders", made)
    ask("delete-in-use", "DELETE", "/schemas/order")
    messages = "/topics/orders/messages"
    as_json = {"Content-Type": "application/json"}
    ask("publish-fitting", "POST", messages, {"id": "a"}, headers=as_json)
    ask("publish-violation", "POST", messages, {"amount": "x"}, headers=as_json)
    ask("publish-no-json", "POST", messages, data=b"x", headers={"Content-Type": "text/plain"})
    ask(
        "publish-in-old-version",
        "POST",
        messages,
        {"id": "b", "amount": 2},
        headers={**as_json, "Packetboat-Schema-Version": "1"},
    )
    ask(
        "publish-in-no-version",
        "POST",
        messages,
        {"id": "b"},
        headers={**as_json, "Packetboat-Schema-Version": "7"},
    )
    items = [{"data": {"id": "c"}}, {"data": {}}]
    ask("publish-batch", "POST", f"{messages}:batch", {"messages": items})
    preview = "/topics/orders:preview_schema"
    ask("preview-by-name", "POST", preview, {"schema": "order"})
    inline = {"type": "json_schema", "definition": NARROWER, "messages": 10}
    ask("preview-definition", "POST", preview, inline)
    ask("preview-nothing", "POST", preview, {})
    ask("preview-missing-schema", "POST", preview, {"schema": "none"})
    ask("preview-missing-topic", "POST", "/topics/none:preview_schema", {"schema": "order"})
