"""The sources that streams come from, under their SQL names. One that is not installed is rejected by its name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.sources import Source as EventSource
from penstock.sql.errors import Piece, Source
from penstock.sql.generators import generated
from penstock.sql.options import Options
from penstock.sql.statements import Column, Origin

#: What FROM KIND 'address' calls: the factory of `penstock.sources`, and the options that it takes.
LOGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "FILES": ("files", ("format", "header", "delimiter", "files_per_epoch", "max_line")),
    "KAFKA": (
        "kafka",
        ("servers", "start", "format", "delimiter", "avro_schema", "registry", "events_per_epoch", "group", "pattern"),
    ),
    "HTTP": ("http", ("retention",)),
    "SOCKET": ("socket", ("format", "delimiter", "max_line")),
}


def log(source: Source, origin: Origin, options: Options, columns: tuple[Column, ...]) -> EventSource:
    """The log of a stream."""
    kind = origin.kind.text
    metadata = {column.name.text: column.metadata for column in columns if column.metadata is not None}
    if metadata and kind != "KAFKA":
        raise source.error("METADATA is for FROM KAFKA only", next(iter(metadata.values())), hint="leave it out")
    if kind == "GENERATOR":
        return generated(source, origin, options)
    factory_name, known = LOGS[kind]
    factory = getattr(import_module("penstock.sources"), factory_name, None)
    if factory is None:
        raise source.error(f"{kind} is not there yet: this version of Penstock has no ps.{factory_name}", origin.kind)
    assert origin.address is not None
    arguments = options.take(*known)
    if kind == "KAFKA":
        arguments |= {"options": options.take_prefixed("kafka."), "metadata": {k: v.text for k, v in metadata.items()}}
    address, more = _address(source, kind, origin.address, arguments)
    with options.blamed(origin.address):
        try:
            return factory(*address, **arguments, **more)  # type: ignore[no-any-return]
        except TypeError as error:
            raise source.error(f"{kind} does not take these options", origin.kind, detail=str(error)) from None


def _address(
    source: Source, kind: str, address: Piece, arguments: dict[str, Any]
) -> tuple[list[object], dict[str, object]]:
    """What an address is to the factory of a log: its first arguments, and others."""
    if kind == "SOCKET":
        host, _, port = address.text.rpartition(":")
        if not host or not (port.isascii() and port.isdigit()):
            raise source.error("a socket's address is a host and a port", address, hint="write 'localhost:9999'")
        return [host, int(port)], {}
    if kind == "KAFKA":
        if arguments.pop("pattern", False):
            return [], {"pattern": address.text}
        topics = [topic.strip() for topic in address.text.split(",")]
        return [topics[0] if len(topics) == 1 else topics], {}
    return [address.text], {}
