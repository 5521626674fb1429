"""Inputs and outputs of tasks: typed values of the program, JSON on the wire."""

from __future__ import annotations

from typing import Any

import msgspec

from packetboat.codec import converted, decoder, encode_json
from packetboat.models.jobs import JobOutput
from packetboat.models.task_results import TaskOutput

__all__ = ["converted", "decoder", "encode", "typed_output"]


def encode(value: object) -> msgspec.Raw:
    """Raises TypeError for what has no form in JSON, and ValueError for `nan` and `inf`."""
    return msgspec.Raw(encode_json(value))


def typed_output(output: JobOutput, kind: Any) -> TaskOutput[Any]:
    """Return an output of a listing as the type `kind`."""
    if output.error is not None:
        return TaskOutput(output.index, error=output.error)
    return TaskOutput(output.index, decoder(kind)(output.output))
