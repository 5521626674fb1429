"""Writes docs/terraform-resources.md of what the provider says of itself: `make terraform-docs`.

Held in step by tests/terraform/test_reference.py.
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

Made of the provider by `make terraform-docs`. How they are used: [the guide](guides/terraform.md).

What is *required* has to be given, what is *optional* may be left out, what is *read* is the
server's to say. Everything but tenants has a `tenant`; `terraform import` takes `NAME` or
`TENANT/NAME`. Limits of lengths, ranges and patterns are those of
[the API](../openapi/openapi.yaml), and are checked in the plan.
"""


def reference(configuration: Path = CONFIGURATION) -> str:
    """The page; terraform finds the provider by `configuration`."""
    schema = _schema(configuration)
    parts = [_HEAD, "\n## The provider\n\n", *_table(schema["provider"]["block"]["attributes"])]
    for name, one in sorted(schema["resource_schemas"].items()):
        parts += [f"\n## {name}\n\n{one['block'].get('description', '')}\n\n"]
        parts += _table(one["block"]["attributes"])
    sources = ", ".join(f"`{name}`" for name in sorted(schema["data_source_schemas"]))
    parts += [
        "\n## Data sources\n\n",
        "Each takes what names one, and `tenant`, and has what the resource of its name reads; ",
        "secrets are told once and are not in them. Topics and subscriptions have ",
        f"`backlog_messages` as well.\n\n{sources}\n",
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
    """With those of objects below them; what is required comes first."""
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
