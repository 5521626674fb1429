"""Writes docs/terraform-resources.md from the provider's schema: `make terraform-docs`.

tests/terraform/test_reference.py compares the page with the provider.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs/terraform-resources.md"
CONFIGURATION = ROOT / "build/terraform/terraform.rc"
ADDRESS = "registry.terraform.io/packetboat/packetboat"
_HEAD = """\
# Terraform: resources and data sources

`make terraform-docs` writes this page from the provider. [The guide](guides/terraform.md) shows how
to use it.

You must give *required* attributes and may leave out *optional* ones; the server sets those that
are *read*. Every resource but tenants has a `tenant`; `terraform import` takes `NAME` or
`TENANT/NAME`. The limits of lengths, ranges and patterns are those of
[the API](../openapi/openapi.yaml), and the plan checks them.
"""


def reference(configuration: Path = CONFIGURATION) -> str:
    """Return the page; terraform finds the provider by `configuration`."""
    schema = _schema(configuration)
    parts = [_HEAD, "\n## The provider\n\n", *_table(schema["provider"]["block"]["attributes"])]
    for name, one in sorted(schema["resource_schemas"].items()):
        parts += [f"\n## {name}\n\n{one['block'].get('description', '')}\n\n"]
        parts += _table(one["block"]["attributes"])
    sources = ", ".join(f"`{name}`" for name in sorted(schema["data_source_schemas"]))
    parts += [
        "\n## Data sources\n\n",
        "Each takes the name of an object and `tenant`, and has the attributes of the resource ",
        "of its name, without secrets: only the answer to a creation shows them. Topics and ",
        "subscriptions also have ",
        f"`backlog_messages`.\n\n{sources}\n",
    ]
    return "".join(parts)


def _schema(configuration: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        source = {"packetboat": {"source": "packetboat/packetboat"}}
        main = {"terraform": {"required_providers": source}}
        (Path(directory) / "main.tf.json").write_text(json.dumps(main))
        environment = os.environ | {"TF_CLI_CONFIG_FILE": str(configuration)}
        for arguments in (["init", "-input=false"], ["providers", "schema", "-json"]):
            done = subprocess.run(
                ["terraform", *arguments],
                cwd=directory,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
    found: dict[str, Any] = json.loads(done.stdout)["provider_schemas"][ADDRESS]
    return found


def _table(attributes: Mapping[str, Any]) -> Iterator[str]:
    yield "| attribute | type | | |\n|---|---|---|---|\n"
    for name, one in _flat(attributes, ""):
        yield f"| `{name}` | {_type(one)} | {_flags(one)} | {_text(one)} |\n"


def _flat(attributes: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield attributes with those of objects below them; required ones come first."""
    for name, one in sorted(attributes.items(), key=lambda item: ("required" not in item[1], item)):
        yield prefix + name, one
        nested = one.get("nested_type")
        if nested is not None and (one.get("optional") or one.get("required")):
            yield from _flat(nested["attributes"], f"{prefix}{name}.")


def _type(attribute: Mapping[str, Any]) -> str:
    if "nested_type" in attribute:
        mode = attribute["nested_type"]["nesting_mode"]
        return "object" if mode == "single" else f"{mode} of objects"
    kind = attribute["type"]
    return kind if isinstance(kind, str) else f"{kind[0]} of {kind[1]}s"


def _flags(attribute: Mapping[str, Any]) -> str:
    given = next((word for word in ("required", "optional") if attribute.get(word)), "read")
    return given + (", sensitive" if attribute.get("sensitive") else "")


def _text(attribute: Mapping[str, Any]) -> str:
    return str(attribute.get("description", "")).replace("|", "\\|").replace("\n", " ")


def main() -> int:
    TARGET.write_text(reference(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
