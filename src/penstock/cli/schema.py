"""The command `schema`: what the columns of a file are, ready to paste into an app."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import Debug, errors_shown, output
from penstock.model.types import has_structs
from penstock.sources.infer import InferredSchema, infer


class Face(StrEnum):
    """How the schema is printed."""

    ddl = "ddl"
    python = "python"
    sql = "sql"


def schema(
    file: Annotated[Path, typer.Argument(help="A file of events: JSON lines, CSV, Parquet or Avro.", metavar="FILE")],
    face: Annotated[
        Face, typer.Option("--as", help="Print only the columns, or a whole stream in Python or SQL.")
    ] = Face.ddl,
    rows: Annotated[int, typer.Option("--rows", help="Read at most this many rows.", min=1, metavar="N")] = 10_000,
    debug: Debug = False,
) -> None:
    """Infer the schema of a file from its rows, and print it for an app."""
    with errors_shown(debug):
        inferred = infer(file, rows)
        name = _stream_name(file)
        text = {Face.ddl: _ddl, Face.python: _python, Face.sql: _sql}[face](inferred, name, file)
        output().print(text, markup=False, highlight=False, soft_wrap=True)
        if any(has_structs(kind) for _, kind in inferred.schema):
            _note("the history cannot keep structs and maps: declare these columns as string, or set keep='none'")
        if inferred.event_time is None and face is not Face.ddl:
            _note("no column looks like a time: without an event time there are no windows of time")


def _note(text: str) -> None:
    typer.echo(f"note: {text}", err=True)


def _stream_name(file: Path) -> str:
    stem = file.name.partition(".")[0]
    name = "".join(char if char.isalnum() and char.isascii() else "_" for char in stem).strip("_").lower()
    return name if name.isidentifier() else "events"


def _ddl(inferred: InferredSchema, name: str, file: Path) -> str:
    return inferred.schema.ddl()


def _python(inferred: InferredSchema, name: str, file: Path) -> str:
    time = inferred.event_time
    rest = "" if time is None else f',\n    event_time="{time}", watermark=ps.bounded("10 seconds")'
    options = "".join(f", {option}={value!r}" for option, value in _options(inferred).items())
    return (
        f'{name} = app.stream(\n    "{name}", ps.files("{file.parent}"{options}),\n'
        f'    schema="{inferred.schema.ddl()}"{rest},\n)'
    )


def _sql(inferred: InferredSchema, name: str, file: Path) -> str:
    columns = [f"{column} {kind.upper()}" for column, kind in inferred.schema]
    if (time := inferred.event_time) is not None:
        columns.append(f"WATERMARK FOR {time} AS {time} - INTERVAL 10 SECONDS")
    options = ", ".join(f"{option} = {_sql_value(value)}" for option, value in _options(inferred).items())
    return f"CREATE STREAM {name} ({', '.join(columns)})\n  FROM FILES '{file.parent}' WITH ({options});"


def _options(inferred: InferredSchema) -> dict[str, str | bool]:
    """The options of the source: its header is where the names of a CSV file come from."""
    options: dict[str, str | bool] = {"format": inferred.format}
    if inferred.format == "csv":
        options["header"] = True
        options |= {"delimiter": inferred.delimiter} if inferred.delimiter != "," else {}
    return options


def _sql_value(value: str | bool) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()
