"""INSERT INTO a stream of a running app: the rows go into its log, and come in with an epoch as all others do."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import polars as pl

from penstock.errors import DefinitionError
from penstock.kernel.local import events_frame
from penstock.model.commits import Event
from penstock.model.stream import Stream
from penstock.sources import MALFORMED, REASON, Http
from penstock.sources.files.source import Files
from penstock.sources.http.inbox import FOLDER, Inbox, Offer
from penstock.sql.inserts import inserted
from penstock.sql.statements import Insert
from penstock.store.present import json_of


def insert(stream: Stream, statement: Insert, directory: Path) -> int:
    """Adds a file to the directory that a stream reads, or to its inbox; how many rows it has."""
    log = stream.log
    if not isinstance(log, Http) and (not isinstance(log, Files) or "://" in log.path):
        raise statement.source.error(
            f"events of '{stream.name}' come from {log!r}, which INSERT cannot write", statement.stream,
            hint="INSERT writes to streams FROM HTTP, and FROM FILES in a directory of this machine",
        )  # fmt: skip
    events = [Event(stream.name, row, partition, n) for n, (partition, row) in enumerate(inserted(stream, statement))]
    rows = events_frame(stream, events, 0).select(stream.schema.names)
    with statement.source.at(statement.stream):
        if isinstance(log, Http):
            whole = rows.with_columns(pl.lit(None, pl.String).alias(name) for name in (MALFORMED, REASON))
            Inbox(directory / FOLDER / log.name).put([Offer(whole)])
            return len(events)
        _write(log, rows, f"inserted-{uuid.uuid4().hex}")
    return len(events)


def _check_texts(rows: pl.DataFrame) -> None:
    """CSV has many ways to write some signs, and Spark reads another one than most programs write."""
    for name, kind in rows.schema.items():
        if kind == pl.String:
            for text in rows[name].drop_nulls():
                if any(sign in text for sign in '"\\\r\n'):
                    raise DefinitionError(
                        f"'{text}' cannot be written to a file of CSV",
                        hint="leave out quotes, backslashes and line breaks, or use format = 'json'",
                    )


def _write(log: Files, rows: pl.DataFrame, name: str) -> None:
    """A file that appears whole: Spark reads no names that begin with a dot."""
    folder = Path(log.path)
    hidden, path = folder / f".{name}", folder / f"{name}.{log.format}"
    try:
        if log.format == "parquet":
            rows.write_parquet(hidden)
        elif log.format == "csv":
            _check_texts(rows)
            rows.write_csv(
                hidden, include_header=log.header, separator=log.delimiter,
                datetime_format="%Y-%m-%d %H:%M:%S%.6f", null_value="",
            )  # fmt: skip
        else:
            hidden.write_text("\n".join(json_of(rows)) + "\n", encoding="utf-8")
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
