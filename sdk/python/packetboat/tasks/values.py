"""Inputs and outputs of tasks: typed values of the program, JSON on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_origin

import msgspec

from packetboat.models.jobs import JobOutput, TaskOutput


def encode(value: object) -> msgspec.Raw:
    """Raises TypeError for what JSON has no word for."""
    return msgspec.Raw(msgspec.json.encode(value, enc_hook=_builtin))


def decoder(kind: Any) -> Callable[[bytes | msgspec.Raw], Any]:
    """Of JSON into that type: all that msgspec knows, subclasses of dict, and models of pydantic.
    The decoder raises ValidationError for what does not fit."""
    return msgspec.json.Decoder(kind, dec_hook=_made).decode


def converted(value: Any, kind: Any) -> Any:
    """The same of JSON that is decoded already."""
    return msgspec.convert(value, kind, dec_hook=_made, str_keys=True)


def typed_output(output: JobOutput, kind: Any) -> TaskOutput[Any]:
    """Of a listing."""
    if output.error is not None:
        return TaskOutput(output.index, error=output.error)
    return TaskOutput(output.index, decoder(kind)(output.output))


def _builtin(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is None:
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    return dump(mode="json")


def _made(kind: Any, value: Any) -> Any:
    made = get_origin(kind) or kind
    if isinstance(made, type) and issubclass(made, dict):
        return made(value)
    validate = getattr(made, "model_validate", None)
    if validate is None:
        raise NotImplementedError(f"{kind} cannot be read from JSON")
    return validate(value)
