"""Steps with a user's own Python: row by row (`map`, `flat_map`, `filter`), or on batches of columns (`map_batches`).

The event time, the position and the sign of an event come along to the rows that are made of it.

>>> import penstock as ps
>>> lines = ps.stream("lines", schema="line string")
>>> words = lines.flat_map(lambda row: row.line.split(), schema="word string")
>>> words.schema.ddl(), words.multiplies
('word string', True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from penstock.errors import DefinitionError, RowError, unknown
from penstock.model.counters import count
from penstock.model.naming import function_name
from penstock.model.stream import Flow, Step, branches
from penstock.model.types import Schema
from penstock.model.user_rows import RowCode

if TYPE_CHECKING:
    from penstock.model.side_tables import SideTable
    from penstock.model.table import Snapshot, Table

Frames: TypeAlias = Literal["polars", "arrow"]
#: Rows made of one event are ordered by the branch of the flow that made them, and by their number there.
ORDINAL_BITS: Final = 32


@dataclass(frozen=True, repr=False)
class PythonStep(Step):
    """A step with a function. `takes` are the columns that the function gets, `sides` the tables beside each row.

    `snapshots` are the versions of the tables, where this step is run.
    """

    #: The method of a flow that makes it.
    word: ClassVar[str]

    function: Callable[..., Any]
    takes: Schema | None = None
    sides: tuple[Table, ...] = field(default=(), kw_only=True)
    snapshots: tuple[Snapshot, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DefinitionError(f"{self.word} takes a function, and got {self.function!r}")
        if self.takes is None:
            object.__setattr__(self, "takes", self.input.schema)
        for table in self.sides:
            if table.valid_from is not None and not self.input.has_event_time:
                raise DefinitionError(
                    f"the table '{table.name}' is as of the event's time, and the stream has none",
                    hint="set event_time=… where the stream is made, or .with_time(…)",
                )

    @property
    def _shown_sides(self) -> str:
        return f", tables=[{', '.join(side.name for side in self.sides)}]" if self.sides else ""

    def code_with(self, tables: Sequence[SideTable], times: Sequence[int]) -> RowCode:
        """Its code for rows of these event times, with versions of its tables."""
        code: RowCode = self.code  # type: ignore[attr-defined]
        if not self.sides:
            return code
        function, moments = self.function, iter(times)

        def called(row: Any) -> Any:
            at = next(moments)
            return function(row, *[table.at(at) for table in tables])

        return code.calling(called)

    @property
    def who(self) -> str:
        """How dead letters name it."""
        return f"{self.word}({function_name(self.function)})"

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "code"}

    def known(self) -> Schema:
        """The columns that the function gets; an error where only Spark knows them."""
        if self.takes is None:
            raise DefinitionError(
                f"the columns that {self.who} gets are not known", hint="set schema=… in the transform before"
            )
        return self.takes


@dataclass(frozen=True, repr=False)
class Filter(PythonStep):
    """Only the rows for which a function gives something true."""

    word = "filter"

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        return self.input.schema

    @cached_property
    def code(self) -> RowCode:
        return RowCode(self.function, self.who, self.known())

    def __repr__(self) -> str:
        return f"{self.input!r}.filter({function_name(self.function)}{self._shown_sides})"


@dataclass(frozen=True, repr=False)
class Map(PythonStep):
    """One row made of each row."""

    word = "map"

    schema: Schema = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.schema.columns:
            raise DefinitionError(f"{self.who} gives no columns", hint="schema='word string, n int'")

    @cached_property
    def code(self) -> RowCode:
        return RowCode(self.function, self.who, self.known(), self.schema)

    def __repr__(self) -> str:
        text = f"{self.input!r}.{self.word}({function_name(self.function)}, schema={self.schema.ddl()!r}"
        return f"{text}{self._shown_sides})"


@dataclass(frozen=True, repr=False)
class FlatMap(Map):
    """Any number of rows made of each row, in order."""

    word = "flat_map"
    multiplies = True


@dataclass(frozen=True, repr=False)
class MapBatches(Map):
    """Rows made of a batch of rows, in a frame of Polars or a table of Arrow. The n-th is made of the n-th."""

    word = "map_batches"

    of: Frames = "polars"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.of not in ("polars", "arrow"):
            raise unknown("kind of batches", str(self.of), ["polars", "arrow"])

    def __repr__(self) -> str:
        text = f"{self.input!r}.map_batches({function_name(self.function)}, schema={self.schema.ddl()!r}"
        return f"{text}{'' if self.of == 'polars' else f', of={self.of!r}'})"


def python_rows(
    step: PythonStep, row: Mapping[str, Any], tables: Sequence[SideTable] = (), at: int = 0
) -> list[Mapping[str, Any]]:
    """What a step makes of one row of this event time. A `RowError` says why its function fails."""
    columns = [[row.get(name)] for name in step.known().names]
    if isinstance(step, Filter):
        filtered = step.code_with(tables, [at]).filtered(columns)
        failures, counts = filtered.failures, filtered.counts
        rows = [row] if filtered.keeps[0] else []
    elif isinstance(step, MapBatches) or not isinstance(step, Map):
        raise DefinitionError(
            f"{step.who} works on columns, which the reference does not have", hint="use engine='kernel'"
        )
    else:
        code = step.code_with(tables, [at])
        results = code.flat_mapped(columns) if step.multiplies else code.mapped(columns)
        failures, counts = results.failures, results.counts
        rows = [dict(zip(step.schema.names, values, strict=True)) for values in zip(*results.columns, strict=True)]
    if failures:
        raise RowError(failures[0])
    count([(one.name, one.number) for one in counts], step)
    return rows


def makes_rows(flow: Flow) -> bool:
    """Whether a flow may have several rows of one event."""
    return getattr(flow, "multiplies", False) or any(makes_rows(part) for part in flow.inputs)


def runs_code(flow: Flow) -> bool:
    """Whether a step of a flow calls a Python function for rows."""
    return any(isinstance(step, PythonStep) for branch in branches(flow) for step in branch.steps)
