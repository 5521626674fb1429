"""The API's description as one HTML page: no script, and nothing fetched from anywhere."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#1b2733}
body{margin:0 auto;max-width:60rem;padding:1rem 1.5rem 4rem}
code,pre{font:14px/1.45 ui-monospace,monospace;background:#f2f5f8;border-radius:4px}
code{padding:.1em .3em}pre{padding:.7rem 1rem;overflow:auto}
h2{border-bottom:1px solid #d5dde5;margin-top:2.5rem}
details{border:1px solid #d5dde5;border-radius:6px;margin:.5rem 0;padding:.4rem .8rem}
summary{cursor:pointer}summary b{display:inline-block;width:4.5rem}
table{border-collapse:collapse;width:100%}
td{border-top:1px solid #e4eaf0;padding:.3rem .5rem;text-align:left;vertical-align:top}
nav a{margin-right:1rem}
"""


def render(document: Mapping[str, Any]) -> str:
    """The whole page; meant to be made once, at start."""
    info = document["info"]
    by_tag: dict[str, list[str]] = {tag["name"]: [] for tag in document.get("tags", ())}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                operation = item[method]
                section = _operation(document, method, path, item, operation)
                by_tag.setdefault(operation["tags"][0], []).append(section)
    intro = {tag["name"]: tag.get("description", "") for tag in document.get("tags", ())}
    body = "".join(
        f'<h2 id="{_anchor(tag)}">{_text(tag)}</h2>{_prose(intro.get(tag, ""))}{"".join(sections)}'
        for tag, sections in by_tag.items()
    )
    links = "".join(f'<a href="#{_anchor(tag)}">{_text(tag)}</a>' for tag in by_tag)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(info['title'])}</title><style>{STYLE}</style></head><body>"
        f"<h1>{_text(info['title'])} {_text(info['version'])}</h1>{_prose(info['description'])}"
        '<p>The same as data: <a href="/openapi.yaml">openapi.yaml</a>, '
        '<a href="/openapi.json">openapi.json</a>.</p>'
        f"<nav>{links}</nav>{body}<h2>Schemas</h2>{_schemas(document)}</body></html>"
    )


def _operation(
    document: Mapping[str, Any],
    method: str,
    path: str,
    item: Mapping[str, Any],
    operation: Mapping[str, Any],
) -> str:
    parts = [_prose(operation.get("description", ""))]
    parameters = [
        _resolve(document, parameter)
        for parameter in [*item.get("parameters", ()), *operation.get("parameters", ())]
    ]
    if parameters:
        rows = "".join(
            f"<tr><td><code>{_text(p['name'])}</code></td><td>{_text(p['in'])}</td>"
            f"<td>{_kind(p.get('schema', {}))}</td><td>{_prose(p.get('description', ''))}</td></tr>"
            for p in parameters
        )
        parts.append(f"<h4>Parameters</h4><table>{rows}</table>")
    body = operation.get("requestBody")
    if body:
        kinds = "".join(
            f"<tr><td><code>{_text(kind)}</code></td><td>{_kind(media.get('schema', {}))}</td></tr>"
            for kind, media in _resolve(document, body)["content"].items()
        )
        parts.append(f"<h4>Body</h4><table>{kinds}</table>")
    rows = "".join(
        _response(document, status, response) for status, response in operation["responses"].items()
    )
    parts.append(f"<h4>Answers</h4><table>{rows}</table>")
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{_text(path)}</code> "
        f"{_text(operation['summary'])}</summary>{''.join(parts)}</details>"
    )


def _response(document: Mapping[str, Any], status: str, response: Mapping[str, Any]) -> str:
    resolved = _resolve(document, response)
    kinds = ", ".join(
        _kind(media.get("schema", {})) for media in resolved.get("content", {}).values()
    )
    return (
        f"<tr><td><code>{_text(str(status))}</code></td>"
        f"<td>{_prose(resolved['description'])}</td><td>{kinds}</td></tr>"
    )


def _schemas(document: Mapping[str, Any]) -> str:
    return "".join(
        f'<details id="schema-{_text(name)}"><summary><code>{_text(name)}</code> '
        f"{_text(schema.get('description', ''))}</summary>"
        f"<pre>{_text(json.dumps(schema, indent=2, default=str))}</pre></details>"
        for name, schema in document["components"]["schemas"].items()
    )


def _kind(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f'<a href="#schema-{_text(name)}">{_text(name)}</a>'
    kind = schema.get("type", "any")
    text = " | ".join(kind) if isinstance(kind, list) else str(kind)
    limits = [
        f"{word} {schema[key]}"
        for key, word in (("minimum", "≥"), ("maximum", "≤"), ("default", "default"))
        if key in schema
    ]
    return _text(", ".join([text, *limits]))


def _resolve(document: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in value:
        return value
    found: Any = document
    for key in value["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    assert isinstance(found, Mapping)
    return found


def _prose(text: str) -> str:
    paragraphs = [part.strip() for part in text.strip().split("\n\n") if part.strip()]
    return "".join(
        "<p>" + re.sub(r"`([^`]*)`", r"<code>\1</code>", _text(part)) + "</p>"
        for part in paragraphs
    )


def _text(value: str) -> str:
    return html.escape(value)


def _anchor(tag: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", tag.lower())
