"""The removal of a driver's credentials from the log of a run, which tenants read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from spark_exports.order import LakeSettings

HIDDEN = "***"
_TELLING = re.compile(r"secret|password|token|credential|access-key|account-key|sas")
_SHORTEST = 6


class Redaction:
    """A function that puts `***` in place of each secret in a text."""

    def __init__(self, lake: LakeSettings, *tokens: str) -> None:
        secrets = {one for one in (*tokens, *_secrets_of(lake)) if len(one) >= _SHORTEST}
        words = sorted(secrets, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, words))) if words else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(HIDDEN, text)


def _secrets_of(lake: LakeSettings) -> Iterator[str]:
    for settings in (lake.catalog, lake.storage, lake.spark_conf):
        for name, value in settings.items():
            if _TELLING.search(name.lower()):
                yield value
            if "://" in value and (password := _password_of(value)):
                yield password
                yield unquote(password)


def _password_of(url: str) -> str | None:
    try:
        return urlsplit(url).password
    except ValueError:
        return None
