"""Joins two streams whose rows all have one key, and prints by how much the process grew: `hot_key.py ROWS CHUNKED`.

It is a process of its own, because memory is measured by its highest use.
"""

from __future__ import annotations

import sys
import tempfile

import polars as pl

import penstock as ps
from penstock.kernel.operators.base import OperatorTime
from penstock.kernel.operators.join import JoinStep
from penstock.model.join import join_behind
from penstock.model.time import SECOND
from penstock.state.step_output import OutputWriter
from tests.kernel.rows_in_memory import RowsInMemory
from tests.peak_memory import peak_memory

START = 1_000_000 * SECOND
CANDIDATES = 1 << 16


def side(rows: int, source: int, columns: dict[str, pl.Expr]) -> pl.DataFrame:
    frame = pl.select(pl.int_range(rows, dtype=pl.Int64).alias("__offset"))
    return frame.select(
        pl.lit(START).alias("__at"), pl.lit(source, pl.Int32).alias("__source"),
        pl.lit(0, pl.Int32).alias("__partition"), "__offset", pl.lit(1, pl.Int8).alias("__sign"),
        pl.lit(7, pl.Int64).alias("k:0"), *(column.alias(f"c:{name}") for name, column in columns.items()),
    )  # fmt: skip


def main(rows: int, chunked: bool) -> None:
    late = ps.bounded("5 seconds", idle=None)
    time = {"watermark": late, "max_ahead": None}
    left = ps.stream("l", schema="k bigint, v bigint, at timestamp", event_time="at", **time)
    right = ps.stream("r", schema="id bigint, w bigint, seen timestamp", event_time="seen", **time)
    join = join_behind(left.join(right, on="k = id", within=("-1 second", "1 second")))
    assert join is not None
    step = JoinStep(join, CANDIDATES)
    state = {name: RowsInMemory(kind) for name, kind in step.kinds.items()}
    offset, at = pl.col("__offset"), pl.lit(START).cast(pl.Datetime("us", "UTC"))
    sides = [
        side(rows, 0, {"k": pl.lit(7, pl.Int64), "v": offset, "at": at}),
        side(rows, 1, {"id": pl.lit(7, pl.Int64), "w": offset, "seen": at}),
    ]
    step.step([one.head(2) for one in sides], state, OperatorTime(0, 0, START))  # loads what a step needs
    before = peak_memory()
    with tempfile.TemporaryDirectory() as root, OutputWriter(root, "hot", many=CANDIDATES) as output:
        stepped = step.step(sides, state, OperatorTime(0, 0, START), output.add if chunked else None)
        given = output.close(stepped.rows, stepped.order)
        assert sum(chunk.height for chunk in given.chunks()) == given.count == rows * rows
    print(peak_memory() - before)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] == "chunked")
