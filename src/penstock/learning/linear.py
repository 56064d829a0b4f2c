"""Linear and logistic regression by stochastic gradient descent, in small batches in the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from penstock.learning.model import Model
from penstock.learning.weights import Array, Weights


@dataclass(frozen=True)
class LinearRegression(Model):
    """A number from numbers: `features` are columns, `label` is what is to be predicted; the loss is the squared error.

    Rows lacking a feature get no prediction. Rows without a label are predicted and not learned from.
    """

    features: tuple[str, ...]
    label: str
    rate: float = 0.05
    shrink: float = 0.0
    batch: int = 32

    def initial(self) -> Mapping[str, Array]:
        return {"weights": np.zeros(len(self.features)), "bias": np.zeros(1)}

    def predict(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        guess = self._guess(model["weights"], model["bias"], self._features(rows))
        prediction = pl.Series(guess).fill_nan(None)
        label = rows[self.label].cast(pl.Float64)
        return {"prediction": prediction, "loss": pl.Series(self._loss(guess, label.to_numpy())).fill_nan(None)}

    def learn(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        rows = rows.drop_nulls([*self.features, self.label])
        features, labels = self._features(rows), rows[self.label].cast(pl.Float64).to_numpy()
        weights, bias = model["weights"].copy(), model["bias"].copy()
        for first in range(0, len(labels), self.batch):
            some, wanted = features[first : first + self.batch], labels[first : first + self.batch]
            error = self._guess(weights, bias, some) - wanted
            weights -= self.rate * (some.T @ error / len(wanted) + self.shrink * weights)
            bias -= self.rate * error.mean()
        return {"weights": weights, "bias": bias}

    def _features(self, rows: pl.DataFrame) -> Array:
        return rows.select(pl.col(self.features).cast(pl.Float64)).to_numpy()

    def _guess(self, weights: Array, bias: Array, features: Array) -> Array:
        return np.asarray(features @ weights + bias[0])

    def _loss(self, guess: Array, label: Array) -> Array:
        return (guess - label) ** 2


@dataclass(frozen=True)
class LogisticRegression(LinearRegression):
    """The probability that a label is 1 and not 0 (or true and not false); the loss is the log loss."""

    def _guess(self, weights: Array, bias: Array, features: Array) -> Array:
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(features @ weights + bias[0], -35.0, 35.0))))

    def _loss(self, guess: Array, label: Array) -> Array:
        return -np.where(np.isnan(label), np.nan, np.log(np.where(label > 0.5, guess, 1.0 - guess)))
