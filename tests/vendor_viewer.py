"""Fetches the viewer of `/docs` from its registry package: `make vendor-viewer`.

Without `--version` the pinned package is fetched again, and refused where its checksum differs.
With it, another version is fetched and pinned; look at its licence and at the page afterwards.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

VIEWER = Path(__file__).parents[1] / "gateway/http/viewer"
PIN = VIEWER / "vendored.json"
PACKAGE = "swagger-ui-dist"
FILES = {
    "swagger-ui-bundle.js": "swagger-ui-bundle.js",
    "swagger-ui-bundle.js.LICENSE.txt": "swagger-ui-bundle.js.LICENSE.txt",
    "swagger-ui.css": "swagger-ui.css",
    "LICENSE": "LICENSE.txt",
    "NOTICE": "NOTICE.txt",
}
"""Files of the package, and their names here."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", help="fetch and pin another version")
    version = parser.parse_args().version
    pin = json.loads(PIN.read_text(encoding="utf-8")) if version is None else {"version": version}
    with tempfile.TemporaryDirectory() as directory:
        packed = subprocess.run(
            ["npm", "pack", f"{PACKAGE}@{pin['version']}", "--silent"],
            cwd=directory,
            check=True,
            capture_output=True,
            text=True,
        )
        archive = Path(directory) / packed.stdout.strip().splitlines()[-1]
        digest = hashlib.sha512(archive.read_bytes()).digest()
        integrity = "sha512-" + base64.b64encode(digest).decode()
        if version is None and integrity != pin["integrity"]:
            raise SystemExit(f"{PACKAGE} {pin['version']}: {integrity} is not what is pinned")
        with tarfile.open(archive) as files:
            for member, name in FILES.items():
                found = files.extractfile(f"package/{member}")
                assert found is not None, member
                (VIEWER / name).write_bytes(found.read())
    pinned = {
        "package": PACKAGE,
        "version": pin["version"],
        "integrity": integrity,
        "sha256": {
            name: hashlib.sha256((VIEWER / name).read_bytes()).hexdigest()
            for name in sorted(FILES.values())
        },
    }
    PIN.write_text(json.dumps(pinned, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
