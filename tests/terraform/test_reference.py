"""docs/terraform-resources.md is what the provider says of itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tests.terraform.folder import SOURCE


def test_the_reference_is_what_the_provider_says_of_itself(provider_configuration: Path) -> None:
    spec = importlib.util.spec_from_file_location("reference", SOURCE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)

    page = reference.reference(provider_configuration)

    assert page == reference.TARGET.read_text(), "`make terraform-docs` writes it anew"
