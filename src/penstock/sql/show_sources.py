"""Logs as SQL writes them: FROM FILES 'path' WITH (…).

>>> from penstock.sources import files
>>> show_log(files("events", format="csv", header=True))
("FROM FILES 'events'", ["format = 'csv'", 'header = true'])
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from penstock.model.time import show_duration
from penstock.redaction import redact_settings, redact_url
from penstock.sources.kafka import Kafka
from penstock.sql.generators import Columns
from penstock.sql.words import only_python, quoted

#: Fields that are not options: addresses, and what has words of its own.
_ELSEWHERE = {
    "path", "topics", "pattern", "host", "port", "metadata", "options", "avro_text", "function", "identity", "name",
    "folder",
}  # fmt: skip


def show_log(log: Any) -> tuple[str, list[str]]:
    """Where a stream comes from, and the options that say how."""
    kind = "KAFKA" if isinstance(log, Kafka) else type(log).__name__.upper()
    if kind == "FILES":
        address = quoted(log.path)
    elif kind == "KAFKA":
        address = quoted(", ".join(log.topics) if log.pattern is None else log.pattern)
    elif kind == "HTTP":
        address = quoted(log.name)
    elif kind == "SOCKET":
        address = quoted(f"{log.host}:{log.port}")
    elif kind == "GENERATOR" and isinstance(log.function, Columns):
        address = log.identity
    else:
        raise only_python(log)
    options = [_option(field.name, getattr(log, field.name)) for field in fields(log) if _said(log, field)]
    if kind == "KAFKA":
        options += ["pattern = true"] if log.pattern is not None else []
        options += [f"{quoted(name)} = {quoted(text)}" for name, text in redact_settings(log.options).items()]
    return f"FROM {kind} {address}", options


def metadata(log: Any) -> dict[str, str]:
    """The columns that come from elsewhere than a message's value."""
    return dict(getattr(log, "metadata", ()))


def _said(log: Any, field: Any) -> bool:
    return field.name not in _ELSEWHERE and getattr(log, field.name) != field.default


def _option(name: str, value: object) -> str:
    if name in ("disorder", "lateness", "retention"):
        return f"{name} = {quoted(show_duration(value))}"  # type: ignore[arg-type]
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, str):
        return f"{name} = {quoted(redact_url(value))}"
    return f"{name} = {value}"
