"""Models that learn on a stream: a class with what it begins with, how it predicts, learns and merges.

    class Mean(ps.Model):
        def initial(self):
            return {"sum": np.zeros(1), "n": np.zeros(1)}

        def predict(self, model, rows):
            guess = model["sum"][0] / max(model["n"][0], 1.0)
            return {"prediction": np.full(rows.height, guess), "loss": (rows["y"].to_numpy() - guess) ** 2}

        def learn(self, model, rows):
            return {"sum": rows["y"].sum(), "n": rows.height}

        def merge(self, model, updates):
            return summed(model, updates)

`predict` and `learn` run in Spark's tasks, each on its part of an epoch's rows; `merge` runs on the driver. They must
decide by their arguments alone: an epoch that comes again after a failure must do the same again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import polars as pl

from penstock.learning.merging import Update, averaged
from penstock.learning.weights import Array, Weights


class Model:
    """The base class of models. `output` are the columns that `predict` returns for each row.

    `keyed` names the parts of the model that have a row for each value of a column: `{"user": "user_id"}`. Of those
    only the keys that an epoch's rows have are read and written, so they may be more than fit into memory.
    """

    output: ClassVar[str] = "prediction double, loss double"
    keyed: Mapping[str, str] = {}

    def initial(self) -> Mapping[str, Array]:
        """The arrays of version 0, but for the keyed parts."""
        return {}

    def fresh(self, part: str, keys: pl.Series) -> Array:
        """The rows of a keyed part for keys that are new: the same for a key whenever it comes (`spread`)."""
        raise NotImplementedError(f"{type(self).__name__} has a keyed part '{part}' and no fresh(self, part, keys)")

    def predict(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any] | pl.DataFrame:
        """The columns of the output for these rows, by the version before the epoch."""
        raise NotImplementedError

    def learn(self, model: Weights, rows: pl.DataFrame) -> Mapping[str, Any]:
        """Learns from rows: returns new values of the arrays, or any update that `merge` takes."""
        raise NotImplementedError

    def merge(self, model: Weights, updates: Sequence[Update]) -> Mapping[str, Any]:
        """The new values, from the updates of an epoch in the order of its parts."""
        return averaged(model, updates)
