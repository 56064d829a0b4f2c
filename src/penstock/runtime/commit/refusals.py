"""Rows that a commit rejects: those that only the merge finds late, their counts, and the log lines about them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping

import polars as pl

from penstock.dataflow.operator import LATE_INPUTS
from penstock.model.stream import Stream
from penstock.runtime.commit.view_runtime import ViewRuntime
from penstock.runtime.epoch.gather import Epoch
from penstock.runtime.epoch.origin import EpochOrigin
from penstock.runtime.epoch.wire import late_reason, refusals
from penstock.sources.base import FILE
from penstock.store.base import DEAD_FILES, LATE_EVENTS
from penstock.store.figures import Lateness

_log = logging.getLogger("penstock.runtime")


def late_in_merge(
    stream: Stream, parts: Iterable[Epoch], late_by_view: Mapping[str, pl.DataFrame], views: Mapping[str, ViewRuntime]
) -> dict[str, pl.DataFrame]:
    """Rows that only the merge could tell to be late: for windows that merge, and for keys that may be forgotten."""
    late = []
    for suspects in (pl.concat(part.suspects) for part in parts if part.suspects):
        places = suspects.unique(["__partition", "__offset"])
        for view, merged in late_by_view.items():
            if merged.height:
                rows = merged.join(places, on=["__partition", "__offset"])
                reason = late_reason(views[view].plan).alias("__reason")
                late.append(refusals(stream.name, view, rows.with_columns(reason)))
    return {"late": pl.concat(late)} if late else {}


def together(parts: Iterable[Mapping[str, pl.DataFrame]], hidden: Collection[str]) -> dict[str, pl.DataFrame]:
    """Refused rows of several origins, by kind; without those that only a pending generation refused."""
    frames: dict[str, list[pl.DataFrame]] = {}
    for part in parts:
        for kind, frame in part.items():
            own = frame.filter(~pl.col("view").is_in(list(hidden)).fill_null(False)) if hidden else frame
            if own.height:
                frames.setdefault(kind, []).append(own)
    return {kind: pl.concat(several) for kind, several in frames.items()}


def counted(refused: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    """How many rows of which stream were refused, for the counters.

    An event is late for a view: `late` counts pairs of an event and a view, `late_events` counts events. Those that
    were late for the operator that gives the stream are `late_inputs` too.
    """
    counts: dict[str, int] = {}
    for kind, frame in refused.items():
        for stream, count in frame.group_by("stream").len().iter_rows():
            counts[f"{stream}.{kind}"] = count
        for stream, count in frame.filter(pl.col("extent") == FILE).group_by("stream").len().iter_rows():
            counts[f"{stream}.{DEAD_FILES}"] = count
    if "late" in refused:
        for_operator = pl.col("view").is_null()
        events = refused["late"].group_by("stream", "partition", "offset", for_operator.alias("is_input")).len()
        late = events.group_by("stream").agg(pl.len(), pl.col("is_input").sum().alias("inputs"))
        for stream, count, inputs in late.iter_rows():
            counts[f"{stream}.{LATE_EVENTS}"] = count
            if inputs:
                counts[f"{stream}.{LATE_INPUTS}"] = inputs
    return counts


def lateness_of(name: str, source: EpochOrigin, late: pl.DataFrame | None, readers: Collection[str]) -> Lateness:
    """How much of an epoch was late, for views of the stream or for the operators that read its events."""
    if late is None:
        rows, events = pl.DataFrame(schema={"view": pl.String}), 0
    else:
        rows = late.filter(pl.col("stream") == name)
        inputs = late.filter(pl.col("view").is_null() & pl.col("stream").is_in(list(readers)))
        events = pl.concat([rows, inputs]).select("partition", "offset").n_unique()
    if source.step is None or source.step.inputs is None:
        return Lateness(events, rows.height)
    return Lateness(events, rows.height, source.step.inputs, rows["view"].null_count())


def warn_of_dead_files(stream: str, refused: Mapping[str, pl.DataFrame]) -> None:
    """A file that cannot be read is more than one row: it is logged, so that operators look at it."""
    if "dead" not in refused:
        return
    files = refused["dead"].filter(pl.col("extent") == FILE)
    for path, reason in files.select("row", "reason").iter_rows():
        _log.warning(
            "the stream '%s' goes on without the file '%s': %s. When it is repaired: penstock dead-letter retry %s",
            stream, path, reason, stream,
        )  # fmt: skip
