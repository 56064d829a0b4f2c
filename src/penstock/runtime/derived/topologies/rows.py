"""The rows that leave a topology, as the log of its stream has them, with its dead letters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from penstock.kernel.expressions import dtype
from penstock.model.types import Schema
from penstock.sources.base import MALFORMED, REASON
from penstock.topology.definition import SIDE, Topology, side_of

_PHYSICAL: Final = {"timestamp": pl.Int64(), "date": pl.Int32()}
_REFUSED: Final = {MALFORMED: pl.String(), REASON: pl.String()}


def rows_frame(topology: Topology, rows: Mapping[tuple[str, str], list[tuple[Any, ...]]]) -> pl.DataFrame:
    """Rows by the stream that they leave on; with several, a column says which."""
    frames = []
    for output, values in rows.items():
        frame = _frame(topology.output_schema(*output), values)
        if len(topology.outputs) > 1:
            side = side_of(output)
            frame = frame.rename({name: f"{side}_{name}" for name in frame.columns})
            frame = frame.with_columns(pl.lit(side).alias(SIDE))
        frames.append(_whole(frame, topology.schema))
    return pl.concat(frames)


def dead_frame(schema: Schema, dead: Iterable[Sequence[Any]]) -> pl.DataFrame:
    """Dead letters: the row as JSON, and the reason."""
    return _whole(pl.DataFrame(list(dead), _REFUSED, orient="row"), schema)


def _frame(schema: Schema, rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    columns = []
    for (name, kind), values in zip(schema, zip(*rows, strict=True), strict=True):
        columns.append(pl.Series(name, values, dtype=_PHYSICAL.get(kind, dtype(kind))).cast(dtype(kind)))
    return pl.DataFrame(columns)


def _whole(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    types = {**{name: dtype(kind) for name, kind in schema}, **_REFUSED}
    lacking = [pl.lit(None, kind).alias(name) for name, kind in types.items() if name not in frame.columns]
    return frame.with_columns(lacking).select(*types)
