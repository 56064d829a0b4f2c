"""The rows of INSERT INTO: constants that fit the columns of a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.model.stream import Stream
from penstock.sql.constants import value
from penstock.sql.statements import Insert
from penstock.sql.values import fitting
from penstock.testing import TestStream


def inserted(stream: Stream, statement: Insert) -> Iterator[tuple[int, Mapping[str, object]]]:
    """The rows that a statement adds to a stream, each with its partition, in the model's values."""
    source, schema, script = statement.source, stream.schema, TestStream(stream)
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
            given: dict[str, object] = {}
            for name, piece in zip(names, row, strict=True):
                with source.at(piece):
                    made = fitting(value(source, piece), schema.type_of(name))
                    ((_, fits),) = script.add({name: made}).steps[-1].rows
                    given[name] = fits[name]
            yield group.partition, {name: given.get(name) for name in schema.names}
