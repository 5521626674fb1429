"""A process of its own that rotates signing keys when told to, for test_signing_keys.py.

Connects, says "ready", and waits for a line; then rotates, and says whose key it signs with.
"""

from __future__ import annotations

import asyncio
import sys

from auth.signing_keys import KeyPolicy, SigningKeys
from edge.sealing import Sealer
from metadata.database import Database
from metadata.settings import DatabaseSettings
from metadata.tenancy.signing_keys import SigningKeyRepository


async def main(url: str, seal_keys: str) -> None:
    database = Database(DatabaseSettings(url))
    await database.connect()
    await database.check()
    keys = SigningKeys(SigningKeyRepository(database), KeyPolicy(), Sealer.from_text(seal_keys))
    print("> ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "rotate":
            await keys.rotate()
        else:
            await keys.replace()
        print(f"> {keys.signer().kid}", flush=True)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
