"""The rows of a large table, in files sorted by key that are read in place.

A file is Arrow, uncompressed, and mapped into memory: all processes of a machine share its pages, and only the pages
with a wanted key are read. So the cost of an epoch depends on its own keys, not on the size of the table. Rows are
sorted by one number: an integer key is its own number, anything else is hashed. A look-up also returns rows of other
keys with the same number; the join compares the keys themselves.

>>> numbers(pl.DataFrame({"id": [3, 1]})).to_list()
[3, 1]
>>> numbers(pl.DataFrame({"name": ["ann", "bob", "ann"]})).n_unique()
2
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.kernel.hashing import BASE, Array, mixed, text_hashes
from penstock.process_state import RecentlyUsed

#: The folder of a version that holds these files; Spark and Polars leave it out when they read the version.
FOLDER: Final = "_lookup"
#: The number that rows are sorted by.
NUMBER: Final = "__number"
#: How many versions a process has mapped at most.
_MOST_OPEN: Final = 16


def numbers(keys: pl.DataFrame) -> pl.Series:
    """A number for each row of keys, none of them null. The same keys always have the same number, in every process."""
    parts = [_number(keys[name]) for name in keys.columns]
    if len(parts) == 1:
        return pl.Series(NUMBER, parts[0].view(np.int64))
    hashes = np.zeros(keys.height, np.uint64)
    for part in parts:
        hashes = mixed(hashes * np.uint64(BASE) + part)
    return pl.Series(NUMBER, hashes.view(np.int64))


def write(rows: pl.DataFrame, path: Path, batch: int = 1 << 20) -> None:
    """Rows with their `NUMBER`, sorted by it, `batch` rows at a time."""
    rows.sort(NUMBER).write_ipc(path, compat_level=pl.CompatLevel.oldest(), record_batch_size=batch)


class Lookup:
    """The files of a version, mapped into this process."""

    def __init__(self, folder: str) -> None:
        self._schema: pa.Schema | None = None
        self._runs: list[_Run] = []
        for path in sorted(Path(folder).glob("*.arrow")):
            file = pa.ipc.open_file(pa.memory_map(str(path)))
            self._schema = file.schema
            self._runs += [_run(batch) for number in range(file.num_record_batches)
                           if (batch := file.get_batch(number)).num_rows]  # fmt: skip

    def rows(self, wanted: pl.Series) -> pl.DataFrame:
        """The rows with these numbers."""
        numbers = np.unique(wanted.to_numpy())
        batches = [batch for run in self._runs if (batch := run.rows(numbers)) is not None]
        assert self._schema is not None
        frame = pl.from_arrow(pa.Table.from_batches(batches, self._schema))
        assert isinstance(frame, pl.DataFrame)
        return frame.drop(NUMBER)


class OpenLookups(RecentlyUsed[str, Lookup]):
    """The versions that this process has mapped, by their folders."""

    def __init__(self) -> None:
        super().__init__(_MOST_OPEN)


@dataclass(frozen=True)
class _Run:
    """A batch of a file, with the numbers of its rows."""

    numbers: Array
    first: int
    last: int
    batch: pa.RecordBatch

    def rows(self, wanted: Array) -> pa.RecordBatch | None:
        """The rows with these numbers, which are sorted."""
        in_range = wanted[np.searchsorted(wanted, self.first) : np.searchsorted(wanted, self.last, side="right")]
        begin, end = np.searchsorted(self.numbers, in_range), np.searchsorted(self.numbers, in_range, side="right")
        counts = end - begin
        total = int(counts.sum())
        if not total:
            return None
        steps = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.batch.take(pa.array(np.repeat(begin, counts) + steps))


def _run(batch: pa.RecordBatch) -> _Run:
    numbers = batch.column(NUMBER).to_numpy(zero_copy_only=True)
    return _Run(numbers, int(numbers[0]), int(numbers[-1]), batch)


def _number(key: pl.Series) -> Array:
    if key.dtype.is_integer() or key.dtype.is_temporal() or key.dtype == pl.Boolean:
        return key.to_physical().cast(pl.Int64).to_numpy().view(np.uint64)
    texts = key.bin.encode("hex") if key.dtype == pl.Binary else key.cast(pl.String)
    return text_hashes(texts)
