"""Parts of models, written by hand: data that callers give, a page, and methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from packetboat.codec import decoder, is_json

if TYPE_CHECKING:
    from packetboat.models.exports import ExportProgress, ExportRunState
    from packetboat.models.jobs import JobState, TaskCounts

T = TypeVar("T")


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


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Part of a listing; `next_page_token` is None on the last."""

    items: tuple[T, ...]
    next_page_token: str | None = None


class Readable:
    """The methods of a message that read its body."""

    __slots__ = ()
    if TYPE_CHECKING:
        data: msgspec.Raw
        data_base64: bytes | None
        content_type: str | None

    @property
    def body(self) -> bytes:
        """Return the bytes as published; JSON may have another layout."""
        if self.data_base64 is not None:
            return self.data_base64
        raw = bytes(self.data)
        if raw.startswith(b'"') and not is_json(self.content_type):
            return msgspec.json.decode(raw, type=str).encode("utf-8")
        return raw

    @property
    def text(self) -> str:
        """Return the body as UTF-8. Raise UnicodeDecodeError where it is none."""
        return self.body.decode("utf-8")

    def json(self, kind: Any = Any) -> Any:
        """Return the body, read as JSON, as `kind` where one is given: a dataclass, a Struct, a
        model of pydantic, or whatever else may be published. Raise msgspec.DecodeError where the
        body is no JSON, and msgspec.ValidationError where it does not fit."""
        return msgspec.json.decode(self.body) if kind is Any else decoder(kind)(self.body)


class Failure:
    """The methods of an item that failed."""

    __slots__ = ()
    if TYPE_CHECKING:
        type: str

    @property
    def slug(self) -> str:
        """Return the last part of the type, such as `lease-expired`."""
        return self.type.rpartition("/")[2]


class Redriving:
    """The methods of a redrive."""

    __slots__ = ()
    if TYPE_CHECKING:
        state: str

    @property
    def finished(self) -> bool:
        """Return whether it redrives no more letters."""
        return self.state in ("done", "cancelled", "failed")


class Progress:
    """The methods of a job."""

    __slots__ = ()
    if TYPE_CHECKING:
        state: JobState
        tasks: TaskCounts

    @property
    def finished(self) -> bool:
        """Return whether none of its tasks runs any more."""
        return self.state in ("succeeded", "failed", "cancelled")

    @property
    def fraction(self) -> float:
        """Return the share of its map tasks that are over; 1.0 once the job succeeded."""
        if self.state == "succeeded":
            return 1.0
        over = self.tasks.succeeded + self.tasks.failed + self.tasks.cancelled
        return over / self.tasks.total if self.tasks.total else 0.0


class Running:
    """The methods of a run of an export."""

    __slots__ = ()
    if TYPE_CHECKING:
        state: ExportRunState
        progress: ExportProgress | None

    @property
    def finished(self) -> bool:
        """Return whether the run is over."""
        return self.state in ("succeeded", "failed", "cancelled")

    @property
    def fraction(self) -> float:
        """Return the share of its messages that were read; 1.0 once the run succeeded."""
        if self.state == "succeeded":
            return 1.0
        if self.progress is None or not self.progress.of_messages:
            return 0.0
        return min(1.0, self.progress.rows / self.progress.of_messages)
