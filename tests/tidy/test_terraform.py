"""What the Terraform provider has of the HTTP contract is the contract's."""

from __future__ import annotations

import json
import re
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

from auth.policies import OF_TENANTS, PLURALS

PROVIDER = Path(__file__).parents[2] / "deploy/terraform"


def _script() -> ModuleType:
    """deploy/ is no package."""
    spec = util.spec_from_file_location("contract", PROVIDER / "contract.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_providers_contract_is_the_present_one() -> None:
    script = _script()
    written = script.TARGET.read_text(encoding="utf-8")
    assert written == script.contract(), "make terraform-contract"


def test_the_contract_knows_what_roles_and_scopes_are_about() -> None:
    """Its patterns are of the words that the server goes by."""
    contract: dict[str, Any] = json.loads(_script().contract())
    scope = contract["KeyBody"]["properties"]["scopes"]["items"]["pattern"]
    resource = contract["PolicyBody"]["properties"]["resources"]["items"]["pattern"]
    permissions, kinds = re.findall(r"\(([a-z|_]+)\)", scope)
    assert set(permissions.split("|")) == {each.value for each in OF_TENANTS}
    assert set(kinds.split("|")) == set(PLURALS)
    assert re.findall(r"\(([a-z|_]+)\)", resource) == [kinds]
