"""Checks of definitions: views and sinks must read streams of their app, and sinks must be able to take the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.errors import DefinitionError
from penstock.model.changes import Changes, check_below
from penstock.model.naming import valid_name as valid_name
from penstock.model.rows import Rows
from penstock.model.stream import Flow, Stream
from penstock.model.view import View
from penstock.runtime.derived.base import check_inputs
from penstock.runtime.derived.base import made_from as made_from
from penstock.runtime.queries.realtime import check_lane, is_lane
from penstock.sinks import Sink, check_rows


def check_name(name: str, what: str) -> None:
    """Refuses a name that SQL would not take."""
    if not valid_name(name):
        raise DefinitionError(f"'{name}' cannot be {what}", hint="use letters, digits and underscores")


def check_stream(stream: Stream, streams: Mapping[str, Stream]) -> None:
    """Refuses a stream made from one that the app does not have, or whose events the history does not keep."""
    check_inputs({**streams, stream.name: stream})


def check_view(name: str, view: View, streams: Mapping[str, Stream], views: Mapping[str, View]) -> None:
    """Refuses a view that reads a stream or a view which the app does not have."""
    if any(isinstance(source, Changes) for source in view.input.sources):
        check_below({name: view}, views)
    own = [source for source in view.input.sources if not isinstance(source, Changes)]
    _check_own(f"the view '{name}'", own, streams)


def check_row_sink(flow: Flow, sink: Sink, streams: Mapping[str, Stream]) -> None:
    """Refuses a sink that cannot take the rows of a flow, or a flow of streams which the app does not have."""
    _check_own("the sink", flow.sources, streams)
    if not isinstance(sink, Sink):
        raise DefinitionError(f"not a sink: {sink!r}", hint="for example ps.to_jsonl('directory')")
    check_rows(sink)
    if is_lane(sink):
        check_lane(flow, sink)
    if flow.schema is not None:
        Rows.of(flow, flow.schema)


def _check_own(reader: str, sources: Iterable[Stream], streams: Mapping[str, Stream]) -> None:
    for source in sources:
        if streams.get(source.name) != source:
            raise DefinitionError(
                f"{reader} reads the stream '{source.name}', which is not this app's", hint="make it with app.stream(…)"
            )
