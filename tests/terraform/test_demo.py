"""`make terraform-demo` against a live server, twice, and its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from examples import terraform_demo
from tests.e2e.installation import Installation


def demo(installation: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PACKETBOAT_URL": installation.url, "PACKETBOAT_TOKEN": installation.token}
    return subprocess.run(
        [sys.executable, terraform_demo.__file__, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_demo_ends_with_an_empty_plan_and_may_be_run_again(installation: Installation) -> None:
    try:
        for _ in range(2):
            done = demo(installation)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "No changes." in done.stdout
            assert "The second plan is empty." in done.stdout
    finally:
        gone = demo(installation, "--destroy")
    assert gone.returncode == 0, gone.stdout + gone.stderr
    with installation.session() as session:
        assert session.get(f"{installation.url}/topics/shop-orders").status_code == 404


def test_without_a_server_the_demo_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    for name in ("PACKETBOAT_URL", "PACKETBOAT_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PACKETBOAT_DATA_DIR", str(tmp_path))

    with pytest.raises(terraform_demo.Stop, match="packetboat up"):
        terraform_demo.server()
