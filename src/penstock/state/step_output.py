"""The rows that a step of an operator gives: in memory if they are few, else in a file, to be read chunk by chunk.

Such a file lies beside the exchange's (`spool.py`), and is removed with them when the commit ends.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import polars as pl
import pyarrow as pa

from penstock.state.spool import FOLDER

#: With more rows than this a step's output goes to a file.
MANY_ROWS: Final = 1 << 21
#: The most rows of a chunk that is read from a file.
CHUNK_ROWS: Final = 1 << 19
_STREAM: Final = "__stream"


@dataclass(frozen=True)
class OutputFile:
    """A file with rows of an output, below a folder."""

    path: str
    rows: int

    def chunks(self, root: str) -> Iterator[pl.DataFrame]:
        """The rows, in order."""
        with pa.memory_map(str(Path(root) / self.path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                frame = pl.from_arrow(reader.get_batch(number))
                assert isinstance(frame, pl.DataFrame)
                yield frame


@dataclass(frozen=True)
class StepOutput:
    """The output of a step: rows in memory, and files of the processes that had too many of them.

    `order` are the columns by which rows of several processes are put in order.
    """

    frame: pl.DataFrame
    files: tuple[OutputFile, ...] = ()
    root: str = ""
    order: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self.frame.height + sum(file.rows for file in self.files)

    def chunks(self) -> Iterator[pl.DataFrame]:
        """All rows in order, some at a time."""
        streams = [file.chunks(self.root) for file in self.files]
        if self.frame.height or not streams:
            streams.append(iter([self.frame]))
        yield from streams[0] if len(streams) == 1 else merged(streams, self.order)


class OutputWriter:
    """Takes the chunks of an output, and writes them to a file once they are more than `many` rows."""

    def __init__(self, root: str, name: str, many: int = MANY_ROWS) -> None:
        self._root, self._path = root, f"{FOLDER}/{name}-{uuid.uuid4().hex}.rows.arrow"
        self._many, self._chunk = many, max(1, min(many, CHUNK_ROWS))
        self._held: list[pl.DataFrame] = []
        self._rows = 0
        self._out: Any = None
        self._writer: Any = None

    def add(self, rows: pl.DataFrame) -> None:
        """Takes a chunk."""
        self._held.append(rows)
        if sum(frame.height for frame in self._held) > self._many:
            self._write()

    def close(self, last: pl.DataFrame, order: Sequence[str]) -> StepOutput:
        """Ends the output with its last chunk."""
        self.add(last)
        if self._writer is None:
            return StepOutput(pl.concat(self._held), order=tuple(order))
        self._write()
        self._writer.close()
        return StepOutput(last.clear(), (OutputFile(self._path, self._rows),), self._root, tuple(order))

    def __enter__(self) -> OutputWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._out is not None:
            self._out.close()

    def _write(self) -> None:
        for frame in self._held:
            table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
            if self._writer is None:
                path = Path(self._root) / self._path
                path.parent.mkdir(parents=True, exist_ok=True)
                self._out = pa.OSFile(str(path), "wb")
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                self._writer = pa.ipc.new_file(self._out, table.schema, options=options)
            self._writer.write_table(table.combine_chunks(), max_chunksize=self._chunk)
            self._rows += frame.height
        self._held.clear()


def merged(streams: Sequence[Iterator[pl.DataFrame]], order: Sequence[str]) -> Iterator[pl.DataFrame]:
    """The rows of several sorted streams in one order. At most one chunk of each is held.

    >>> one, other = (iter([pl.DataFrame({"n": some}) for some in parts]) for parts in ([[1, 4], [5]], [[2, 3]]))
    >>> [chunk["n"].to_list() for chunk in merged([one, other], ["n"])]
    [[1, 2, 3], [4], [5]]
    """
    heads: dict[int, pl.DataFrame] = {}
    waiting = dict(enumerate(streams))
    while waiting or heads:
        for number in [number for number in waiting if number not in heads]:
            chunk = next((chunk for chunk in waiting[number] if chunk.height), None)
            if chunk is None:
                del waiting[number]
            else:
                heads[number] = chunk
        if not heads:
            return
        tagged = [head.with_columns(pl.lit(number, pl.Int32).alias(_STREAM)) for number, head in heads.items()]
        rows = pl.concat(tagged).sort(*order, maintain_order=True, nulls_last=True)
        # Up to here no stream can have anything to insert: it is the last row of the head that ends first.
        ends = rows.with_row_index("__end").group_by(_STREAM).agg(pl.col("__end").last())
        end = ends["__end"].min()
        assert isinstance(end, int)
        yield rows.head(end + 1).drop(_STREAM)
        rest = rows.slice(end + 1).partition_by(_STREAM, maintain_order=True, include_key=False, as_dict=True)
        heads = {int(number): part for (number,), part in rest.items()}
