"""The provider's own tests, in Go."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.terraform.built_provider import BUILD_S, PROVIDER


def test_the_providers_own_tests_pass(provider_configuration: Path) -> None:
    done = subprocess.run(
        ["go", "test", "./..."],
        cwd=PROVIDER,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
