"""Streams that a join of two streams makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from penstock.dataflow.join_operator import JoinOperator
from penstock.model.changes import CHANGE
from penstock.model.join import StreamJoin
from penstock.model.join_definition import Within, stream_join
from penstock.model.stream import Flow, Stream, stream
from penstock.model.types import Schema
from penstock.model.versions import Versions
from penstock.model.watermarks import Carried, Watermark
from penstock.model.windows import Window


def join_stream(
    name: str,
    left: Flow,
    right: Flow | Versions,
    *,
    on: str | Sequence[str] | None = None,
    within: Within | None = None,
    window: Window | None = None,
    how: str = "inner",
    prefix: str = "",
    bounds: str = "inclusive",
    event_time: str | None = None,
    watermark: Watermark | None = None,
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
) -> Stream:
    """A stream of this name, which joins two streams: `on="ad = ad_id", within=("-1 hour", "0 seconds")`.

    `within` bounds the right one's time less the left one's: one duration bounds it either way. `bounds` says which of
    its ends belong to it: "inclusive", "exclusive", "left" or "right". Or both must fall into the same `window`.
    Columns of the right that the left has too get names that begin with `prefix`. `how`: inner, left, right, full, semi
    or anti. `event_time` is the time of the rows that come out. Their watermark follows that of the inputs; with
    `watermark` it follows the rows instead.

    With `right.versions("item")` each event of the left finds the version that was valid at its own time.
    """
    join = stream_join(left, right, on, within, window, how, prefix, bounds)
    return joined_stream(name, join, event_time=event_time, watermark=watermark, max_ahead=max_ahead, keep=keep)


def joined_stream(
    name: str,
    join: StreamJoin,
    *,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
) -> Stream:
    """What a join gives that was made elsewhere, as a stream of this name.

    With versions it has the event time of the left by default.
    """
    if event_time is None and join.as_of:
        event_time = join.default_time
    if watermark is None and event_time is not None:
        watermark = Carried()
    result = stream(
        name, JoinOperator(join, event_time), schema=join.schema, event_time=event_time, watermark=watermark,
        max_ahead=max_ahead, keep=keep,
    )  # fmt: skip
    if not join.signed:
        return result
    return replace(result, schema=Schema((*join.schema, (CHANGE, "int"))), sign=CHANGE)


def joins_of(flow: Flow) -> list[Stream]:
    """The streams of joins that a flow reads and that nobody has added to an app, each after those that it reads."""
    streams: dict[str, Stream] = {}
    for source in flow.sources:
        if isinstance(source.log, StreamJoin):
            for side in source.log.flows:
                streams |= {below.name: below for below in joins_of(side)}
            streams[source.name] = source
    return list(streams.values())
