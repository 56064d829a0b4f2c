"""The rows of INSERT INTO: constants that fit the columns of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal

from penstock.model.column_values import fit_column
from penstock.model.stream import Stream
from penstock.model.time import SCRIPT_DAY
from penstock.model.types import fields_of, is_float, type_name
from penstock.sql.constants import value
from penstock.sql.statements import Insert


def inserted(stream: Stream, statement: Insert) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The rows that a statement adds to a stream, each with its partition, in the model's values."""
    source, schema = statement.source, stream.schema
    for column in statement.columns:
        with source.at(column):
            schema.find(column.text)
    names = [schema.find(column.text) for column in statement.columns] or list(schema.names)
    for group in statement.groups:
        for row in group.rows:
            if len(row) != len(names):
                raise source.error(
                    f"the row has {len(row)} values for {len(names)} columns", row[0],
                    detail=f"they are {', '.join(names)}",
                )  # fmt: skip
            values: dict[str, object] = {}
            for name, piece in zip(names, row, strict=True):
                with source.at(piece):
                    fitted = fitting(value(source, piece), schema.type_of(name))
                    values[name] = fit_column(name, fitted, schema.type_of(name), SCRIPT_DAY)
            yield group.partition, {name: values.get(name) for name in schema.names}


def fitting(value: object, kind: str) -> object:
    """A constant as the value of a column: numbers become those of its type.

    >>> fitting(Decimal("1.5"), "double"), fitting(2, "decimal(4,1)")
    (1.5, 2)
    """
    if isinstance(value, list) and kind.startswith("array<"):
        return [fitting(part, kind[6:-1]) for part in value]
    if isinstance(value, dict) and kind.startswith(("map<", "struct<")):
        types = dict(fields_of(kind))
        of = (lambda _: types["value"]) if kind.startswith("map<") else types.get
        return {name: fitting(part, type_name(of(name) or "string")) for name, part in value.items()}
    if is_float(kind) and isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return float(value)
    return value
