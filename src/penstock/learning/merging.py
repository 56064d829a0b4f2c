"""What the parts of an epoch have learned, made one: new values are averaged, changes are summed.

Both go through the updates in the order of the parts, so that sums of floats are the same each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from penstock.learning.weights import Array, Weights


@dataclass(frozen=True)
class Update:
    """What `learn` gave for the rows of one part of an epoch: `update["name"]`.

    `keys` are those of the keyed parts that it saw, in the order of the arrays; `counts`: how many rows each one had.
    """

    arrays: Mapping[str, Any]
    rows: int
    keys: Mapping[str, pl.Series] = field(default_factory=dict)
    counts: Mapping[str, Array] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.arrays[name]


def averaged(model: Weights, updates: Sequence[Update]) -> dict[str, Array]:
    """New values, averaged by the rows that they were learned from; what one part alone has learned is taken as it is.

    >>> model = Weights({"w": np.zeros(1)})
    >>> averaged(model, [Update({"w": np.array([4.0])}, 1), Update({"w": np.array([8.0])}, 3)])["w"].tolist()
    [7.0]
    """
    arrays: dict[str, Array] = {}
    for name, own_updates in _by_array(model, updates):
        if name in model.keys_of:
            arrays[name] = _averaged_rows(model, name, own_updates)
        elif len(own_updates) == 1:
            arrays[name] = np.asarray(own_updates[0][name])
        else:
            rows, total = sum(update.rows for update in own_updates), np.zeros(model[name].shape)
            for update in own_updates:
                total = total + np.asarray(update[name]) * (update.rows / rows)
            arrays[name] = total
    return arrays


def _averaged_rows(model: Weights, name: str, updates: Sequence[Update]) -> Array:
    """The same, key by key."""
    merged_rows, total = np.array(model[name], dtype=float), np.zeros(model[name].shape)
    weight, parts = np.zeros(len(merged_rows)), np.zeros(len(merged_rows), dtype=int)
    for update in updates:
        seen = update.counts[name] > 0
        at, count = model.at(name, update.keys[name])[seen], update.counts[name][seen]
        merged_rows[at] = np.asarray(update[name])[seen]
        total[at] += merged_rows[at] * _beside(count, merged_rows)
        weight[at] += count
        parts[at] += 1
    several = parts > 1
    merged_rows[several] = total[several] / _beside(weight[several], merged_rows)
    return merged_rows


def summed(model: Weights, updates: Sequence[Update]) -> dict[str, Array]:
    """Changes, added to what was there. With whole numbers, the result is the same however the epochs were cut.

    >>> model = Weights({"n": np.array([5])})
    >>> summed(model, [Update({"n": np.array([1])}, 1), Update({"n": np.array([2])}, 2)])["n"].tolist()
    [8]
    """
    arrays: dict[str, Array] = {}
    for name, own_updates in _by_array(model, updates):
        total = np.array(model[name])
        for update in own_updates:
            if name in model.keys_of:
                total[model.at(name, update.keys[name])] += update[name]
            else:
                total = total + np.asarray(update[name])
        arrays[name] = total
    return arrays


def _by_array(model: Weights, updates: Sequence[Update]) -> list[tuple[str, list[Update]]]:
    by_name = ((name, [update for update in updates if name in update.arrays]) for name in model)
    return [(name, own_updates) for name, own_updates in by_name if own_updates]


def _beside(column: Array, array: Array) -> Array:
    """A number a row, in a shape that goes with the rows of an array."""
    return column.reshape(-1, *(1 for _ in array.shape[1:]))
