"""A model as it is stored: any version that is kept, its arrays, the rows of its keys, and its predictions.

>>> load("nowhere", "taste")
Traceback (most recent call last):
penstock.store.base.StoreError: there is no store in 'nowhere'
  hint: run the app first, or check the path
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import polars as pl

from penstock.errors import PenstockError, unknown
from penstock.kernel.expressions import dtype
from penstock.learning.definition import Learning
from penstock.learning.part import keys_in, predicted
from penstock.learning.versions import (
    Head,
    Recall,
    Version,
    all_keyed,
    decoded_keys,
    encoded_keys,
    head,
    in_force,
    kept,
    keyed_values,
    plain,
)
from penstock.learning.weights import Array, Weights
from penstock.store import Reader
from penstock.store.memory import REMEMBERED, memory_table

Ask: TypeAlias = Callable[[str, Sequence[object]], pl.DataFrame]
#: How many keys are asked for at a time.
_KEYS = 500


@dataclass(frozen=True)
class _Recalled:
    """What a stream remembers, at one moment of a store."""

    ask: Ask
    table: str

    def of(self, part: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        wanted, values = sorted(set(keys)), dict[bytes, bytes]()
        for first in range(0, len(wanted), _KEYS):
            some = wanted[first : first + _KEYS]
            places = ", ".join(f"?{number + 2}" for number in range(len(some)))
            sql = f"SELECT key, value FROM {self.table} WHERE part = ?1 AND key IN ({places})"
            values |= dict(self.ask(sql, [part, *some]).iter_rows())
        return values

    def all(self, part: str | None = None) -> pl.DataFrame:
        rows = self.ask(f"SELECT part, key, value FROM {self.table} WHERE part = ?1", [part])
        return rows if rows.height else pl.DataFrame(schema=REMEMBERED)


class StoredModel:
    """A model in a store: the newest version whenever it is asked, or one that stays.

    With its definition it predicts; without, it has arrays and rows of keys.
    """

    def __init__(self, reader: Reader, name: str, learning: Learning | None = None, version: int | None = None) -> None:
        self.name, self._reader, self._learning, self._version = name, reader, learning, version
        if learning is None and not reader.columns(f"__memory_{name}"):
            raise unknown("model", name, models(reader))

    @contextmanager
    def _moment(self) -> Iterator[Recall]:
        if not self._reader.columns(f"__memory_{self.name}"):  # it has learned nothing yet
            yield Nothing()
            return
        with self._reader.moment() as ask:
            yield _Recalled(ask, memory_table(self.name))

    @property
    def version(self) -> int:
        """The number of the version."""
        if self._version is not None:
            return self._version
        with self._moment() as memory:
            return head(memory).version

    @property
    def versions(self) -> list[Version]:
        """The versions that are kept, in order."""
        with self._moment() as memory:
            return kept(memory)

    @property
    def parts(self) -> list[str]:
        """The keyed parts."""
        with self._moment() as memory:
            return sorted(head(memory).keyed)

    @property
    def weights(self) -> Weights:
        """The arrays, but for the keyed parts."""
        with self._moment() as memory:
            last = head(memory)
            arrays = plain(memory, last, self._number(last))
        if arrays is None:
            arrays = {} if self._learning is None else self._learning.initial
        return Weights(arrays)

    def rows_of(self, part: str, keys: Iterable[str | int]) -> dict[str | int, Array]:
        """What keys have in a keyed part; those that were never learned are left out."""
        requested = list(keys)
        encoded = encoded_keys(pl.Series(requested))
        with self._moment() as memory:
            last = head(memory)
            self._check(memory, last, part)
            values = keyed_values(memory, last, self._number(last), part, encoded)
        return {key: values[code] for key, code in zip(requested, encoded, strict=True) if code in values}

    def all_of(self, part: str) -> Weights:
        """A keyed part whole: an array, and its keys in order."""
        with self._moment() as memory:
            last = head(memory)
            self._check(memory, last, part)
            values = all_keyed(memory, last, self._number(last), part)
        kind = "string" if self._learning is None else self._learning.event.type_of(self._learning.keyed[part])
        keys = decoded_keys(list(values), kind)
        order = keys.arg_sort().to_numpy()
        shape = last.keyed[part][1] if part in last.keyed else ()
        rows = np.array(list(values.values())).reshape(len(values), *shape)
        return Weights({part: rows[order]}, {part: keys[order]})

    def predict(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of events with what the model predicts for them; columns that they lack are null."""
        learning = self._learning
        if learning is None:
            raise PenstockError(
                f"the prediction code of the model '{self.name}' is in its app",
                hint="call run.model(…) on the running app, or load(…, learning=stream.log.learning)",
            )
        lacking = [pl.lit(None).alias(name) for name in learning.event.names if name not in rows.columns]
        types = {name: dtype(kind) for name, kind in learning.event}
        events = rows.with_columns(lacking).select(pl.col(name).cast(kind) for name, kind in types.items())
        for part, column in learning.keyed.items():
            if events[column].null_count():
                raise PenstockError(f"a row to predict has no '{column}', the key of the part '{part}'")
        with self._moment() as memory:
            model = in_force(learning, memory, keys_in(learning, events), self._number(head(memory)))
        return pl.concat([rows, predicted(learning, model, events)], how="horizontal")

    def _number(self, last: Head) -> int:
        return last.version if self._version is None else self._version

    def _check(self, memory: Recall, last: Head, part: str) -> None:
        """Refuses a version that is not kept, and a part that the model does not have."""
        plain(memory, last, self._number(last))
        known = set(last.keyed) | set(() if self._learning is None else self._learning.keyed)
        if part not in known:
            raise unknown("keyed part", part, known)

    def __repr__(self) -> str:
        return f"StoredModel({self.name!r}, version={self.version})"


class Nothing:
    """What a model remembers that has learned nothing yet."""

    def of(self, part: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        return {}

    def all(self, part: str | None = None) -> pl.DataFrame:
        return pl.DataFrame(schema=REMEMBERED)


def load(
    directory: Path | str, name: str, version: int | None = None, *, learning: Learning | None = None
) -> StoredModel:
    """A model of the app in a directory, from any process and while the app runs."""
    model = StoredModel(Reader(directory), name, learning, version)
    _ = model.weights  # a version that is not kept fails here
    return model


def models(reader: Reader) -> list[str]:
    """The models of a store, by the names of their streams."""
    sql = "SELECT name FROM __counters WHERE name LIKE '%.learned' ORDER BY name"
    return [name.removesuffix(".learned") for (name,) in reader.query(sql).iter_rows()]
