"""Types of what callers give: bodies of messages, and positions in a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Protocol

import msgspec


class Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


class Model(Protocol):
    """An instance of a model, such as pydantic's, which can write itself as JSON."""

    @property
    def model_dump(self) -> Callable[..., Any]:
        """Return the function that is called with `mode="json"` and `by_alias=True`."""


Bytes = bytes | bytearray | memoryview
Plain = Mapping[str, Any] | Sequence[Any] | int | float | bool | None
Data = Bytes | str | Plain | Dataclass | msgspec.Struct | Model
"""Bytes are sent as they are, text as UTF-8, anything else as JSON. `nan` and `inf` are refused."""
Position = str | int | datetime | Mapping[str, Any]
"""`"earliest"`, `"latest"`, an offset of every partition, a time with a zone, or as the API has it:
`{"snapshot": name}`, and for seeks `{"offsets": {partition: offset}}`."""
