"""Headers of a request, however a framework has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packetboat.webhooks.errors import MissingHeader

Given = Mapping[str, str] | Iterable[tuple[str, str]]


class Headers:
    """The headers of a request by name, in any case.

    A header that must be there once is refused if it is there twice: a proxy and a framework could
    each have read another one.
    """

    __slots__ = ("_values",)

    def __init__(self, given: Given) -> None:
        pairs = given.items() if isinstance(given, Mapping) else given
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def one(self, name: str) -> str:
        """Return the value. Raises MissingHeader."""
        values = self._values.get(name, [])
        if len(values) == 1 and values[0]:
            return values[0]
        detail = "it is there more than once" if len(values) > 1 else "it is not there"
        raise MissingHeader(name, f"{detail}; every webhook of Packetboat has one")

    def get(self, name: str) -> str | None:
        """Return the first value, if there is one."""
        values = self._values.get(name)
        return values[0] if values else None

    def below(self, prefix: str) -> dict[str, str]:
        """First values of headers whose names begin so, by the rest of the name."""
        return {
            name.removeprefix(prefix): values[0]
            for name, values in self._values.items()
            if name.startswith(prefix)
        }
