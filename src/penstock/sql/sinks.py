"""The sinks that panes go to, under their SQL names."""

from __future__ import annotations

from typing import Any

import penstock.sinks as sinks
from penstock.errors import DefinitionError, unknown
from penstock.postgres import secrets_of
from penstock.redaction import redact_url
from penstock.sinks import Jdbc, Postgres, Sink
from penstock.sql.options import Options
from penstock.sql.statements import CreateSink

#: The formats of INTO FILES, and what makes the sink of each.
FORMATS = {"json": "to_jsonl", "parquet": "to_parquet"}
_OTHERS = {
    "CONSOLE": "to_console", "KAFKA": "to_kafka", "POSTGRES": "to_postgres", "JDBC": "to_jdbc", "HTTP": "to_http",
}  # fmt: skip
_OPTIONS = {
    "FILES": ("rows_per_file", "mode"),
    "CONSOLE": ("limit", "mode"),
    "KAFKA": ("servers", "transactional_id", "rows_per_transaction", "timeout", "checkpoint_every", "mode"),
    "POSTGRES": ("url", "key", "create_table", "rows_per_transaction", "mode"),
    "JDBC": ("table", "driver", "jar", "user", "secret", "create_table", "rows_per_transaction", "mode"),
    "HTTP": ("rows_per_request", "secret", "timeout", "format", "on_refusal", "refused", "mode"),
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
    factory = getattr(sinks, name)
    arguments: dict[str, Any] = options.take(*_OPTIONS[kind.text])
    if kind.text == "KAFKA":
        arguments["options"] = options.take_prefixed("kafka.")
    if kind.text == "HTTP":
        headers = options.take_prefixed("header.")
        arguments["headers"] = {name.removeprefix("header."): text for name, text in headers.items()}
        arguments |= {"batch": arguments.pop("rows_per_request")} if "rows_per_request" in arguments else {}
    if kind.text == "POSTGRES":
        arguments |= {"key": [name.strip() for name in arguments["key"].split(",")]} if "key" in arguments else {}
    arguments |= {"create": arguments.pop("create_table")} if "create_table" in arguments else {}
    options.nothing_left(f"a sink into {kind.text}")
    address = statement.target.address
    place = [] if address is None else [address.text]
    if kind.text == "JDBC":
        arguments["url"], place = place[0], [arguments.pop("table", statement.view.text)]
    with options.blamed(address or kind):
        sink: Sink = factory(*place, **arguments)
    _check_secrets(statement, sink)
    return sink


def _check_secrets(statement: CreateSink, sink: Sink) -> None:
    """Refuses a password in a statement: the store of a running app keeps what shells say."""
    secret = isinstance(sink, Postgres) and sink.url is not None and bool(secrets_of(sink.url))
    if secret or (isinstance(sink, Jdbc) and redact_url(sink.url) != sink.url):
        raise DefinitionError(  # without its place: that would show the line
            f"the statement of the sink '{statement.name.text}' has a password in it, and would be kept",
            hint="leave it out of the address: POSTGRES takes it from PGPASSWORD or ~/.pgpass where the app runs, "
            "JDBC from the variable that secret names",
        )
