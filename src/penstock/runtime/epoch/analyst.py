"""Asks Spark, before anything runs, for the types of its expressions and the columns of DataFrame code."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from penstock.errors import DefinitionError
from penstock.model.explode import Explode
from penstock.model.naming import function_name
from penstock.model.row_steps import PythonStep
from penstock.model.stream import Select, Step, Transform, Where, WithTime
from penstock.model.table import Table, TableJoin
from penstock.model.types import Schema, type_name
from penstock.runtime.epoch.poison import quiet
from penstock.runtime.epoch.row_frames import by_python, exploded
from penstock.runtime.errors import essence
from penstock.runtime.tables.frame import AT, TableFrames, joined, table_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Spelled: TypeAlias = tuple[tuple[object, ...], ...]


class Analyst:
    """Asks Spark, and caches the answers. `session` is called when it is needed."""

    def __init__(self, session: Callable[[], SparkSession]) -> None:
        self._session = session
        self._types: dict[tuple[Schema, str], str] = {}
        self._outputs: dict[tuple[Schema, Spelled], Schema] = {}

    def type_of(self, sql: str, schema: Schema, text: str) -> str:
        """The type of an expression over a schema; `text` is how its user wrote it."""
        if (schema, sql) not in self._types:
            try:
                with quiet():
                    spark_type = self._empty(schema).selectExpr(f"{sql} AS x").schema[0].dataType.simpleString()
            except Exception as error:
                raise self._refused(text, error) from None
            self._types[schema, sql] = _known(spark_type) or spark_type
        return self._types[schema, sql]

    def _refused(self, text: str, error: Exception) -> DefinitionError:
        """Why Spark rejects an expression, in a line; for an unknown function, with similar names."""
        routine = re.search(r"\[UNRESOLVED_ROUTINE\].*? routine `(?:[^`]*`\.`)*([^`]+)`", str(error))
        if routine is None:
            return DefinitionError(f"Spark rejects the expression '{text}'", detail=essence(error))
        name = routine[1]
        known = [row.function for row in self._session().sql("SHOW FUNCTIONS").collect()]
        near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.6)
        return DefinitionError(
            f"unknown function '{name}' in '{text}'",
            detail="neither Penstock nor Spark has it",
            hint=f"did you mean {' or '.join(near)}?" if near else "SHOW FUNCTIONS in Spark lists what there is",
        )

    def output(self, schema: Schema, steps: tuple[Step, ...]) -> Schema:
        """The columns that come out of steps of which the last is DataFrame code."""
        key = schema, spelled(steps)
        if key not in self._outputs:
            try:
                made = applied(self._empty(schema), steps)
            except DefinitionError:
                raise
            except Exception as error:
                raise DefinitionError(f"Spark rejects {steps[-1].label}", detail=essence(error)) from error
            self._outputs[key] = schema_of(made, steps[-1].label)
        return self._outputs[key]

    def _empty(self, schema: Schema) -> DataFrame:
        return self._session().createDataFrame([], ", ".join(f"`{name}` {kind}" for name, kind in schema))


def spelled(steps: Sequence[Step]) -> Spelled:
    """What steps do, apart from what they follow: two that are spelled alike give the same of the same."""
    parts: list[tuple[object, ...]] = []
    for step in steps:
        if isinstance(step, Where):
            parts.append(("where", step.condition))
        elif isinstance(step, Select):
            parts.append(("select", step.columns))
        elif isinstance(step, WithTime):
            parts.append(("with_time", step.expression))
        elif isinstance(step, Transform):
            parts.append(("transform", step.function, step.schema, step.sides))
        elif isinstance(step, TableJoin):
            parts.append(("join", step.table, step.on, step.how, step.prefix))
        elif isinstance(step, Explode):
            parts.append(("explode", step.expression, step.made, step.outer))
        elif isinstance(step, PythonStep):
            parts.append((step.word, step.function, step.schema, step.sides))
    return tuple(parts)


def applied(
    frame: DataFrame, steps: Sequence[Step], time: str | None = None, frames: TableFrames | None = None
) -> DataFrame:
    """The steps before and up to DataFrame code, as Spark does them. `time` is the rows' event time.

    `frames` keeps the tables that rows are joined with.
    """
    from pyspark.sql import functions as f

    timed = any(table.valid_from is not None for step in steps for table in _own_tables(step))
    at = f.lit(None).cast("timestamp") if time is None else f.expr(time)
    frame = frame.withColumn(AT, at) if timed else frame
    for step in steps:
        if isinstance(step, Where):
            frame = frame.filter(f.expr(step.condition))
        elif isinstance(step, Select):
            hidden = [AT] if timed else []
            frame = frame.select(*(f.expr(text).alias(name) for name, text in step.columns), *hidden)
        elif isinstance(step, WithTime):
            time = step.expression
            frame = frame.withColumn(AT, f.expr(time)) if timed else frame
        elif isinstance(step, Transform):
            frame = _transformed(frame.drop(AT), step)
            frame = frame.withColumn(AT, at if time is None else f.expr(time)) if timed else frame
        elif isinstance(step, TableJoin):
            frame = joined(frame, step, frames)
        elif isinstance(step, Explode):
            frame = exploded(frame, step)
        elif isinstance(step, PythonStep):
            frame = by_python(frame, step, schema_of(frame.drop(AT), step.label), (AT,) if timed else ())
    return frame.drop(AT) if timed else frame


def _own_tables(step: Step) -> tuple[Table, ...]:
    """The tables of a step that rows look something up in."""
    if isinstance(step, TableJoin):
        return (step.table,)
    return step.sides if isinstance(step, PythonStep) else ()


def _transformed(frame: DataFrame, step: Transform) -> DataFrame:
    versions = step.snapshots or (None,) * len(step.sides)
    sides = [table_frame(frame.sparkSession, *one) for one in zip(step.sides, versions, strict=True)]
    made = step.function(frame, *sides)
    if not hasattr(made, "mapInArrow"):
        raise DefinitionError(
            f"the function {function_name(step.function)} gave {type(made).__name__}, not a DataFrame",
            hint="a function given to transform takes a DataFrame and returns one",
        )
    output: DataFrame = made
    if step.schema is None:
        return output
    output_schema = schema_of(output, step.label)
    for name, kind in step.schema:
        if name not in output_schema or output_schema.type_of(name) != kind:
            raise DefinitionError(
                f"{step.label} gives other columns than its schema says",
                detail=f"it gives '{output_schema.ddl()}', and the schema says '{step.schema.ddl()}'",
                hint="correct the schema, or leave it out: Spark tells it when the app starts",
            )
    return output.select(*(f"`{name}`" for name in step.schema.names))


def schema_of(frame: DataFrame, label: str) -> Schema:
    """A frame's columns; those of types that Penstock has no word for are left out."""
    columns = [(field.name, _known(field.dataType.simpleString())) for field in frame.schema.fields]
    for name, _ in columns:
        if name.startswith("__"):
            raise DefinitionError(
                f"{label} gives the column '{name}': names that start with two underscores are Penstock's own",
                hint="rename it in the function",
            )
    return Schema(tuple((name, kind) for name, kind in columns if kind is not None))


def _known(kind: str) -> str | None:
    """Spark's word for a type as Penstock writes it, if it has one."""
    try:
        return type_name(kind)
    except DefinitionError:
        return None
