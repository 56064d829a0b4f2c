"""Which rows of a view a reader asks for: by key, by window, final or not.

>>> Bound("__end", ">=", (20,)).holds(np.array([0, 10]), np.array([10, 20])).tolist()
[False, True]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

import numpy as np
import polars as pl

from penstock.kernel.columns import START
from penstock.kernel.hashing import Array, hashes
from penstock.kernel.keys import canonical

#: More keys than this are not looked up one by one: all rows are read.
MOST_KEYS: Final = 10_000


@dataclass(frozen=True)
class Bound:
    """A condition on where windows start or end: `op` is one of =, <, <=, >, >=, in."""

    column: str
    op: str
    values: tuple[int, ...]

    def holds(self, starts: Array, ends: Array) -> Array:
        """For which windows the condition holds."""
        bounds = starts if self.column == START else ends
        if self.op in ("=", "in"):
            return np.isin(bounds, np.array(self.values, np.int64))
        (value,) = self.values
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[self.op]
        holds: Array = compare(bounds, value)
        return holds


@dataclass(frozen=True)
class Selection:
    """The rows for which all of this holds. `keys` has the values that a key may have; null is one of them."""

    keys: Mapping[str, pl.Series] = field(default_factory=dict)
    bounds: Sequence[Bound] = ()
    final: bool | None = None

    def windows(self, starts: Array, ends: Array) -> Array:
        """Which windows may have such rows."""
        holds = np.ones(len(ends), bool)
        for bound in self.bounds:
            holds &= bound.holds(starts, ends)
        return holds

    def key_hashes(self, names: Sequence[str]) -> Array | None:
        """The hashes of all keys that are asked for; None if some key may have any value, or if there are too many."""
        if not names or any(name not in self.keys for name in names):
            return None
        count = int(np.prod([len(self.keys[name]) for name in names]))
        if count > MOST_KEYS:
            return None
        places = list(product(*(range(len(self.keys[name])) for name in names)))
        numbers = np.array(places, np.int64).reshape(count, len(names))
        frame = pl.DataFrame([self.keys[name].gather(numbers[:, at]).alias(name) for at, name in enumerate(names)])
        return np.unique(hashes(frame))

    def has_key(self, rows: pl.DataFrame) -> Array:
        """Which rows have one of the keys."""
        holds = np.ones(rows.height, bool)
        for name, values in self.keys.items():
            holds &= canonical(rows[name]).is_in(canonical(values).implode(), nulls_equal=True).to_numpy()
        return holds
