"""Fixtures: the built provider, one live installation per module, and workspaces against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gateway.operators import Credential
from tests.e2e.installation import Installation
from tests.terraform.built_provider import build, terraform_path
from tests.terraform.workspace import Workspace

PROVIDER_BLOCK = """
terraform {
  required_providers {
    packetboat = {
      source = "packetboat/packetboat"
    }
  }
}
"""
"""What each configuration begins with."""

MakeWorkspace = Callable[..., Workspace]
"""`make(text, name="main", credential=…)`: an initialised workspace with that main.tf."""


@pytest.fixture(scope="session")
def provider_configuration() -> Path:
    """Terraform's own configuration, which finds the provider that was built from the tree."""
    terraform_path()
    return build()


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, provider_configuration: Path
) -> Iterator[Installation]:
    """A live one for the tests of a module."""
    installation = Installation(tmp_path_factory.mktemp("terraform") / "data")
    try:
        yield installation.start()
    finally:
        if installation.process is not None:
            installation.stop()


@pytest.fixture(scope="module")
def operator(installation: Installation) -> dict[str, str]:
    """The environment of a provider that acts as the operator."""
    text = (installation.directory / "operator.env").read_text()
    credential = Credential.from_exports(text)
    return {
        "PACKETBOAT_URL": installation.url,
        "PACKETBOAT_CLIENT_ID": credential.client_id,
        "PACKETBOAT_CLIENT_SECRET": credential.client_secret,
    }


@pytest.fixture
def workspace(
    tmp_path: Path, provider_configuration: Path, installation: Installation
) -> MakeWorkspace:
    """Makes workspaces; they act in the tenant `dev` unless another environment is given."""

    def make(text: str, name: str = "main", environment: dict[str, str] | None = None) -> Workspace:
        owner = {"PACKETBOAT_URL": installation.url, "PACKETBOAT_TOKEN": installation.token}
        found = {"TF_CLI_CONFIG_FILE": str(provider_configuration)}
        made = Workspace(tmp_path / name, found | (environment or owner))
        return made.write(PROVIDER_BLOCK + text).init()

    return make
