"""The rounds of a loop on columns."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import polars as pl

from penstock.errors import RowError
from penstock.kernel.expressions import dtype
from penstock.model.loops import SIGN, FrameLoop, Iteration
from penstock.model.loops_rounds import LoopError
from penstock.model.naming import failing_rows
from penstock.model.types import Schema
from penstock.runtime.derived.loops.machine import KEPT, Machine, event_texts
from penstock.runtime.epoch.wire import pack, unpack

_KEY: Final = "__key"
_OLD: Final = "__old"


class FrameMachine(Machine):
    """Runs a body on columns. What is kept of a key is its state as JSON."""

    most_events = 500_000
    most_messages = 1_000_000

    def __init__(self, iteration: Iteration) -> None:
        super().__init__(iteration)
        assert isinstance(iteration.body, FrameLoop)
        self._body = iteration.body
        self._keys, self._state = _columns(self._body.key), _columns(self._body.state)
        self._messages, self._shown = _columns(self._body.message), _columns(iteration.shown.ddl())
        self._looked = pl.DataFrame(schema={**self._keys, _OLD: pl.Binary()})  # keys, and what was kept of them
        self._base = pl.DataFrame(schema={**self._keys, **self._state})  # the same as columns
        self._now = self._base
        self._touched = pl.DataFrame(schema=self._keys)

    @property
    def _names(self) -> list[str]:
        return list(self._keys)

    def enter(self, events: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[str, str]]]:
        refused: list[tuple[str, str]] = []
        with self._failing("enter"):
            why = self._body.refuse(events)
            if why is not None:
                checked = events.with_columns(why.alias("__why"))
                bad = checked.filter(pl.col("__why").is_not_null())
                refused = list(zip(event_texts(bad, self.iteration), bad["__why"].to_list(), strict=True))
                events = checked.filter(pl.col("__why").is_null()).drop("__why")
            return self._inbox(self._body.enter(events)), refused

    def _inbox(self, messages: pl.DataFrame) -> pl.DataFrame:
        shaped = _shaped(messages, {**self._keys, **self._messages}, "a message")
        if sum(shaped.select(self._names).null_count().row(0)):
            raise RowError(f"the loop {self.iteration.name} sends a message without a key")
        return shaped

    def together(self, inboxes: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat([pl.DataFrame(schema={**self._keys, **self._messages}), *inboxes])

    def size(self, inbox: pl.DataFrame) -> int:
        return inbox.height

    def unknown(self, inbox: pl.DataFrame) -> pl.Series:
        self._asked = inbox.select(self._names).unique().join(self._looked, on=self._names, how="anti")
        return self._asked.select(_key(self._keys))[_KEY]

    def know(self, asked: pl.Series, stored: pl.DataFrame) -> None:
        kept = stored.select(pl.col("key").alias(_KEY), pl.col("value").alias(_OLD)) if stored.height else None
        names = self._asked.with_columns(asked.alias(_KEY))
        if kept is None:
            looked = names.with_columns(pl.lit(None, pl.Binary).alias(_OLD))
        else:
            looked = names.join(kept, on=_KEY, how="left")
            there = looked.filter(pl.col(_OLD).is_not_null())
            state = there[_OLD].cast(pl.String).str.json_decode(pl.Struct(self._state)).struct.unnest()
            states = pl.concat([there.select(self._names), state.select(list(self._state))], how="horizontal")
            self._base, self._now = self._base.vstack(states), self._now.vstack(states)
        self._looked = self._looked.vstack(looked.select(*self._names, _OLD))

    def step(self, inbox: pl.DataFrame, number: int) -> pl.DataFrame:
        changed, sent = self._step(self._states_of(inbox), inbox, number)
        self._take(changed)
        return sent

    def _states_of(self, inbox: pl.DataFrame) -> pl.DataFrame:
        return inbox.select(self._names).unique().join(self._now, on=self._names, how="left")

    def _step(self, states: pl.DataFrame, inbox: pl.DataFrame, number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        with self._failing(f"round {number}"):
            changed, sent = self._body.step(states, inbox, number)
            return _shaped(changed, {**self._keys, **self._state}, "a state"), self._inbox(sent)

    def _take(self, changed: pl.DataFrame) -> None:
        self.changed = changed.height
        if changed.height:
            self._now = self._now.join(changed.select(self._names), on=self._names, how="anti").vstack(changed)
            self._touched = self._touched.vstack(changed.select(self._names))

    def parts(self, inbox: pl.DataFrame, count: int) -> list[bytes]:
        states, part = self._states_of(inbox), (pl.struct(self._names).hash(seed=1) % count).alias("__part")
        states_by_part = states.with_columns(part).partition_by("__part", as_dict=True, include_key=False)
        theirs = inbox.with_columns(part).partition_by("__part", as_dict=True, include_key=False)
        return [pickle.dumps((pack(states_by_part[of]), pack(some))) for of, some in theirs.items()]

    def work(self, part: bytes, number: int) -> bytes:
        states, inbox = map(unpack, pickle.loads(part))
        return pickle.dumps(tuple(map(pack, self._step(states, inbox, number))))

    def put(self, done: Sequence[bytes]) -> pl.DataFrame:
        frames = [tuple(map(unpack, pickle.loads(data))) for data in done]
        if frames:
            self._take(pl.concat([changed for changed, _ in frames]))
        return self.together([sent for _, sent in frames])

    def save(self) -> Any:
        return self._looked, self._base, self._now, self._touched

    def load(self, saved: Any) -> None:
        self._looked, self._base, self._now, self._touched = saved

    def _differ(self) -> pl.DataFrame:
        """The keys that are not as they were, and what is to be kept of them."""
        if not self._touched.height:
            return pl.DataFrame(schema={**self._keys, _OLD: pl.Binary(), "value": pl.Binary()})
        touched = self._touched.unique().join(self._now, on=self._names)
        value = pl.struct(list(self._state)).struct.json_encode().cast(pl.Binary).alias("value")
        touched = touched.select(*self._names, value).join(self._looked, on=self._names)
        return touched.filter(pl.col("value").ne_missing(pl.col(_OLD)))

    def memory(self) -> pl.DataFrame:
        return self._differ().select(_key(self._keys).alias("key"), "value").cast(KEPT)  # type: ignore[arg-type]

    def rows(self) -> pl.DataFrame:
        keys = self._differ().select(self._names)
        with self._failing("show"):
            shown = []
            for states, sign in ((self._base, -1), (self._now, 1)):
                rows = self._body.show(keys.join(states, on=self._names))
                rows = _shaped(rows, self._shown, "a row")
                shown.append(rows.with_columns(pl.lit(sign, pl.Int32).alias(SIGN)))
            changes = pl.concat(shown).group_by(list(self._shown)).agg(pl.col(SIGN).sum())
            times = pl.col(SIGN).abs()
            again = changes.filter(times > 1).select(pl.all().repeat_by(times).list.explode())
            changes = pl.concat([changes.filter(times == 1), again])
            return changes.with_columns(pl.col(SIGN).sign().cast(pl.Int32))

    @contextmanager
    def _failing(self, where: str) -> Iterator[None]:
        try:
            with failing_rows(f"the loop {self.iteration.name}, in {where},"):
                yield
        except RowError as error:
            raise LoopError(error.message) from error


def _columns(ddl: str) -> dict[str, pl.DataType]:
    return {name: dtype(kind) for name, kind in Schema.parse(ddl)}


def _shaped(frame: pl.DataFrame, columns: dict[str, pl.DataType], what: str) -> pl.DataFrame:
    """A frame that code has given, with the columns that it must have."""
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise RowError(f"{what} lacks the column '{missing[0]}': it has {', '.join(frame.columns)}")
    return frame.select(pl.col(name).cast(kind) for name, kind in columns.items())


def _key(keys: dict[str, pl.DataType]) -> pl.Expr:
    """A key as bytes. Of several columns a text comes last: so it may hold anything."""
    texts = [name for name, kind in keys.items() if kind == pl.String]
    if len(texts) > 1:
        return pl.struct(list(keys)).struct.json_encode().cast(pl.Binary).alias(_KEY)
    names = [*(name for name in keys if name not in texts), *texts]
    return pl.concat_str([pl.col(name).cast(pl.String) for name in names], separator="\x1f").cast(pl.Binary).alias(_KEY)
