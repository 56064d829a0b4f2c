"""The definitions of an app, as its file makes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Final

from penstock.app import App
from penstock.dataflow.compile import DerivedSource, ViewSource, source_text
from penstock.dataflow.operator import Operator
from penstock.dataflow.operators import operator_of
from penstock.dataflow.process_operator import ProcessOperator
from penstock.model.change import input_text, parts
from penstock.model.changes import Changes, in_order
from penstock.model.naming import function_identity
from penstock.model.stream import Flow, Stream
from penstock.model.table import Table, tables
from penstock.model.time import show_duration
from penstock.model.view import View
from penstock.plans.definition import Definition, Record, identity
from penstock.redaction import redact_url
from penstock.sinks import Sink

#: Where an object lies in memory differs from process to process.
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


def recorded(app: App) -> Record:
    """What the store records of an app."""
    return Record(app.name, version("penstock"), tuple(definitions_of(app)))


def definitions_of(app: App) -> Iterator[Definition]:
    """All definitions of an app, each after what it reads."""
    for table in app.tables.values():
        yield _table(table)
    for stream in app.streams.values():
        yield _stream(stream)
    for name, flow in app.flows.items():
        yield Definition("stream", name, (("made from", input_text(flow)),), reads=_reads(flow))
    for name, view in in_order(app.views).items():
        yield _view(app, name, view)
    for name, (of, what, sink) in app.sinks.items():
        yield _sink(name, of, what, sink)


def _table(table: Table) -> Definition:
    texts = {
        "source": "" if table.source is None else _text(table.source),
        "schema": table.schema.ddl(),
        "key": ", ".join(table.key),
        "reload": table.shown_reload,
        "valid": f"{table.valid_from} {table.valid_to}",
        "broadcast": str(table.broadcast),
    }
    reads = (identity("view", table.source.view),) if isinstance(table.source, ViewSource) else ()
    return Definition("table", table.name, tuple(texts.items()), reads=reads)


def _stream(stream: Stream) -> Definition:
    """A stream with a source, or the operator or the query of its own that gives it."""
    operator = operator_of(stream)
    if operator is not None:
        return _operator(stream, operator)
    if isinstance(stream.log, DerivedSource):
        texts = {"definition": _text(stream.log), "schema": stream.schema.ddl(), **_rules(stream)}
        reads = tuple(identity("stream", source.name) for source in stream.log.inputs)
        state = f"{texts['definition']} of ({texts['schema']})"
        return Definition("operator", stream.name, tuple(texts.items()), state, reads)
    texts = {
        "source": source_text(stream.log),
        "source options": _text(stream.log),
        "schema": stream.schema.ddl(),
        **_rules(stream),
    }
    return Definition("stream", stream.name, tuple(texts.items()))


def _operator(stream: Stream, operator: Operator) -> Definition:
    inputs = "; ".join(input_text(flow) for flow in operator.inputs)
    texts = {"definition": operator.definition, "input": inputs, "schema": stream.schema.ddl(), **_rules(stream)}
    if isinstance(operator, ProcessOperator):
        texts["code"] = function_identity(operator.process.processor)
    reads = dict.fromkeys(one for flow in operator.inputs for one in _reads(flow))
    reads |= dict.fromkeys(identity("table", name) for name in operator.tables)
    state = f"{operator.definition} from {inputs}"
    return Definition("operator", stream.name, tuple(texts.items()), state, tuple(reads))


def _rules(stream: Stream) -> dict[str, str]:
    """The options of a stream for its events."""
    ahead = stream.max_ahead
    return {
        "event time": stream.event_time or "",
        "watermark": "" if stream.watermark is None else repr(stream.watermark),
        "id": stream.id or "",
        "id horizon": show_duration(stream.id_horizon),
        "max ahead": "" if ahead is None else show_duration(ahead),
        "sign": stream.sign or "",
        "history": stream.kept,
        "epoch": "" if stream.epoch is None else repr(stream.epoch),
    }


def _view(app: App, name: str, view: View) -> Definition:
    texts = parts(view)
    for part, schedule in (("batch", app.batches), ("audit", app.audits)):
        if name in schedule:
            texts[part] = f"every {show_duration(schedule[name])}"
    if name in app.placements:
        texts["placement"] = repr(app.placements[name])
    if name in app.from_now:
        texts["back-fill"] = "none"
    return Definition("view", name, tuple(texts.items()), view.fingerprint(), _reads(view.input))


def _sink(name: str, of: str, what: View | Flow, sink: Sink) -> Definition:
    if isinstance(what, View):
        texts = {"rows of": f"the view {of}", "columns": ", ".join(what.columns), "to": _text(sink)}
        return Definition("sink", name, tuple(texts.items()), reads=(identity("view", of),))
    columns = "" if what.schema is None else what.schema.ddl()
    texts = {"rows of": input_text(what), "columns": columns, "to": _text(sink)}
    return Definition("sink", name, tuple(texts.items()), reads=_reads(what))


def _reads(flow: Flow) -> tuple[str, ...]:
    streams = (identity("view" if isinstance(one, Changes) else "stream", one.name) for one in flow.sources)
    return (*streams, *(identity("table", name) for name in tables(flow)))


def _text(value: object) -> str:
    """A source or sink as text, without secrets and without what differs from process to process."""
    return redact_url(_ADDRESS.sub("", repr(value)))
