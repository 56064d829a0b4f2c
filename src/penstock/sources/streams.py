"""Streams that are read from a source."""

from __future__ import annotations

from datetime import timedelta

from penstock.errors import DefinitionError
from penstock.model.epochs import Epochs
from penstock.model.stream import Stream, stream
from penstock.model.types import Schema, SchemaLike
from penstock.model.watermarks import Watermark
from penstock.sources.base import Source


def source_stream(
    name: str,
    log: Source,
    *,
    schema: SchemaLike,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    id: str | None = None,
    id_horizon: str | timedelta = "1 day",
    max_ahead: str | timedelta | None = "1 day",
    sign: str | None = None,
    keep: str | timedelta | None = None,
    epoch: str | Epochs | None = None,
) -> Stream:
    """A stream of this app: `penstock.stream` with a log."""
    if not isinstance(log, Source):
        raise DefinitionError(f"not a log: {log!r}", hint="for example ps.files('directory')")
    log.check(Schema.parse(schema))
    return stream(
        name, log, schema=schema, event_time=event_time, watermark=watermark,
        id=id, id_horizon=id_horizon, max_ahead=max_ahead, sign=sign, keep=keep, epoch=epoch,
    )  # fmt: skip
