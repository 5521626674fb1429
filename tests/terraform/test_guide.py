"""docs/guides/terraform.md does what it says: its `bash` blocks run as they stand, in order."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation
from tests.e2e.test_guides import run_of
from tests.terraform.built_provider import BUILT, ROOT
from tests.terraform.folder import SOURCE

PAGE = ROOT / "docs/guides/terraform.md"
FOLDER = BUILT / "guide"
"""The folder in which the page works."""


@pytest.fixture
def clean_folder() -> Iterator[None]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    yield
    shutil.rmtree(FOLDER, ignore_errors=True)


@pytest.mark.usefixtures("clean_folder")
def test_the_blocks_of_the_guide_run(installation: Installation) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    script = "\n".join(["set -euo pipefail", f"cd {shlex.quote(str(ROOT))}", *blocks])

    code, printed = run_of(script, installation)

    assert code == 0, printed
    assert "No changes." in printed
    assert '"guide-tf-checkout"' in printed


def test_the_guide_names_every_variable_of_the_module_and_no_other() -> None:
    text = (SOURCE / "modules/tenant/variables.tf").read_text()
    variables = set(re.findall(r'^variable "(\w+)"', text, re.MULTILINE))
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", PAGE.read_text(), re.MULTILINE)

    assert variables == {name for row in rows for name in re.findall(r"`(\w+)`", row)}
