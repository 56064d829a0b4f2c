"""Writes one file of the history: rows come batch by batch and leave as row groups, so that memory stays bounded."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.history.events.columns import arrow_schema, bounded, dead_schema, encodings, of_one_commit, table
from penstock.history.events.place import ChecksumFile, Place
from penstock.history.events.writes import WriteId
from penstock.model.types import Schema
from penstock.store.file import File

#: A row group is written when this many rows or bytes wait.
GROUP_ROWS: Final = 1 << 17
_GROUP_BYTES: Final = 64 << 20
#: How many epochs have a folder of their own.
FOLDER: Final = 1000


@dataclass(frozen=True)
class Keeping:
    """What a task must know to keep the events of an epoch: where, and under which write id. It travels."""

    location: str
    home: str
    stream: str
    schema: Schema
    epoch: int
    write_id: WriteId

    def path(self, task: int) -> str:
        """A name that no other attempt of an epoch or of a task has. It begins with the write id."""
        folder = f"{self.home}/{self.stream}/{self.epoch // FOLDER:06d}"
        return f"{folder}/{self.write_id}.{task}-{uuid.uuid4().hex}.parquet"

    def writer(self, task: int) -> FileWriter:
        """The file of a task."""
        blank = File(self.path(task), self.stream, "events", 0, 0, 0, 0, "", None, None)
        return FileWriter(Place(self.location), blank, of_one_commit(arrow_schema(self.schema)))

    def writer_beside(self, task: int) -> BackgroundWriter:
        """The file of a task, written by a thread beside its other work."""
        return BackgroundWriter(self.writer(task))

    def write_dead(self, rows: pl.DataFrame) -> File | None:
        """Keeps dead letters: row, reason, raw, view, at, partition and offset."""
        path = self.path(0).replace(f"/{self.stream}/", f"/{self.stream}/dead/", 1)
        blank = File(path, self.stream, "dead", 0, 0, 0, 0, "", None, None)
        with FileWriter(Place(self.location), blank, of_one_commit(dead_schema())) as writer:
            writer.add(rows.with_columns(pl.col("partition").alias("__partition"), pl.col("offset").alias("__offset")))
        return writer.file


@dataclass
class FileWriter:
    """A file that grows row group by row group. It is made when there is something to write."""

    place: Place
    blank: File
    schema: pa.Schema
    level: int = 1
    group_rows: int = GROUP_ROWS
    file: File | None = None
    _rows: int = 0
    _waiting: list[pa.Table] = field(default_factory=list)
    _out: ChecksumFile | None = None
    _writer: pq.ParquetWriter | None = None
    _times: list[int] = field(default_factory=list)

    def add(self, rows: pl.DataFrame) -> None:
        """Takes rows along; a row group is written when enough wait."""
        if rows.height:
            self.add_table(table(rows, self.schema))

    def add_table(self, rows: pa.Table) -> None:
        """The same for rows that have the file's columns."""
        self._waiting.append(rows)
        waiting = sum(one.num_rows for one in self._waiting)
        if waiting >= self.group_rows or sum(one.nbytes for one in self._waiting) >= _GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting.clear()
        if self._writer is None:
            self._out = self.place.create(self.blank.path)
            dictionary, encoding = encodings(self.schema)
            self._writer = pq.ParquetWriter(
                pa.PythonFile(self._out, mode="w"),
                self.schema,
                compression="zstd",
                compression_level=self.level,
                use_dictionary=dictionary,
                column_encoding=encoding,
                write_statistics=bounded(self.schema),
                store_schema=False,
                write_page_index=True,
            )
        self._writer.write_table(rows, row_group_size=2 * self.group_rows)
        self._rows += rows.num_rows
        if "__at" in self.schema.names:
            bounds = pc.min_max(rows["__at"])
            self._times += [bounds["min"].as_py(), bounds["max"].as_py()]

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def close(self) -> File | None:
        """Ends the file; what the store lists of it, None if there was nothing to write."""
        self._flush()
        if self._writer is None or self._out is None:
            return None
        self._writer.close()
        self._out.close()
        self.place.settle(self.blank.path)
        self.file = replace(
            self.blank,
            rows=self._rows,
            bytes=self._out.bytes,
            checksum=self._out.checksum,
            oldest=min(self._times, default=None),
            newest=max(self._times, default=None),
        )
        return self.file

    def abandon(self) -> None:
        """Leaves nothing behind, if possible: what is left nobody lists."""
        if self._out is not None:
            with suppress(Exception):
                self._out.close()
            with suppress(Exception):
                self.place.remove(self.blank.path)


class BackgroundWriter:
    """A file that a thread of its own writes, so that a task goes on meanwhile. Few frames wait for it at a time.

    What fails in the thread is raised by the next call.
    """

    def __init__(self, writer: FileWriter, most_waiting: int = 2) -> None:
        self._writer, self._most_waiting = writer, most_waiting
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-history")
        self._waiting: deque[Future[None]] = deque()
        self._closing: Future[File | None] | None = None

    def add(self, rows: pl.DataFrame) -> None:
        """Takes rows along."""
        while len(self._waiting) >= self._most_waiting:
            self._waiting.popleft().result()
        self._waiting.append(self._thread.submit(self._writer.add, rows))

    def begin_close(self) -> None:
        """Ends the file as soon as all of its rows are written; nobody waits for that yet."""
        self._closing = self._thread.submit(self._writer.close)

    def close(self) -> File | None:
        """Waits for the end of the file; what the store lists of it, None if there was nothing to write."""
        if self._closing is None:
            self.begin_close()
        assert self._closing is not None
        while self._waiting:
            self._waiting.popleft().result()
        file = self._closing.result()
        self._thread.shutdown()
        return file

    def abandon(self) -> None:
        """Leaves nothing behind, if possible."""
        self._thread.shutdown(cancel_futures=True)
        self._writer.abandon()


def paths(files: Iterable[File]) -> list[str]:
    return [file.path for file in files]


__all__ = ["BackgroundWriter", "FileWriter", "Keeping", "paths"]
