"""One frame of every kind, as the release encodes it whose tree this is run in.

`python -m tests.golden.samples` prints {wire: {kind: hex}}. The values are made from the
annotations, so they need no upkeep. A later release must read them as they were meant.
"""

from __future__ import annotations

import json
import sys
import types
import typing
from typing import Any

import msgspec

from peering.rpc import handshake as peering
from store_nodes import wire as store
from store_nodes.consensus import messages as consensus
from subscribe_forwarder.fleet.links import wire as links

WIRES: dict[str, Any] = {
    "store": store.Head,
    "consensus": consensus.Message,
    "links": links.Head,
    "handshake": peering.Message,
}
_PLAIN: dict[Any, Any] = {
    int: 7, float: 1.5, bool: True, str: "text", bytes: b"bytes"
}  # fmt: skip


def sample(kind: Any) -> Any:
    """Return a value of a type, with something in each part of it."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = typing.get_type_hints(kind)
        return kind(*(sample(hints[name]) for name in kind.__struct_fields__))
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return sample(arguments[0])
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(sample(each) for each in arguments)
    if origin in (tuple, list):
        return origin([sample(arguments[0])])
    if origin is dict:
        return {sample(arguments[0]): sample(arguments[1])}
    raise TypeError(f"no sample of {kind}")


def encoded() -> dict[str, dict[str, str]]:
    """Return the frames of the release whose tree is imported."""
    return {
        wire: {
            kind.__name__: msgspec.msgpack.encode(sample(kind)).hex()
            for kind in typing.get_args(union)
        }
        for wire, union in WIRES.items()
    }


if __name__ == "__main__":
    json.dump(encoded(), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
