"""The columns of the history's files: a stream's own in plain Parquet types, and where each row comes from.

>>> arrow_schema(Schema.parse("id bigint, tags array<string>")).names
['id', 'tags', '__commit', '__at', '__partition', '__offset']
"""

from __future__ import annotations

from typing import Final

import polars as pl
import pyarrow as pa

from penstock.model.types import Schema, decimal_of

#: The column with the commit that brought a row.
COMMIT: Final = "__commit"
#: Beside the stream's columns: the commit that brought the row, its event time in microseconds, and its place.
OWN: Final = {COMMIT: "bigint", "__at": "bigint", "__partition": "int", "__offset": "bigint"}
#: What is kept of dead letters. `raw` rows are text as it came (`rest`: JSON of what came beside it), others are JSON;
#: `extent` says where `row` is a file's path, or only a part of a line; `view` is null where the stream itself refused.
DEAD: Final = {
    "row": "string", "reason": "string", "raw": "boolean", "rest": "string", "extent": "string", "view": "string",
    "at": "bigint", COMMIT: "bigint", "__partition": "int", "__offset": "bigint",
}  # fmt: skip

_ARROW: Final = {
    "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}  # fmt: skip


def arrow_type(kind: str) -> pa.DataType:
    """A column's type in the files."""
    if kind.startswith("decimal("):
        return pa.decimal128(*decimal_of(kind))
    if kind.startswith("array<"):
        return pa.list_(arrow_type(kind[6:-1]))
    return _ARROW[kind]


def arrow_schema(schema: Schema) -> pa.Schema:
    """The columns of events."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in {**dict(schema), **OWN}.items()])


def dead_schema() -> pa.Schema:
    """The columns of dead letters."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in DEAD.items()])


def of_one_commit(schema: pa.Schema) -> pa.Schema:
    """The columns of a file that one commit brings: the list of files says which."""
    return schema.remove(schema.get_field_index(COMMIT))


def encodings(schema: pa.Schema) -> tuple[list[str], dict[str, str]]:
    """Which columns get a dictionary, and how others are encoded: whole numbers and times by their differences."""
    dictionary, others = [], {}
    for field in schema:
        kind, path = field.type, field.name
        while pa.types.is_list(kind):
            kind, path = kind.value_type, f"{path}.list.element"
        if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            others[path] = "DELTA_BINARY_PACKED"
        else:
            dictionary.append(path)
    return dictionary, others


def bounded(schema: pa.Schema) -> list[str]:
    """The columns of which a file lists the smallest and largest values: numbers and times, by which readers leave rows
    out. For texts this takes a third of the time that a file takes."""
    return [
        field.name
        for field in schema
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_temporal(field.type)
    ]


def table(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """A frame with these columns and types."""
    return frame.select(schema.names).to_arrow(compat_level=pl.CompatLevel.oldest()).cast(schema)
