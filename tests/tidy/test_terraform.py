"""The Terraform provider's copy of the HTTP contract equals the contract."""

from __future__ import annotations

import json
import re
from typing import Any

from auth.policies import OF_TENANTS, PLURALS
from openapi.__main__ import TERRAFORM


def test_the_contract_knows_what_roles_and_scopes_are_about() -> None:
    """The contract's patterns have the words that the server uses."""
    contract: dict[str, Any] = json.loads(TERRAFORM.read_text(encoding="utf-8"))
    scope = contract["KeyBody"]["properties"]["scopes"]["items"]["pattern"]
    resource = contract["PolicyBody"]["properties"]["resources"]["items"]["pattern"]
    permissions, kinds = re.findall(r"\(([a-z|_]+)\)", scope)
    assert set(permissions.split("|")) == {each.value for each in OF_TENANTS}
    assert set(kinds.split("|")) == set(PLURALS)
    assert re.findall(r"\(([a-z|_]+)\)", resource) == [kinds]
