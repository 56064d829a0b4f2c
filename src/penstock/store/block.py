"""A block: the panes of one view in one commit, as an Arrow stream.

A view's keys are columns `k:name`, its values `v:name`, in their own types; `start` and `end` are instants, or numbers
of elements in count windows. The rows of a flow without state have values only.

>>> frame = pl.DataFrame({"v:n": [1, 2], "kind": ["insert", "retract"]})
>>> Block(7, 8, 3, encoded(frame)).panes.select("id", "commit", "v:n", "kind").rows()
[(7, 3, 1, 'insert'), (8, 3, 2, 'retract')]
"""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from penstock.kernel.columns import END, START
from penstock.model.time import BEGINNING
from penstock.model.time import END as END_OF_TIME
from penstock.state.pane_file import is_reference, read_block
from penstock.store.present import json_of

if TYPE_CHECKING:
    from penstock.kernel.plan import Plan

#: The prefixes of keys and of values among the columns of a block.
KEY, VALUE = "k:", "v:"
#: The most panes in a block, so that a reader can take a part of a large commit.
LARGEST: Final = 10_000
#: A block of fewer panes is compressed as a whole: most of its bytes are the schema.
_FEW: Final = 64


@dataclass(frozen=True)
class Head:
    """Which panes a block has: those from `first` to `last`, of one commit."""

    first: int
    last: int
    commit: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Block(Head):
    """Panes of one view in one commit: as bytes, or a reference to files beside the segments, in the folder `root`."""

    data: bytes
    root: str = field(default="", kw_only=True)

    @property
    def panes(self) -> pl.DataFrame:
        """The panes with all that tells one from another: `id`, `commit`, `kind`, `timing`, `index`, `final`."""
        if "_panes" not in self.__dict__:  # a cached_property has one lock for all blocks in Python 3.11
            self.__dict__["_panes"] = self._decoded()
        panes: pl.DataFrame = self.__dict__["_panes"]
        return panes

    def _decoded(self) -> pl.DataFrame:
        frame = read_block(self.root, self.data, KEY) if is_reference(self.data) else _unpacked(self.data)
        ids = pl.int_range(self.first, self.last + 1, dtype=pl.Int64, eager=True).alias("id")
        frame = frame.hstack([ids, _repeated("commit", self.commit, frame.height)])
        if "timing" in frame.columns:
            return frame
        constant: dict[str, int | str | bool] = {
            "start": BEGINNING,
            "end": END_OF_TIME,
            "timing": "row",
            "index": 0,
            "final": True,
        }
        return frame.hstack([_repeated(name, value, frame.height) for name, value in constant.items()])


def _unpacked(data: bytes) -> pl.DataFrame:
    return pl.read_ipc_stream(data if data[:1] == b"\xff" else zlib.decompress(data))


def _repeated(name: str, value: int | str | bool, count: int) -> pl.Series:
    """The same value repeated; without Polars' planner, which costs more than small blocks do."""
    return pl.Series(name, [value]).new_from_index(0, count)


def encoded(panes: pl.DataFrame) -> bytes:
    """Panes as the bytes of a block."""
    few = panes.height < _FEW
    stream = io.BytesIO()
    panes.write_ipc_stream(stream, compression="uncompressed" if few else "zstd")
    return zlib.compress(stream.getvalue(), 1) if few else stream.getvalue()


def view_panes(plan: Plan, panes: pl.DataFrame) -> pl.DataFrame:
    """The kernel's panes of a view, as a block has them."""
    return pl.DataFrame(
        [
            *(panes[name].alias(KEY + name) for name in plan.keys),
            panes[START].alias("start"),
            panes[END].alias("end"),
            *(panes[name].alias(VALUE + name) for name in plan.values),
            _kind(panes["__insert"]),
            panes["__timing"].alias("timing"),
            panes["__index"].alias("index"),
            panes["__final"].alias("final"),
        ]
    )


def flow_panes(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of a flow without state, as a block has them: each is a pane of no window, and final."""
    columns = [name for name in rows.columns if name.startswith("c:")]
    return pl.DataFrame([*(rows[name].alias(VALUE + name[2:]) for name in columns), _kind(rows["__sign"] > 0)])


def _kind(insert: pl.Series) -> pl.Series:
    kinds = [_repeated("kind", kind, len(insert)) for kind in ("insert", "retract")]
    return kinds[0].zip_with(insert, kinds[1])


def json_panes(panes: pl.DataFrame) -> pl.DataFrame:
    """Panes of a block with `key` and `values` as JSON objects in the place of their columns."""
    if "values" in panes.columns:
        return panes
    named = {KEY: "key", VALUE: "values"}
    columns: dict[str, list[pl.Expr]] = {KEY: [], VALUE: []}
    for name in panes.columns:
        if name[:2] in columns:
            columns[name[:2]].append(pl.col(name).alias(name[2:]))
    texts = [
        json_of(panes.select(columns[prefix])).alias(name)
        if columns[prefix]
        else pl.repeat("{}", panes.height, dtype=pl.String, eager=True).alias(name)
        for prefix, name in named.items()
    ]
    return panes.select(name for name in panes.columns if name[:2] not in columns).with_columns(texts)
