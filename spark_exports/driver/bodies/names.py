"""The names of columns for the members of a body.

Lakes do not tell names apart by case, and write the path to a nested field with dots. So a column's
name may differ from the member's. Then the member's name is in the field's metadata, which Iceberg
keeps as the column's doc.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

import pyarrow as pa

MEMBER = b"doc"
MAX_NAME_CHARS = 200


def member_of(field: pa.Field) -> str:
    """Return the member that a column holds."""
    told: bytes | None = (field.metadata or {}).get(MEMBER)
    return str(field.name) if told is None else told.decode()


def column(name: str, member: str, kind: pa.DataType, nullable: bool = True) -> pa.Field:
    metadata = None if name == member else {MEMBER: member.encode()}
    return pa.field(name, kind, nullable, metadata=metadata)


class Names:
    """The names of a struct's fields, or of a table's columns. `reserved` are casefolded."""

    def __init__(self, taken: Iterable[str], reserved: Container[str] = ()) -> None:
        self._taken = {name.casefold() for name in taken}
        self._reserved = reserved

    def name(self, member: str) -> str:
        """Return a new name for a member that has no column yet."""
        base = member.replace(".", "_")[:MAX_NAME_CHARS] or "_"
        if base.casefold() in self._reserved:
            base = f"body_{base}"
        name, number = base, 1
        while name.casefold() in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name.casefold())
        return name
