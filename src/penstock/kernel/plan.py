"""A view compiled for columns: its expressions, partial columns and trigger, made once and used every epoch.

The frames that the kernel passes on have these columns, besides the keys under their own names:

- elements: `__at`, `__source`, `__partition`, `__offset`, and `__ordinal` where steps make several rows of one; the
  inputs of windows (`w:0`…) and aggregates (`x:0`…), the filters (`c:0`…), and `__sign` where rows can take others
  back;
- deltas: `__start` and, where it does not follow from it, `__end`; `__n` elements, `__rows` (inserted less
  retracted), and the aggregates' partials;
- state: the same, and the firing state beside it;
- views that forget keys: `__touched` in deltas and state, the newest event time of the elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import polars as pl

from penstock.kernel.aggregates import Columns, columns
from penstock.kernel.columns import END as END
from penstock.kernel.columns import START as START
from penstock.kernel.expressions import dtype
from penstock.kernel.triggers import Node, compile_trigger
from penstock.model.aggregates import Aggregate
from penstock.model.row_steps import makes_rows
from penstock.model.stream import Branch, Stream, branches
from penstock.model.time import BEGINNING, Instant
from penstock.model.view import View
from penstock.model.windows import Assigned, CountBased, CustomMerging, Merging

OWNER_START, OWNER_END = "__owner_start", "__owner_end"
#: A row's place in its stream.
PLACE = ("__partition", "__offset")
POSITION = ("__source", *PLACE)
#: The order of the rows that steps made of one row.
ORDINAL = "__ordinal"


@dataclass(frozen=True)
class Input:
    """One aggregate's inputs and filter, as columns of the elements."""

    columns: Columns
    inputs: tuple[pl.Expr, ...]
    where: pl.Expr | None


@dataclass(frozen=True)
class Plan:
    """What the kernel knows of a view before it sees an event.

    Where Spark computes columns for it, `view` reads those columns, and `definition` is the view as it was written.
    """

    view: View
    definition: View | None = field(default=None, compare=False)
    closed: Instant = BEGINNING  # windows that end up to here were closed when the view allowed less lateness
    inputs: dict[str, str] = field(init=False)  # SQL text → element column, for windows and aggregates

    @property
    def written(self) -> View:
        """The view as its user wrote it."""
        return self.definition or self.view

    def __getstate__(self) -> dict[str, object]:
        """A plan travels as its definition; what is compiled is compiled again where it arrives."""
        return {"view": self.view, "closed": self.closed, "inputs": self.inputs}

    def __post_init__(self) -> None:
        names: dict[str, str] = {}
        for number, text in enumerate(self.view.windows.inputs):
            names[text] = f"w:{number}"
        for _, aggregate in self.view.aggregates:
            for text in aggregate.inputs:
                names.setdefault(text, f"x:{len(names)}")
            if aggregate.where is not None:
                names.setdefault(aggregate.where, f"c:{len(names)}")
        object.__setattr__(self, "inputs", names)

    @cached_property
    def keys(self) -> list[str]:
        return [name for name, _ in self.view.keys]

    @cached_property
    def key_names(self) -> dict[str, str]:
        """The keys' types, in Spark's words."""
        return {name: self.view.bound(text).type or "string" for name, text in self.view.keys}

    @cached_property
    def key_types(self) -> dict[str, pl.DataType]:
        return {name: dtype(kind) for name, kind in self.key_names.items()}

    @cached_property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that the view reads, as its user wrote it."""
        return self.written.input.sources

    @cached_property
    def sources(self) -> dict[str, int]:
        return {source.name: number for number, source in enumerate(self.view.input.sources)}

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        return branches(self.view.input)

    @cached_property
    def makes_rows(self) -> bool:
        """Whether a row of a stream may become several elements."""
        return makes_rows(self.view.input)

    @cached_property
    def position(self) -> tuple[str, ...]:
        """The columns that say where an element stands: its row's position, and its number among those made of it."""
        return (*POSITION, ORDINAL) if self.makes_rows else POSITION

    @cached_property
    def aggregates(self) -> list[Input]:
        return [
            Input(
                self._columns(aggregate, name),
                tuple(pl.col(self.inputs[text]) for text in aggregate.inputs),
                None if aggregate.where is None else pl.col(self.inputs[aggregate.where]),
            )
            for name, aggregate in self.view.aggregates
        ]

    def _columns(self, aggregate: Aggregate, name: str) -> Columns:
        view, is_alone = self.view, len(self.branches) == 1
        return columns(aggregate, name, view.input_types(aggregate), view.signed, self.makes_rows, is_alone)

    @cached_property
    def fields(self) -> dict[str, pl.DataType]:
        """The partials' columns, of all aggregates."""
        return {name: kind for part in self.aggregates for name, kind in part.columns.fields.items()}

    @cached_property
    def columns(self) -> list[Columns]:
        return [part.columns for part in self.aggregates]

    @cached_property
    def values(self) -> dict[str, pl.DataType]:
        """The columns that carry a window's values, as panes and the table show them."""
        if self.view.shown is None:
            return {part.name: part.result for part in self.columns}
        return {name: dtype(kind) for name, kind in self.view.value_types.items()}

    @cached_property
    def pending(self) -> list[Columns]:
        """The same partials of what no pane has shown yet, for discarding panes."""
        return [self._columns(aggregate, pending(name)) for name, aggregate in self.view.aggregates if self.discarding]

    @cached_property
    def trigger(self) -> Node:
        return compile_trigger(self.view.firing)

    @property
    def merging(self) -> bool:
        return isinstance(self.view.windows, Merging)

    @property
    def by_row(self) -> bool:
        """Whether elements reach the merge one by one: their windows depend on their neighbours."""
        return isinstance(self.view.windows, (CountBased, CustomMerging))

    @property
    def forgets(self) -> bool:
        """Whether keys are forgotten that no element has touched for the view's retention."""
        return self.view.forgets

    @property
    def discarding(self) -> bool:
        return self.view.accumulation == "discarding"

    @property
    def retracting(self) -> bool:
        return self.view.accumulation == "retracting"

    @cached_property
    def delta_schema(self) -> dict[str, pl.DataType]:
        """The columns of this view's deltas."""
        schema: dict[str, pl.DataType] = dict(self.key_types)
        schema[START] = pl.Int64()
        if self.merging or isinstance(self.view.windows, Assigned):
            schema[END] = pl.Int64()
        if self.merging or self.by_row or self.forgets:
            schema |= {"__source": pl.Int32(), "__partition": pl.Int32(), "__offset": pl.Int64()}
            schema |= {ORDINAL: pl.Int64()} if self.makes_rows else {}
        schema["__n"] = pl.Int64()
        if self.forgets:
            schema["__touched"] = pl.Int64()
        if self.view.signed:
            schema["__rows"] = pl.Int64()
        return schema | self.fields

    @cached_property
    def value_schema(self) -> dict[str, pl.DataType]:
        """The value state: keys, window, rows, partials."""
        schema: dict[str, pl.DataType] = {**self.key_types, START: pl.Int64(), END: pl.Int64()}
        if isinstance(self.view.windows, CountBased):
            schema["__elements"] = pl.Int64()
        if self.forgets:
            schema["__touched"] = pl.Int64()
        if self.view.signed:
            schema["__rows"] = pl.Int64()
        return schema | self.fields

    @cached_property
    def firing_schema(self) -> dict[str, pl.DataType]:
        """The firing state that stands beside the value state."""
        schema: dict[str, pl.DataType] = {
            "__new": pl.Int64(),
            "__index": pl.Int64(),
            "__finished": pl.Boolean(),
            "__wake": pl.Boolean(),
        }
        schema |= {name: column.dtype for name, column in self.trigger.columns.items()}
        if self.discarding:
            schema |= {name: kind for part in self.pending for name, kind in part.fields.items()}
        if self.retracting:
            schema["__shown"] = pl.Int64()
            schema |= {shown(name): kind for name, kind in self.values.items()}
        return schema

    @cached_property
    def ghost_schema(self) -> dict[str, pl.DataType]:
        """Panes that stand for windows that another has absorbed: its owner, which takes them back when it fires."""
        schema = {**self.key_types, START: pl.Int64(), END: pl.Int64(), OWNER_START: pl.Int64(), OWNER_END: pl.Int64()}
        return {**schema, "__shown": pl.Int64()} | {shown(name): kind for name, kind in self.values.items()}

    @cached_property
    def state_schema(self) -> dict[str, pl.DataType]:
        return self.value_schema | self.firing_schema


def nothing(schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """A frame without rows. Made once for each schema: building one costs more than most steps on few rows."""
    return _nothing(tuple(schema.items()))


@lru_cache(maxsize=512)
def _nothing(schema: tuple[tuple[str, pl.DataType], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(schema))


def pending(name: str) -> str:
    """The column with the part of a partial that no pane has shown."""
    return f"pending:{name}"


def shown(name: str) -> str:
    """The column with the value that the standing pane shows."""
    return f"shown:{name}"


def settle(frame: pl.DataFrame, parts: Iterable[Columns]) -> pl.DataFrame:
    """Brings what an aggregation gave to partials, for the aggregates that need a step after it."""
    for part in parts:
        if part.needs_settle:
            frame = part.settle(frame)
    return frame
