"""Events made up as they are read: a seeded function of their number, at a rate, with disorder and duplicates to order.

The same number always gives the same event, so a replay after a failure reads the same events again. After a pause the
events of the pause come too, some seconds of them an epoch, until the generator has caught up with the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from penstock.errors import DefinitionError
from penstock.model.naming import function_name
from penstock.model.time import Duration, not_negative, show_duration
from penstock.model.types import Schema
from penstock.sources.base import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Chance:
    """Random numbers that depend on the events' numbers: the same event gets the same ones in every replay."""

    def __init__(self, numbers: np.ndarray, seed: int) -> None:
        self._numbers, self._seed, self._drawn = numbers, seed, 16

    def uniform(self) -> np.ndarray:
        """A number in [0, 1) for each event; another one at each call."""
        self._drawn += 1
        return _uniform(self._numbers, self._seed, self._drawn)


Rows = Callable[[np.ndarray, np.ndarray, Chance], dict[str, object]]


@dataclass(frozen=True, repr=False)
class Generator(Source):
    """`function(numbers, times, chance)` gives the columns of the events with these numbers and times (in µs)."""

    function: Rows = field(compare=False)
    identity: str
    rate: int
    seed: int = 0
    disorder: Duration = 0
    duplicates: float = 0.0
    late: float = 0.0
    lateness: Duration = 0

    def read(self, spark: SparkSession, schema: Schema, columns: Sequence[str]) -> DataFrame:
        from penstock.sources.ticks import Ticks

        spark.dataSource.register(Ticks)
        return spark.readStream.format(Ticks.name()).option("rate", self.rate).load()

    def decode(self, rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
        """The events that the numbers stand for. Events of one block of numbers share one seeded source of chance."""
        numbers = rows["__number"].to_numpy()
        times = rows["__tick"].to_physical().to_numpy()
        events = self.make(numbers, times)
        return events.select(pl.col(name).cast(_dtype(kind)) for name, kind in schema)

    def make(self, numbers: np.ndarray, times: np.ndarray) -> pl.DataFrame:
        """The events with these numbers. Each depends on its number and time only, not on its neighbours."""
        shifted = numbers.copy()
        if self.duplicates:
            again = _uniform(numbers, self.seed, 1) < self.duplicates
            shifted = np.where(again & (numbers > 0), numbers - 1, numbers)
        at = times
        if self.disorder:
            at = at - (_uniform(shifted, self.seed, 2) * self.disorder).astype(np.int64)
        if self.late:
            late = _uniform(shifted, self.seed, 3) < self.late
            at = np.where(late, at - self.lateness, at)
        columns = self.function(shifted, at, Chance(shifted, self.seed))
        return pl.DataFrame(columns)

    def __repr__(self) -> str:
        arguments = [self.identity, f"rate={self.rate}"]
        arguments += [f"seed={self.seed}"] if self.seed else []
        arguments += [f"disorder={show_duration(self.disorder)!r}"] if self.disorder else []
        arguments += [f"duplicates={self.duplicates}"] if self.duplicates else []
        arguments += [f"late={self.late}, lateness={show_duration(self.lateness)!r}"] if self.late else []
        return f"ps.generator({', '.join(arguments)})"


def _uniform(numbers: np.ndarray, seed: int, stream: int) -> np.ndarray:
    """A hash of each number as a fraction: splitmix64, which needs no state."""
    with np.errstate(over="ignore"):
        x = numbers.astype(np.uint64) + np.uint64((seed * 64 + stream + 1) * 0x9E3779B97F4A7C15 % (1 << 64))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) / float(1 << 53)


def _dtype(kind: str) -> pl.DataType:
    from penstock.kernel.expressions import dtype

    return dtype(kind)


def generator(
    function: Rows,
    *,
    rate: int,
    seed: int = 0,
    disorder: str | timedelta = "0 seconds",
    duplicates: float = 0.0,
    late: float = 0.0,
    lateness: str | timedelta = "0 seconds",
) -> Generator:
    """Generated events: `function(numbers, times, chance)` gives a dictionary of columns; `rate` events a second.

    `disorder` is the largest amount by which event times are set back; the share `late` of the events goes back by
    `lateness` more, and the share `duplicates` repeats the event before. `chance.uniform()` gives a random number for
    each event, the same in every replay.
    """
    if rate < 1:
        raise DefinitionError(f"the rate of a generator must be above zero, and is {rate}")
    for what, share in (("duplicates", duplicates), ("late", late)):
        if not 0 <= share <= 1:
            raise DefinitionError(f"{what} must lie between 0 and 1, and is {share}")
    return Generator(
        function,
        function_name(function),
        rate,
        seed,
        not_negative(disorder, "disorder"),
        duplicates,
        late,
        not_negative(lateness, "lateness"),
    )
