"""One part of an epoch's rows: predicted by the version before the epoch, then learned from.

It runs in Spark's tasks and, the same, in the reference. A row on which the model fails, or that makes a number of it
too large, is found by halves and is a dead letter; the others go on as if it had not come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
import polars as pl

from penstock.kernel.expressions import dtype
from penstock.learning.definition import LEARNS, VERSION, Learning
from penstock.learning.errors import LearningError, Misfit, one_line
from penstock.learning.merging import Update
from penstock.learning.weights import Weights

#: The order of the rows of a part: as they were committed, and then by their places in the logs.
ORDER: Final = ("__commit", "__stream", "__partition", "__offset")
#: How many neighbours in a log go to the same part, where no column says to which.
BLOCK: Final = 1024
#: A part with more dead letters than this stops its stream: then it is the model that is wrong.
MOST_CULPRITS: Final = 100
#: A row that makes a number of the model larger than this is not a row to learn from.
LARGEST: Final = 1e100
_NUMBER: Final = "__number"


@dataclass(frozen=True)
class PartResult:
    """What a part came to: rows of the stream, dead letters (with `__reason`), and what was learned, if anything."""

    rows: pl.DataFrame
    dead: pl.DataFrame
    update: Update | None


def dealt(learning: Learning, rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Rows by the part that they belong to. It depends on nothing but the row itself."""
    if learning.by is None:
        numbers = (pl.col("__partition").cast(pl.Int64) + pl.col("__offset") // BLOCK) % learning.partitions
        rows = rows.with_columns(numbers.cast(pl.Int32).alias("__part"))
    else:
        text = pl.col(learning.by).cast(pl.String).fill_null("")
        values = rows.select(text.alias("__by")).unique()
        parts = [crc32(value.encode()) % learning.partitions for value in values["__by"]]
        known = values.with_columns(pl.Series("__part", parts, dtype=pl.Int32))
        rows = rows.with_columns(text.alias("__by")).join(known, on="__by").drop("__by")
    for (number,), part in rows.partition_by("__part", include_key=False, as_dict=True).items():
        yield int(number), part


def keys_in(learning: Learning, rows: pl.DataFrame) -> dict[str, pl.Series]:
    """The keys of the keyed parts that rows have, in order."""
    return {part: rows[column].drop_nulls().unique().sort() for part, column in learning.keyed.items()}


def work(learning: Learning, weights: Weights, version: int, rows: pl.DataFrame) -> PartResult:
    """Predicts the rows of a part, and then learns from those that it is to learn from."""
    scalars = [name for name, kind in learning.event if not kind.startswith("array<")]  # a union may give a row twice
    rows = rows.sort(*ORDER, *scalars).with_row_index(_NUMBER)
    lacking = _lacking(learning, rows)
    rows = _without(rows, lacking)
    weights = weights.only(keys_in(learning, rows))

    def predict(some: pl.DataFrame) -> pl.DataFrame:
        return predicted(learning, weights, some)

    rows, predictions, unpredicted = _without_culprits(learning, "predict", predict, rows)
    predictions = predictions.with_columns(rows[_NUMBER])
    update, unlearned = _learned(learning, weights, rows.filter(pl.col(LEARNS)) if LEARNS in rows.columns else rows)
    rows, predictions = _without(rows, unlearned), _without(predictions, unlearned)
    out = pl.concat([rows.select(learning.give), predictions.drop(_NUMBER)], how="horizontal")
    dead = pl.concat([lacking, unpredicted, unlearned])
    return PartResult(out.with_columns(pl.lit(version, pl.Int64).alias(VERSION)), dead, update)


def _without(rows: pl.DataFrame, dead: pl.DataFrame) -> pl.DataFrame:
    return rows.join(dead, on=_NUMBER, how="anti", maintain_order="left") if dead.height else rows


def predicted(learning: Learning, weights: Weights, rows: pl.DataFrame) -> pl.DataFrame:
    """The columns of the model's output for rows of events."""
    output = learning.model.predict(weights, rows.select(learning.event.names))
    frame = output if isinstance(output, pl.DataFrame) else pl.DataFrame(dict(output))
    for name in learning.output.names:
        if name not in frame.columns:
            raise Misfit(f"{learning.who} predicts no column '{name}'", detail=f"it gave: {', '.join(frame.columns)}")
    if frame.height != rows.height:
        raise Misfit(f"{learning.who} predicts {frame.height} rows for {rows.height} rows of input")
    return frame.select(pl.col(name).cast(dtype(kind)) for name, kind in learning.output)


def _learned(learning: Learning, weights: Weights, rows: pl.DataFrame) -> tuple[Update | None, pl.DataFrame]:
    """What is learned from rows, and those that cannot be learned from."""
    dead = rows.clear().with_columns(pl.lit(None, pl.String).alias("__reason"))
    if not rows.height:
        return None, dead
    own_weights = weights.only(keys_in(learning, rows))

    def learn(some: pl.DataFrame) -> Mapping[str, Any]:
        with np.errstate(all="ignore"):  # what is not finite is reported below
            arrays = dict(learning.model.learn(own_weights, some.select(learning.event.names)))
        for name, array in arrays.items():
            values = np.asarray(array)
            if values.dtype.kind == "f" and not (np.abs(values) <= LARGEST).all():
                raise LearningError(f"it makes '{name}' larger than {LARGEST:g}, or NaN")
        return arrays

    rows, update, dead = _without_culprits(learning, "learn", learn, rows)
    if not rows.height:
        return None, dead
    counts = {
        part: np.bincount(own_weights.at(part, rows[column]), minlength=len(own_weights.keys_of[part]))
        for part, column in learning.keyed.items()
    }
    return Update(update, rows.height, {part: own_weights.keys_of[part] for part in learning.keyed}, counts), dead


def _lacking(learning: Learning, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows without a key of a keyed part."""
    reasons = [
        pl.when(pl.col(column).is_null()).then(pl.lit(f"'{column}', the key of the part '{part}', is null"))
        for part, column in learning.keyed.items()
    ]
    reason = pl.coalesce(*reasons) if reasons else pl.lit(None, pl.String)
    return rows.with_columns(reason.cast(pl.String).alias("__reason")).filter(pl.col("__reason").is_not_null())


def _without_culprits(
    learning: Learning, method: str, call: Callable[[pl.DataFrame], Any], rows: pl.DataFrame
) -> tuple[pl.DataFrame, Any, pl.DataFrame]:
    """What a method of the model gives for rows, without those that it fails on; and those, with the reason."""
    reason = pl.lit(None, pl.String).alias("__reason")
    try:
        return rows, call(rows), rows.clear().with_columns(reason)
    except Misfit:
        raise
    except Exception as error:
        first = error
    culprits: dict[int, str] = {}
    _search(learning, method, call, rows, 0, first, culprits)
    number = pl.int_range(pl.len(), dtype=pl.Int64)
    good = rows.filter(~number.is_in(list(culprits)))
    dead = rows[sorted(culprits)].with_columns(
        pl.Series("__reason", [culprits[at] for at in sorted(culprits)], dtype=pl.String)
    )
    try:
        return good, call(good), dead
    except Exception as error:
        raise _given_up(learning, method, error, "on rows that it accepts one by one") from error


def _search(
    learning: Learning, method: str, call: Callable[[pl.DataFrame], Any], rows: pl.DataFrame, first: int,
    error: Exception, culprits: dict[int, str],
) -> None:  # fmt: skip
    """Notes the rows on which a method fails, given that it fails on all of these."""
    if rows.height <= 1:
        if not rows.height or len(culprits) >= MOST_CULPRITS:
            many = f"on more than {MOST_CULPRITS} rows of one part" if rows.height else "without any row"
            raise _given_up(learning, method, error, many) from error
        culprits[first] = f"{learning.who} failed in {method}: {_short(error)}"
        return
    middle = rows.height // 2
    for start, half in ((first, rows[:middle]), (first + middle, rows[middle:])):
        try:
            call(half)
        except Exception as again:
            _search(learning, method, call, half, start, again, culprits)


def _given_up(learning: Learning, method: str, error: BaseException, where: str) -> LearningError:
    return LearningError(
        f"{learning.who} fails in {method} {where}: {_short(error)}",
        hint=f"correct {method}, or guard it against such rows; if numbers grow without limit, learn more slowly",
    )


def _short(error: BaseException) -> str:
    return error.message if isinstance(error, LearningError) else one_line(error)
