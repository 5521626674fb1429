"""`python -m tests.recorded [--write] [AREA ...]`: compare the records with a new installation."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.conftest import SHARED_SETTINGS
from tests.e2e.installation import Installation
from tests.recorded import records
from tests.recorded.areas import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the records")
    parser.add_argument("area", nargs="*", help="one of " + ", ".join(SCENARIOS))
    arguments = parser.parse_args()
    areas = arguments.area or list(SCENARIOS)
    if unknown := [area for area in areas if area not in SCENARIOS]:
        parser.error(f"no area: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory(prefix="packetboat-recorded-") as directory:
        Path(directory).chmod(0o711)
        installation = Installation(Path(directory) / "data")
        installation.settings = SHARED_SETTINGS
        with installation.started():
            taken = [records.take(area, installation) for area in areas]
    if arguments.write:
        for one in taken:
            records.write(one)
        return 0
    differences = [text for one in taken if (text := records.difference(one))]
    print("\n".join(differences) or "All answers are as recorded.")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
