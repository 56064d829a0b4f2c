"""From CREATE STREAM to the stream that it means."""

from __future__ import annotations

import difflib
from typing import Any

from penstock.errors import DefinitionError
from penstock.model import watermarks as model
from penstock.model.stream import Stream, stream
from penstock.model.time import show_duration
from penstock.model.types import SCALARS, Schema, type_name
from penstock.sql.errors import Source
from penstock.sql.options import Options
from penstock.sql.sources import log
from penstock.sql.statements import CreateStream, CreateStreamAs, CreateTable, WatermarkClause

_RULES = ("event_time", "id", "id_horizon", "max_ahead", "sign", "keep")


def stream_of(statement: CreateStream) -> Stream:
    """The stream that a statement means, with its log if it names one."""
    source = statement.source
    schema = schema_of(statement)
    options = Options(source, statement.options)
    place = options.place("event_time")
    rules = options.take(*_RULES)
    origin = None if statement.origin is None else log(source, statement.origin, options, statement.columns)
    options.nothing_left("a stream" if statement.origin is None else f"a stream from {statement.origin.kind.text}")
    watermark = None
    if statement.watermark is not None:
        if place is not None:
            raise source.error("WATERMARK FOR already sets the event time", place, hint="leave out event_time")
        watermark = _watermark(source, statement.watermark)
        rules["event_time"] = statement.watermark.time.text
    if origin is not None and statement.origin is not None:
        with source.at(statement.origin.kind):
            origin.check(schema)
    with options.blamed(statement.name if statement.watermark is None else statement.watermark.time):
        return stream(statement.name.text, origin, schema=schema, watermark=watermark, **rules)


def time_of(statement: CreateStreamAs) -> dict[str, Any]:
    """What a statement says of the rows of a stream made from others: their event time, watermark, how long to keep."""
    options = Options(statement.source, statement.options)
    settings = options.take("event_time", "max_ahead", "keep")
    options.nothing_left("a join of streams")
    if statement.watermark is None:
        return settings
    time = statement.watermark.time.text
    return {**settings, "event_time": time, "watermark": _watermark(statement.source, statement.watermark)}


def schema_of(statement: CreateStream | CreateTable) -> Schema:
    """The columns that a statement declares."""
    columns: list[tuple[str, str]] = []
    for column in statement.columns:
        with statement.source.at(column.type):
            columns.append((column.name.text, _type(column.type.text)))
        with statement.source.at(column.name):
            Schema(tuple(columns))
    return Schema(tuple(columns))


def _type(text: str) -> str:
    try:
        return type_name(text)
    except DefinitionError as error:
        near = difflib.get_close_matches(text.lower(), SCALARS, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]}?" if near else error.hint
        raise DefinitionError(error.message, detail=error.detail, hint=hint) from None


def _watermark(source: Source, clause: WatermarkClause) -> model.Watermark:
    settings = {} if clause.idle == "default" else {"idle": None if clause.idle is None else show_duration(clause.idle)}
    with source.at(clause.value):
        if clause.kind == "percentile":
            return model.percentile(clause.percent, **settings)
        if clause.kind == "punctuated":
            return model.punctuated(clause.value.text, **settings)
        return model.bounded(show_duration(clause.delay), **settings)
