"""Fixtures: the built provider, one live installation, and workspaces against it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import pytest

from gateway.operators import Credential
from tests.e2e.installation import Installation
from tests.terraform.built_provider import build_into, terraform_path
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
"""The beginning of each configuration."""


class OpenWorkspace(Protocol):
    """A workspace in a directory; acts in the tenant `dev` unless its environment says more."""

    def __call__(
        self, directory: Path, environment: Mapping[str, str] | None = None
    ) -> Workspace: ...


class MakeWorkspace(Protocol):
    """A function that makes a workspace with this main.tf, in a directory of its own,
    initialised.
    """

    def __call__(
        self, text: str, name: str = "main", environment: Mapping[str, str] | None = None
    ) -> Workspace: ...


@pytest.fixture(scope="session")
def provider_configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Terraform's own configuration, which finds the provider that was built from
    the tree.
    """
    terraform_path()
    return build_into(tmp_path_factory.mktemp("provider"))


@pytest.fixture(scope="session")
def installation(provider_configuration: Path, running: Installation) -> Installation:
    """Return a live installation for all tests; each test uses names of its own."""
    return running


@pytest.fixture(scope="session")
def operator(installation: Installation) -> dict[str, str]:
    """Return the environment of a provider that acts as the operator."""
    text = (installation.directory / "operator.env").read_text()
    credential = Credential.from_exports(text)
    return {
        "PACKETBOAT_URL": installation.url,
        "PACKETBOAT_CLIENT_ID": credential.client_id,
        "PACKETBOAT_CLIENT_SECRET": credential.client_secret,
    }


@pytest.fixture(scope="session")
def open_workspace(provider_configuration: Path, installation: Installation) -> OpenWorkspace:
    """Opens workspaces against the installation."""
    owner = {"PACKETBOAT_URL": installation.url, "PACKETBOAT_TOKEN": installation.token}

    def opened(directory: Path, environment: Mapping[str, str] | None = None) -> Workspace:
        found = {"TF_CLI_CONFIG_FILE": str(provider_configuration)}
        return Workspace(directory, found | dict(environment or owner))

    return opened


@pytest.fixture
def workspace(tmp_path: Path, open_workspace: OpenWorkspace) -> MakeWorkspace:
    """Makes workspaces of a text."""

    def made(
        text: str, name: str = "main", environment: Mapping[str, str] | None = None
    ) -> Workspace:
        opened = open_workspace(tmp_path / name, environment)
        return opened.write(PROVIDER_BLOCK + text).init()

    return made
