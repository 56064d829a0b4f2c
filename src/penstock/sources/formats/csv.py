"""What lines of CSV can hold."""

from __future__ import annotations

from penstock.errors import DefinitionError
from penstock.model.types import Schema


def check_csv(schema: Schema) -> None:
    """Refuses columns that a field of CSV cannot hold: Spark would fail on the first row."""
    for name, kind in schema:
        if kind.startswith(("array<", "map<", "struct<")):
            raise DefinitionError(
                f"the column '{name}' is {kind}, which lines of CSV cannot hold",
                hint="declare it as string and split it in a select, or use JSON",
            )
