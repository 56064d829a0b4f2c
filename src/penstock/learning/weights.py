"""What a model has learned: NumPy arrays by name, and of keyed parts the rows of those keys that are at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from penstock.errors import unknown

Array: TypeAlias = NDArray[Any]


class Weights(Mapping[str, Array]):
    """Arrays by name, to be read. Row `n` of a keyed part's array belongs to the key at place `n` of `keys[part]`.

    >>> weights = Weights({"bias": np.array([0.5]), "user": np.eye(2)}, {"user": pl.Series(["ann", "bob"])})
    >>> weights["user"][weights.at("user", pl.Series(["bob", "bob", "ann"]))].tolist()
    [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]]
    """

    def __init__(self, arrays: Mapping[str, Array], keys: Mapping[str, pl.Series] | None = None) -> None:
        self._arrays = {name: _read_only(array) for name, array in arrays.items()}
        self.keys_of: dict[str, pl.Series] = dict(keys or {})

    def __getitem__(self, name: str) -> Array:
        if name not in self._arrays:
            raise unknown("array of the model", name, self._arrays)
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def at(self, part: str, values: pl.Series) -> Array:
        """The places of keys in the array of a keyed part."""
        if part not in self.keys_of:
            raise unknown("keyed part", part, self.keys_of)
        keys = self.keys_of[part]
        known = pl.DataFrame({"key": keys, "place": np.arange(len(keys))})
        wanted = pl.DataFrame({"key": values.cast(keys.dtype)})
        positions = wanted.join(known, on="key", how="left", maintain_order="left")["place"]
        if positions.null_count():
            lacking = values.filter(positions.is_null())[0]
            raise KeyError(f"the part '{part}' has no {lacking!r} loaded: only keys of the current rows are available")
        return positions.to_numpy()

    def only(self, keys: Mapping[str, pl.Series]) -> Weights:
        """The same with these keys of the keyed parts alone."""
        arrays = {name: self[name][self.at(name, keys[name])] if name in keys else self[name] for name in self}
        return Weights(arrays, {**self.keys_of, **keys})

    def changed(self, arrays: Mapping[str, Array]) -> Weights:
        """The same with other values of some arrays."""
        return Weights({**self._arrays, **arrays}, self.keys_of)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {'×'.join(map(str, array.shape))}" for name, array in self._arrays.items())
        return f"Weights({shapes})"


def _read_only(array: Array) -> Array:
    """An array that nobody writes to by mistake: the same one is predicted and learned with."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
