"""The growth of a table's columns, and its conflicts."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_exports.lake.columns import arrow_columns, grown, new_schema, plain_types
from spark_exports.lake.envelope import ENVELOPE

BODY = pa.schema(
    [
        ("n", pa.int64()),
        ("small", pa.int32()),
        ("price", pa.decimal128(9, 2)),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ("tags", pa.list_(pa.struct([("t", pa.float32())]))),
        ("more", pa.map_(pa.string(), pa.int32())),
    ]
)


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


@pytest.mark.parametrize("columns", [ENVELOPE, BODY], ids=["envelope", "body"])
def test_icebergs_columns_are_those_that_were_asked_for(columns: pa.Schema) -> None:
    assert arrow_columns(new_schema(columns)) == plain_types(columns)


def test_what_is_there_stays_as_it_is() -> None:
    assert grown(BODY, BODY) == (BODY, [])
    assert grown(BODY, pa.schema([])) == (BODY, [])


def test_new_columns_come_last_in_their_order() -> None:
    after, conflicts = grown(BODY, pa.schema([("z", pa.bool_()), ("a", pa.string())]))
    assert conflicts == []
    assert after.names == [*BODY.names, "z", "a"]


@pytest.mark.parametrize(
    ("name", "wanted", "becomes"),
    [
        ("small", pa.int64(), pa.int64()),
        ("small", pa.int8(), pa.int32()),
        ("n", pa.int32(), pa.int64()),
        ("price", pa.decimal128(18, 2), pa.decimal128(18, 2)),
        ("price", pa.decimal128(4, 2), pa.decimal128(9, 2)),
        (
            "who",
            struct(age=pa.int64(), email=pa.string()),
            struct(name=pa.string(), age=pa.int64(), email=pa.string()),
        ),
        ("tags", pa.list_(struct(t=pa.float64())), pa.list_(struct(t=pa.float64()))),
        (
            "tags",
            pa.large_list(struct(u=pa.bool_())),
            pa.list_(struct(t=pa.float32(), u=pa.bool_())),
        ),
        ("more", pa.map_(pa.string(), pa.int64()), pa.map_(pa.string(), pa.int64())),
    ],
)
def test_types_become_wider(name: str, wanted: pa.DataType, becomes: pa.DataType) -> None:
    after, conflicts = grown(BODY, pa.schema([(name, wanted)]))
    assert conflicts == []
    assert after.field(name).type == becomes


def test_whole_numbers_fit_a_column_of_doubles() -> None:
    table = pa.schema([("x", pa.float64())])
    assert grown(table, pa.schema([("x", pa.int64())])) == (table, [])


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("n", pa.float64()),
        ("n", pa.string()),
        ("n", struct(a=pa.int64())),
        ("price", pa.decimal128(9, 3)),
        ("who", pa.string()),
        ("tags", struct(t=pa.float32())),
        ("more", pa.map_(pa.int32(), pa.int32())),
    ],
)
def test_all_else_is_a_conflict(name: str, wanted: pa.DataType) -> None:
    _, conflicts = grown(BODY, pa.schema([(name, wanted)]))
    assert [each.path for each in conflicts] == [(name,)]


def test_all_conflicts_are_told() -> None:
    wanted = pa.schema(
        [
            ("n", pa.string()),
            ("N", pa.int64()),
            ("who", struct(age=pa.string(), Name=pa.string())),
            ("tags", pa.list_(struct(t=pa.string()))),
            ("", pa.int64()),
            ("Publish_Day", pa.int64()),
            ("fine", pa.int64()),
            ("twice", struct(a=pa.int64(), A=pa.int64())),
        ]
    )
    _, conflicts = grown(BODY, wanted)
    assert {each.path for each in conflicts} == {
        ("n",),
        ("N",),
        ("who", "age"),
        ("who", "Name"),
        ("tags", "element", "t"),
        ("",),
        ("Publish_Day",),
        ("twice", "A"),
    }


def test_a_name_with_a_dot_may_not_be_that_of_a_field_inside() -> None:
    after, conflicts = grown(BODY, pa.schema([("who.email", pa.string())]))
    assert conflicts == []
    assert after.names[-1] == "who.email"
    _, conflicts = grown(BODY, pa.schema([("who.age", pa.int32()), ("who.name.x", pa.int32())]))
    assert [each.path for each in conflicts] == [("who.age",)]


def test_columns_of_which_nothing_is_known_are_left_out() -> None:
    wanted = pa.schema([("nothing", pa.null()), ("who", struct(what=pa.null()))])
    assert grown(BODY, wanted) == (BODY, [])


def test_dictionaries_and_large_types_are_written_plainly() -> None:
    wanted = pa.schema(
        [
            ("d", pa.dictionary(pa.int32(), pa.string())),
            ("s", pa.large_string()),
            ("b", pa.large_binary()),
            pa.field("must", pa.int16(), nullable=False),
            ("t", pa.timestamp("ns", tz="Europe/Berlin")),
        ]
    )
    assert plain_types(wanted) == pa.schema(
        [
            ("d", pa.string()),
            ("s", pa.string()),
            ("b", pa.binary()),
            ("must", pa.int32()),
            ("t", pa.timestamp("us", tz="UTC")),
        ]
    )
