"""`python -m openapi` writes what is derived from the contract; `--check` names what is stale."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from openapi import problem_page
from openapi.assembly import Document
from openapi.reference import Reference
from openapi.sdk import areas, flags, modules
from openapi.sdk.text import PACKAGE, styled
from openapi.terraform import provider_contract

HERE = Path(__file__).parent
MODELS = HERE.parent / "sdk/python/packetboat/models"
TERRAFORM = HERE.parent / "deploy/terraform/provider/internal/contract/contract.json"
HEADER = "# Generated from the modules beside it: `make generate`. Do not edit.\n"


class _Dumper(yaml.CSafeDumper):
    """Writes nothing by reference, and members in the order they were written in."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@cache
def generated() -> dict[Path, str]:
    """Return the text of each file that is derived from the contract."""
    source = Document()
    document = source.whole()
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return {
        HERE / "openapi.yaml": HEADER + text,
        HERE / "document.json": _lines(document, {"paths": 1, "components": 2}) + "\n",
        TERRAFORM: provider_contract(document["components"]["schemas"]),
        **styled({MODELS / f"{name}.py": text for name, text in modules.generated().items()}),
        **areas.generated(),
        **styled({PACKAGE / "cli/flags.py": flags.written()}),
        **Reference(source).pages(),
        problem_page.PAGE: problem_page.written(problem_page.PAGE.read_text("utf-8")),
    }


def _lines(members: dict[str, Any], depths: dict[str, int]) -> str:
    """Write an object with a member a line, and those in `depths` to that depth."""
    written = []
    for name, value in members.items():
        depth = depths.get(name, 0)
        text = (
            _lines(value, dict.fromkeys(value, depth - 1))
            if depth > 0
            else json.dumps(value, ensure_ascii=False)
        )
        written.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(written) + "\n}"


def main() -> None:
    files = generated()
    stale = [
        path for path, text in files.items() if not path.exists() or path.read_text("utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        if stale:
            names = ", ".join(str(path.relative_to(HERE.parent)) for path in stale)
            sys.exit(f"{names} is not what the contract says: run `make generate`")
        return
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(files[path], encoding="utf-8")


if __name__ == "__main__":
    main()
