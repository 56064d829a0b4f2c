"""The sinks that panes go to, under their SQL names. A sink that is not installed is refused by its name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.errors import unknown
from penstock.sinks import Sink
from penstock.sql.options import Options
from penstock.sql.statements import CreateSink

#: The formats of INTO FILES, and what makes the sink of each.
FORMATS = {"json": "to_jsonl", "parquet": "to_parquet"}
_OTHERS = {"CONSOLE": "to_console", "KAFKA": "to_kafka", "JDBC": "to_jdbc", "HTTP": "to_http"}
_OPTIONS = {
    "FILES": ("rows_per_file", "mode"),
    "CONSOLE": ("limit", "mode"),
    "KAFKA": ("servers", "transactional_id", "rows_per_transaction", "mode"),
    "JDBC": ("table", "mode"),
    "HTTP": ("mode",),
}


def sink_of(statement: CreateSink) -> Sink:
    """The sink that a statement means."""
    source, kind = statement.source, statement.target.kind
    options = Options(source, statement.options)
    name = _OTHERS.get(kind.text, "")
    if kind.text == "FILES":
        chosen = options.take("format").get("format", "json")
        if chosen not in FORMATS:
            with options.blamed(kind):
                raise unknown("file format", chosen, FORMATS)
        name = FORMATS[chosen]
    factory = getattr(import_module("penstock.sinks"), name, None)
    if factory is None:
        raise source.error(
            f"{kind.text} is not there yet: this version of Penstock has no ps.{name}", kind,
            detail="there are: FILES, CONSOLE",
        )  # fmt: skip
    given: dict[str, Any] = options.take(*_OPTIONS[kind.text])
    if kind.text == "KAFKA":
        given["options"] = options.take_prefixed("kafka.")
    options.nothing_left(f"a sink into {kind.text}")
    address = statement.target.address
    with options.blamed(address or kind):
        return factory(*([] if address is None else [address.text]), **given)  # type: ignore[no-any-return]
