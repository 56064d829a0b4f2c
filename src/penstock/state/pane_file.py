"""Pane files: where a view fires many panes in a commit, tasks write them to files, and the outbox refers to these.

A file has the panes of some shards, sorted by key: one Arrow record batch without compression, so that readers can map
it and take a part. A block of the outbox is a slice of each file. Blocks follow each other in the order of keys.

>>> reference((PaneSlice("7-state-a9.0.arrow", 20, 5),))
b'{"slices": [["7-state-a9.0.arrow", 20, 5]]}'
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.kernel.hashing import Array
from penstock.state.durable_file import DurableFile

#: The folder of such files beside the segments.
FOLDER: Final = "panes"
#: To cut files into blocks, keys at this distance are compared first.
STRIDE: Final = 64
_HINT: Final = "restore a savepoint (penstock savepoint restore), or drop the sinks that need it"


class PaneFileError(PenstockError):
    """A file of panes cannot be read."""


@dataclass(frozen=True)
class PaneFile:
    """What is listed of a file."""

    path: str
    rows: int
    size: int

    def text(self) -> str:
        """As JSON, for the way from a task to the driver."""
        return json.dumps(asdict(self))

    @classmethod
    def parsed(cls, text: str | bytes) -> PaneFile:
        return cls(**json.loads(text))


@dataclass(frozen=True)
class PaneSlice:
    """A number of panes of a file, from one on."""

    path: str
    first: int
    rows: int


@dataclass(frozen=True)
class FiledPanes:
    """The panes of a view in one commit that are in files, and which slices of the files make a block."""

    files: tuple[PaneFile, ...] = ()
    blocks: tuple[tuple[PaneSlice, ...], ...] = ()


NOTHING_FILED: Final = FiledPanes()


# writing


def write_panes(root: str, name: str, panes: pl.DataFrame) -> PaneFile:
    """Writes panes, which are sorted by key, and forces the file to disk."""
    path = f"{FOLDER}/{name}.arrow"
    sink = pa.BufferOutputStream()
    table = panes.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    data = sink.getvalue()
    with DurableFile(Path(root) / path) as file:
        file.write(memoryview(data))
        file.close()
    return PaneFile(path, panes.height, data.size)


def filed(root: str, files: Sequence[PaneFile], keys: Sequence[str], largest: int, stride: int = STRIDE) -> FiledPanes:
    """Cuts the panes of files into blocks of about `largest` panes at most, in the order of these keys.

    Panes of a key are in one file. A sample of all keys gives the bounds of blocks. Where a bound lies in a file is
    searched between two keys of the sample, so that only these and few other keys are in memory.
    """
    files = [file for file in files if file.rows]
    if len(files) < 2:
        cuts = [[*range(0, file.rows, largest), file.rows] for file in files]
    else:
        cuts = _cuts([_Keys(root, file, keys) for file in files], largest, stride)
    blocks = [
        tuple(
            PaneSlice(file.path, own[number], own[number + 1] - own[number])
            for file, own in zip(files, cuts, strict=True)
            if own[number + 1] > own[number]
        )
        for number in range(len(cuts[0]) - 1 if cuts else 0)
    ]
    return FiledPanes(tuple(files), tuple(block for block in blocks if block))


class _Keys:
    """The sorted keys of a file."""

    def __init__(self, root: str, file: PaneFile, keys: Sequence[str]) -> None:
        self.rows, self._batch = file.rows, _mapped(root, file.path).select(list(keys))

    def take(self, rows: Array) -> pl.DataFrame:
        """Some keys, with the rows that they are in."""
        frame = pl.from_arrow(self._batch.take(pa.array(rows)))
        assert isinstance(frame, pl.DataFrame)
        return frame.with_columns(pl.Series(_ROW, rows))


_FILE, _ROW, _BOUND = "__file", "__row", "__bound"


def _cuts(files: Sequence[_Keys], largest: int, stride: int) -> list[list[int]]:
    """For each file in which rows blocks begin, and at last the number of its rows."""
    samples = [
        keys.take(np.arange(0, keys.rows, stride)).with_columns(pl.lit(number).alias(_FILE))
        for number, keys in enumerate(files)
    ]
    names = [name for name in samples[0].columns if name not in (_FILE, _ROW)]
    sample = pl.concat(samples).sort(names, maintain_order=True)
    every = max(1, largest // stride - len(files))
    places = np.arange(every, sample.height, every)
    bounds = sample[places].drop(_FILE, _ROW).with_row_index(_BOUND)
    cuts = []
    for number, keys in enumerate(files):
        here = (sample[_FILE] == number).to_numpy()
        own = here[places]
        before = np.cumsum(here)[places] - own  # keys of the sample that lie before a bound
        high = np.minimum(before * stride, keys.rows)
        low = np.where(own | (before == 0), high, (before - 1) * stride + 1)
        cuts.append([0, *_searched(keys, bounds, low, high), keys.rows])
    return cuts


def _searched(keys: _Keys, bounds: pl.DataFrame, low: Array, high: Array) -> list[int]:
    """The first row whose key is not before a bound: from `low` on, or `high`."""
    ranges = [np.arange(first, last) for first, last in zip(low, high, strict=True) if first < last]
    if not ranges:
        return [int(row) for row in high]
    names = [name for name in bounds.columns if name != _BOUND]
    between = keys.take(np.unique(np.concatenate(ranges)))
    both = pl.concat([between, bounds], how="diagonal").sort(names, maintain_order=True)
    rows = both.with_columns(pl.col(_ROW).backward_fill()).drop_nulls(_BOUND).sort(_BOUND)[_ROW]
    known = rows.fill_null(keys.rows).to_numpy()
    return [int(row) for row in np.where(low < high, np.minimum(known, high), high)]


# the outbox


def reference(block: Sequence[PaneSlice]) -> bytes:
    """What the outbox has of a block: where its panes are."""
    return json.dumps({"slices": [[one.path, one.first, one.rows] for one in block]}).encode()


def is_reference(data: bytes) -> bool:
    """Whether these bytes of the outbox refer to files, and are not the panes themselves."""
    return data[:1] == b"{"


def read_block(root: str, data: bytes, key_prefix: str) -> pl.DataFrame:
    """The panes of a block, by its reference. Their keys are the columns with a prefix."""
    parts = []
    for path, first, rows in json.loads(data)["slices"]:
        part = pl.from_arrow(_mapped(root, path).slice(first, rows))
        assert isinstance(part, pl.DataFrame)
        parts.append(part)
    if len(parts) == 1:
        return parts[0]
    keys = [name for name in parts[0].columns if name.startswith(key_prefix)]
    return pl.concat(parts).sort(keys, maintain_order=True)


def check_pane_file(root: str, file: PaneFile) -> None:
    """Refuses a file that is missing, or has another length than the one that was written."""
    path = Path(root) / file.path
    size = path.stat().st_size if path.is_file() else None
    if size != file.size:
        detail = "it is missing" if size is None else f"it has {size} bytes, and {file.size} are listed"
        raise PaneFileError(f"the panes in '{path}' cannot be read", detail=detail, hint=_HINT)


def _mapped(root: str, path: str) -> pa.RecordBatch:
    try:
        with pa.memory_map(str(Path(root) / path)) as file:
            return pa.ipc.open_file(file).get_batch(0)
    except (OSError, pa.ArrowInvalid) as error:
        raise PaneFileError(
            f"the panes in '{Path(root) / path}' cannot be read", detail=str(error), hint=_HINT
        ) from error
