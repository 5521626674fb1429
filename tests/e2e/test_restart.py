"""A server that starts again does little before it serves."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e import late_imports
from tests.e2e.installation import Installation
from tests.e2e.servers import servers, wait_for


def test_a_forked_server_imports_no_module_before_it_serves(
    running: Installation, tmp_path: Path
) -> None:
    """Imports were four fifths of the processor time of a start. Each command begins with Typer."""
    file = tmp_path / "modules"
    with servers(running, tmp_path, program="tests.e2e.late_imports:serve") as start:
        wait_for(start("all", settings={late_imports.FILE: str(file)}), 200)
    late = {name.partition(".")[0] for name in file.read_text().split()}
    assert late - sys.stdlib_module_names - {"typer", "pydantic"} == set()
