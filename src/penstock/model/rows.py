"""Rows of a flow without state, on their way to sinks: each row that the flow accepts, as it is.

>>> Rows(Schema.parse("k string, pane int"))
Traceback (most recent call last):
penstock.errors.DefinitionError: every row to a sink has a column 'pane' of Penstock's own, and so has the flow
  hint: give it another name with select
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import DefinitionError
from penstock.model.stream import Flow
from penstock.model.types import Schema


@dataclass(frozen=True)
class Rows:
    """What sinks get of a flow without state: its columns and `pane`, the row's id among all that goes to sinks.

    Where the flow is `signed`, rows may take earlier ones back, and `kind` says which do.
    """

    schema: Schema
    signed: bool = False

    def __post_init__(self) -> None:
        for name in self.schema.names:
            if name.lower() in self.added:
                raise DefinitionError(
                    f"every row to a sink has a column '{name}' of Penstock's own, and so has the flow",
                    hint="give it another name with select",
                )

    @property
    def added(self) -> tuple[str, ...]:
        """What a row has besides the flow's columns."""
        return ("kind", "pane") if self.signed else ("pane",)

    @classmethod
    def of(cls, flow: Flow, schema: Schema) -> Rows:
        return cls(schema, any(source.sign is not None for source in flow.sources))
