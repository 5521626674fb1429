"""`python -m tests.chaos.rolling.peer_tls` (make peer-tls): nine processes under load by the SDK.
TLS is switched on between them as docs/operations/peer-tls.md says; with `--back` off again."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from peering.settings import PeerTlsMode
from tests.chaos.rolling.scenarios import site
from tests.unit.peering.peer_certificates import Certificates


async def switched(root: Path, *, back: bool) -> list[str]:
    """Switch TLS on in three rounds of restarts, and off in as many; returns all faults."""
    certificates = Certificates(root / "certificates")
    modes = list(PeerTlsMode)
    async with site(root) as at:
        for mode in modes[1:] + (modes[-2::-1] if back else []):
            sys.stdout.write(f"round: {mode.value}\n")
            at.fleet.settings |= certificates.environment(mode)
            await at.restarts.everything()
    return at.load.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--back", action="store_true")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="packetboat-peer-tls-"))
    root.chmod(0o755)  # Postgres's lesser account must get there when we are root.
    try:
        wrong = asyncio.run(switched(root, back=asked.back))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    sys.stdout.write("\n".join(wrong) + "\n" if wrong else "nothing went wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
