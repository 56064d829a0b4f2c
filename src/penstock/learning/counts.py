"""The share of successes of each key: what a bandit looks at, and the simplest model that learns key by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock.learning.merging import Update, summed
from penstock.learning.model import Model
from penstock.learning.weights import Array, Weights


@dataclass(frozen=True)
class Rates(Model):
    """How often the `label` of a key is 1 and not 0. A key begins with `tries` tries, of which `share` were successes.

    Tries and successes are counted, so it does not matter how the epochs were cut.
    """

    key: str
    label: str
    share: float = 0.5
    tries: float = 2.0

    @property
    def keyed(self) -> Mapping[str, str]:  # type: ignore[override]
        return {"key": self.key}

    def fresh(self, part: str, keys: pl.Series) -> Array:
        return np.zeros((len(keys), 2), dtype=np.int64)

    def predict(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        counted = model["key"][model.at("key", rows[self.key])]
        guess = (counted[:, 1] + self.share * self.tries) / (counted[:, 0] + self.tries)
        label = rows[self.label].cast(pl.Float64)
        return {"prediction": guess, "loss": (pl.Series(guess) - label) ** 2}

    def learn(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        at, label = model.at("key", rows[self.key]), rows[self.label].cast(pl.Int64)
        counts = np.zeros_like(model["key"])
        np.add.at(counts, at, np.stack([label.is_not_null().to_numpy(), label.fill_null(0).to_numpy()], axis=1))
        return {"key": counts}

    def merge(self, model: Weights, updates: Sequence[Update]) -> Mapping[str, Any]:
        return summed(model, updates)
