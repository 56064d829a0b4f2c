"""A recommender: ratings as a mean, what users and items lie above it, and factors of both (matrix factorisation).

By stochastic gradient descent in small batches, in the order of the rows. Users and items are keyed parts: only those
that an epoch has are read and written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from penstock.learning.merging import Update, averaged, summed
from penstock.learning.model import Model
from penstock.learning.spread import spread
from penstock.learning.stored import StoredModel
from penstock.learning.weights import Array, Weights


@dataclass(frozen=True)
class Factors(Model):
    """The `rating` that a `user` gives an `item`, with that number of `factors`; the loss is the squared error.

    The row of a key is its bias and then its factors. `rate` is how far a single row moves them towards what it says;
    `shrink` draws them back to nothing.
    """

    user: str
    item: str
    rating: str
    factors: int = 8
    rate: float = 0.05
    shrink: float = 0.02
    batch: int = 64

    @property
    def keyed(self) -> Mapping[str, str]:  # type: ignore[override]
        return {"user": self.user, "item": self.item}

    def initial(self) -> Mapping[str, Array]:
        return {"total": np.zeros(1), "rows": np.zeros(1)}

    def fresh(self, part: str, keys: pl.Series) -> Array:
        return np.hstack([np.zeros((len(keys), 1)), spread(keys, self.factors, 0.3, seed=part)])

    def predict(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        users = model["user"][model.at("user", rows[self.user])]
        items = model["item"][model.at("item", rows[self.item])]
        guess = _guess(_mean(model), users, items)
        rating = rows[self.rating].cast(pl.Float64)
        return {"prediction": guess, "loss": (pl.Series(guess) - rating) ** 2}

    def learn(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        rows = rows.drop_nulls(self.rating)
        ratings = rows[self.rating].cast(pl.Float64).to_numpy()
        at = {"user": model.at("user", rows[self.user]), "item": model.at("item", rows[self.item])}
        parts = {"user": model["user"].copy(), "item": model["item"].copy()}
        mean = _mean(model) if model["rows"][0] else float(ratings.mean()) if len(ratings) else 0.0
        for first in range(0, len(ratings), self.batch):
            wanted = ratings[first : first + self.batch]
            here = {part: places[first : first + self.batch] for part, places in at.items()}
            own = {part: parts[part][here[part]] for part in here}
            error = (wanted - _guess(mean, own["user"], own["item"]))[:, None]
            for part, other in (("user", "item"), ("item", "user")):
                pull = error * np.hstack([np.ones((len(wanted), 1)), own[other][:, 1:]]) - self.shrink * own[part]
                self._move(parts[part], here[part], pull)
        return {"total": ratings.sum(keepdims=True), "rows": np.array([float(len(ratings))]), **parts}

    def merge(self, model: Weights, updates: Sequence[Update]) -> Mapping[str, Any]:
        """Users and items by the rows that each part had of them; the mean of all ratings by their sum."""
        parts = [replace(one, arrays={name: one[name] for name in self.keyed}) for one in updates]
        sums = [replace(one, arrays={name: one[name] for name in ("total", "rows")}) for one in updates]
        return {**averaged(model, parts), **summed(model, sums)}

    def _move(self, rows: Array, at: Array, pull: Array) -> None:
        """Moves the rows of keys; one that comes n times as n steps towards the mean of its pulls, and never beyond."""
        keys, places, counts = np.unique(at, return_inverse=True, return_counts=True)
        total = np.zeros((len(keys), rows.shape[1]))
        np.add.at(total, places, pull)
        rows[keys] += total * ((1.0 - (1.0 - self.rate) ** counts) / counts)[:, None]

    def recommend(self, stored: StoredModel, user: str | int, count: int = 10) -> pl.DataFrame:
        """The items that a user would rate best, with the ratings, by a model that is stored. A user may be new."""
        items = stored.all_of("item")
        known = stored.rows_of("user", [user])
        own = known[user] if user in known else np.zeros(self.factors + 1)
        guess = _guess(_mean(stored.weights), own[None, :], items["item"])
        ratings = pl.DataFrame({self.item: items.keys_of["item"], "prediction": guess})
        return ratings.sort(pl.col("prediction"), self.item, descending=[True, False]).head(count)


def _mean(model: Weights) -> float:
    return float(model["total"][0] / max(model["rows"][0], 1.0))


def _guess(mean: float, users: Array, items: Array) -> Array:
    return np.asarray(mean + users[:, 0] + items[:, 0] + (users[:, 1:] * items[:, 1:]).sum(axis=1))
