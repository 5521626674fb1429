"""The one codec: values of a program as bodies of messages, and bodies as values of a type.

    bytes, bytearray, memoryview      the bytes as they are
    str                               UTF-8 text, unless the content type is JSON
    anything else                     JSON: what msgspec knows (dicts, lists, numbers, dataclasses,
                                      Structs, attrs, datetimes, …) and whatever has `model_dump`,
                                      such as models of pydantic; also one inside another

JSON has no number for `nan`, `inf` and `-inf`. They are refused, with the path to the first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, get_origin

import msgspec

_BYTES = (bytearray, memoryview)
Decode = Callable[[Any], Any]


def is_json(content_type: str | None) -> bool:
    """Return whether bodies of this type are JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or kind.endswith("+json")


def encode_data(data: Any, content_type: str | None) -> tuple[bytes, str | None]:
    """Return the bytes of a message and its content type.

    Raises TypeError, or ValueError with a path.
    """
    if isinstance(data, bytes):
        return data, content_type
    if isinstance(data, _BYTES):
        return bytes(data), content_type
    if isinstance(data, str) and not is_json(content_type):
        return data.encode("utf-8"), content_type or "text/plain; charset=utf-8"
    return encode_json(data), content_type or "application/json"


def encode_json(value: Any) -> bytes:
    """Raises TypeError for what has no form in JSON, and ValueError for `nan` and `inf`."""
    encoded = _encode(value)
    if b"null" in encoded:  # msgspec writes nan and inf as null: only then one can be in there
        _refuse_not_finite(value)
    return encoded


def decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    """Return a function from JSON to that type: one that msgspec knows, a subclass of dict,
    or a model of pydantic. It raises ValidationError for a value that does not fit.
    """
    return msgspec.json.Decoder(kind, dec_hook=_made).decode


def converted(value: Any, kind: Any) -> Any:
    """Convert decoded JSON to that type, as `decoder` does. Raises ValidationError."""
    return msgspec.convert(value, kind, dec_hook=_made, str_keys=True)


def _dumped(value: Any) -> Any:
    """Return a model under the names by which it is read; return a subclass of float as a float."""
    if isinstance(value, float):
        return float(value)
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return dump(mode="json", by_alias=True)


def _made(kind: Any, value: Any) -> Any:
    made = get_origin(kind) or kind
    if isinstance(made, type) and issubclass(made, dict):
        return made(value)
    validate = getattr(made, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"{kind} cannot be read from JSON")
    return validate(value)


def _refuse_not_finite(value: Any) -> None:
    plain = msgspec.to_builtins(value, enc_hook=_dumped, str_keys=True)
    path = _path_of_not_finite(plain)
    if path is not None:
        where, number = path
        raise ValueError(f"{where} is {number}, and JSON has no such number")


def _path_of_not_finite(value: Any, at: str = "$") -> tuple[str, float] | None:
    if isinstance(value, float):
        return None if math.isfinite(value) else (at, value)
    if isinstance(value, dict):
        for name, each in value.items():
            if found := _path_of_not_finite(each, at + _member(name)):
                return found
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            if found := _path_of_not_finite(each, f"{at}[{index}]"):
                return found
    return None


def _member(name: str) -> str:
    return f".{name}" if name.isidentifier() else f"[{json.dumps(name)}]"


_encode = msgspec.json.Encoder(enc_hook=_dumped).encode
