"""deploy/terraform without what commands leave in it: each test has its own copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.terraform.built_provider import ROOT

SOURCE = ROOT / "deploy/terraform"
_LEFT = shutil.ignore_patterns("provider", ".terraform", ".terraform.lock.hcl", "*.tfstate*")


def roots() -> list[Path]:
    """Return all modules and examples, relative to the folder."""
    found = {path.parent for path in SOURCE.rglob("*.tf") if ".terraform" not in path.parts}
    return sorted(path.relative_to(SOURCE) for path in found)


def copy_to(directory: Path) -> Path:
    """Copy modules and examples beside each other, as in the tree, without the provider's
    source.
    """
    return Path(shutil.copytree(SOURCE, directory / "terraform", ignore=_LEFT))
