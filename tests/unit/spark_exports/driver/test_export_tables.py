"""docs/export-tables.md, row by row."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_exports.driver.bodies.columns import KINDS, grown, kind_of, with_pinned
from spark_exports.driver.bodies.json_bodies import JsonBodies
from spark_exports.driver.bodies.names import column
from spark_exports.driver.bodies.shape import Shape
from spark_exports.driver.bodies.values import Undecodable, json_value
from spark_exports.driver.rows import base_columns

PAGE = Path(__file__).parents[4] / "docs" / "export-tables.md"
NAMES = {kind: name for name, kind in KINDS.items()}


def table_after(heading: str) -> list[list[str]]:
    """Return the cells of the table whose heading line begins with a text."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    (start,) = [number for number, line in enumerate(lines) if line.startswith(heading)]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        rows.append([cell.replace("&lt;", "<").replace("&gt;", ">").strip("| ") for cell in cells])
    return rows


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def kind_named(name: str) -> pa.DataType:
    if name.startswith("list<"):
        return pa.list_(pa.field("element", kind_named(name[5:-1])))
    if name.startswith("struct<"):
        fields = [part.split(": ") for part in name[7:-1].split(", ")]
        return pa.struct([pa.field(field, kind_named(kind)) for field, kind in fields])
    return kind_of(name)


def name_of(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list<{name_of(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{one.name}: {name_of(one.type)}' for one in kind)}>"
    return NAMES[kind]


def columns_named(name: str) -> pa.Schema:
    return pa.schema([] if name == "none" else [column("a", "a", kind_named(name))])


def read(columns: pa.Schema, body: str) -> tuple[Any, bool]:
    """Return the value of the column `a`, and whether the body is rescued."""
    reader = JsonBodies(columns)
    decoded = reader.row(body.encode())
    (value,) = [array.to_pylist()[0] for array in reader.node.arrays([decoded.row])] or [None]
    return value, not decoded.is_whole


GROWTH = table_after("| the column before")
PINNED = table_after("| type |")


@pytest.mark.parametrize(("before", "bodies", "after", "values", "rescued"), GROWTH)
def test_columns_grow_as_the_page_says(
    before: str, bodies: str, after: str, values: str, rescued: str
) -> None:
    shape = Shape()
    for body in code(bodies):
        shape.see(json_value(body.encode()))
    columns = grown(columns_named(before), shape)
    assert [name_of(field.type) for field in columns] == ([] if after == "none" else [after])
    read_as = [read(columns, body) for body in code(bodies)]
    assert [value for value, _ in read_as] == [json.loads(value) for value in code(values)]
    assert [is_rescued for _, is_rescued in read_as] == [one == "yes" for one in rescued.split()]


@pytest.mark.parametrize(("type_", "body", "value", "rescued"), PINNED)
def test_types_set_by_columns_are_as_the_page_says(
    type_: str, body: str, value: str, rescued: str
) -> None:
    found, is_rescued = read(with_pinned(pa.schema([]), {"a": type_}), *code(body))
    assert (None if found is None else str(found)) == json.loads(*code(value))
    assert is_rescued == (rescued == "yes")


@pytest.mark.parametrize(("body", "reason"), table_after("| body | `reason`"))
def test_rejects_are_as_the_page_says(body: str, reason: str) -> None:
    with pytest.raises(Undecodable) as error:
        JsonBodies(pa.schema([])).row(code(body)[0].encode())
    assert error.value.reason == code(reason)[0]


@pytest.mark.parametrize(("member", "name"), table_after("| member | column"))
def test_names_are_as_the_page_says(member: str, name: str) -> None:
    shape = Shape()
    shape.see({code(member)[0]: 1})
    assert grown(pa.schema([]), shape).names == code(name)


def test_the_page_has_all_columns_of_every_table() -> None:
    told = [name for row in table_after("| column | type") for name in code(row[0])]
    assert told == base_columns("json").names
    assert len(GROWTH) > 30
