"""Tokens that need not be asked for."""

from __future__ import annotations

import os
from time import monotonic

from packetboat.credentials.kinds import StaticToken, TokenFile
from packetboat.errors import NotAuthorized, Problem

LOOK_EVERY_S = 1.0


class TokenAtHand:
    """One that is always the same."""

    def __init__(self, credentials: StaticToken) -> None:
        self._value = credentials.value

    def current(self, timeout_s: float) -> str:
        return self._value

    def refused(self, token: str) -> bool:
        """Return whether there is another token by now."""
        return False

    def close(self) -> None:
        pass


class TokenOfFile:
    """One that is read again, a second after the file has changed at the latest."""

    def __init__(self, credentials: TokenFile) -> None:
        self._path = credentials.path
        self._value = ""
        self._version: tuple[int, int] | None = None
        self._looked_s = float("-inf")

    def current(self, timeout_s: float) -> str:
        if monotonic() - self._looked_s >= LOOK_EVERY_S:
            self._look()
        return self._value

    def refused(self, token: str) -> bool:
        """Return whether there is another token by now."""
        self._look()
        return self._value != token

    def close(self) -> None:
        pass

    def _look(self) -> None:
        """Read the file again.

        A file that is gone for a moment, while another replaces it, is no failure.
        """
        try:
            seen = os.stat(self._path)
            version = (seen.st_mtime_ns, seen.st_ino)
            if version != self._version:
                with open(self._path, encoding="utf-8") as file:
                    self._value = file.read().strip() or self._value
                self._version = version
        except (OSError, UnicodeDecodeError) as error:
            if not self._value:
                raise NotAuthorized(_no_token(self._path, error)) from error
        if not self._value:
            raise NotAuthorized(_no_token(self._path, "it is empty"))
        self._looked_s = monotonic()


class AsyncAtHand:
    """A token that is at hand, for asyncio: no call waits."""

    def __init__(self, tokens: TokenAtHand | TokenOfFile) -> None:
        self._tokens = tokens

    async def current(self, timeout_s: float) -> str:
        return self._tokens.current(timeout_s)

    def refused(self, token: str) -> bool:
        return self._tokens.refused(token)

    async def close(self) -> None:
        pass


def _no_token(path: str, why: object) -> Problem:
    return Problem(type="no-token", status=401, detail=f"no token in {path}: {why}")
