"""Where two generations of a view differ whose rows are in segments: compared shard by shard, with Polars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import polars as pl

from penstock.kernel.fire import shows
from penstock.kernel.keys import encoded
from penstock.kernel.plan import END, START, Plan
from penstock.kernel.plan import shown as shown_column
from penstock.model.windows import CountBased, Global
from penstock.state.compact import PIECE, kept_windows, pieces
from penstock.state.layout import FINAL, in_place
from penstock.state.segment import HashRange
from penstock.store.encode import stored
from penstock.store.generations import Difference, Scope
from penstock.store.present import shown
from penstock.store.sharded_view import ShardedView

#: The columns of rows that are compared.
Compared: TypeAlias = Callable[[pl.DataFrame], list[pl.Series]]


@dataclass(frozen=True)
class Differences:
    """Rows with the state and `final`: those that only one generation has, and windows of both with other values."""

    appeared: pl.DataFrame
    changed: pl.DataFrame
    replaced: pl.DataFrame  # the old rows of `changed`, in the same order
    vanished: pl.DataFrame

    @property
    def fresh(self) -> pl.DataFrame:
        """The rows of the new generation."""
        return pl.concat([self.appeared, self.changed])

    @property
    def gone(self) -> pl.DataFrame:
        """The rows of the old generation."""
        return pl.concat([self.replaced, self.vanished])


def current_rows(view: ShardedView, shard: HashRange) -> pl.DataFrame:
    """A view's rows with `final`. Like tables they have no firing state of final rows but the number of panes."""
    rows = view.state(shard).whole()
    unexpired = kept_windows(view.expired)
    rows = rows if unexpired is None else rows.filter(unexpired)
    firing = [name for name in view.plan.firing_schema if name != "__index"]
    return rows.with_columns(pl.when(~pl.col(FINAL)).then(pl.col(name)).alias(name) for name in firing)


def shared_pieces(old: ShardedView, new: ShardedView, largest: int = PIECE) -> list[HashRange]:
    """Shards that are small enough to compare two generations in memory."""
    return pieces([*old.segments, *new.segments], largest)


def differences(
    old: ShardedView,
    new: ShardedView,
    shard: HashRange,
    scope: Scope,
    compared: tuple[Compared, Compared],
    everything: bool = False,
) -> Differences:
    """The differences of one shard. `compared` is for the old and the new rows. `everything`: all windows differ."""
    before, after = (current_rows(view, shard).filter(scope.holds) for view in (old, new))
    stays = in_place(old.plan) and in_place(new.plan)
    place = [*new.plan.keys, START, END, *([] if stays else [FINAL])]
    pairs = (
        after.select(place).with_row_index("__after")
        .join(before.select(place).with_row_index("__before"), on=place, nulls_equal=True)
        .select("__after", "__before")
    )  # fmt: skip
    own, others = after[pairs["__after"]], before[pairs["__before"]]
    differ = pl.repeat(everything, pairs.height, eager=True) | own[FINAL].ne_missing(others[FINAL])
    for series, other in zip(compared[1](own), compared[0](others), strict=True):
        differ = differ | _comparable(series).ne_missing(_comparable(other))
    return Differences(
        _without(after, pairs["__after"]),
        own.filter(differ),
        others.filter(differ),
        _without(before, pairs["__before"]),
    )


def _without(rows: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    alone = np.ones(rows.height, bool)
    alone[numbers.to_numpy()] = False
    return rows.filter(pl.Series(alone))


def _comparable(series: pl.Series) -> pl.Series:
    """Floats and nested values as bytes: NaN is equal to itself."""
    return stored(series) if series.dtype.is_nested() or series.dtype.is_float() else series


# what is compared


def value_state(plan: Plan) -> Compared:
    """The value state, for generations of one definition."""
    place = {*plan.keys, START, END}
    return lambda rows: [rows[name] for name in plan.value_schema if name not in place]


def visible_state(plan: Plan, with_shown: bool) -> Compared:
    """What panes show, and how many there were, for generations of two definitions."""
    firing = ["__index", *(["__shown", *map(shown_column, plan.values)] if with_shown else [])]
    return lambda rows: [*shows(plan, rows, plan.columns)[0], *(rows[name] for name in firing)]


def answers(plan: Plan, names: list[str]) -> Compared:
    """The values of these columns, as people read them."""

    def compared(rows: pl.DataFrame) -> list[pl.Series]:
        by_name = {series.name: series for series in shows(plan, rows, plan.columns)[0]}
        return [shown(by_name[name]) for name in names]

    return compared


# what would differ, for people


def compare(old: ShardedView, new: ShardedView, scope: Scope, limit: int, largest: int = PIECE) -> Difference:
    """How two generations differ in what people read, with the first rows of it side by side."""
    if old.plan.key_names != new.plan.key_names:
        return Difference(_count(new), _count(old), 0)
    common = [name for name in new.plan.values if name in old.plan.values]
    everything = not common or len(common) < len(new.plan.values)  # a column is new
    compared = answers(old.plan, common), answers(new.plan, common)
    appear = vanish = change = 0
    first: pl.DataFrame | None = None
    for shard in shared_pieces(old, new, largest):
        piece = differences(old, new, shard, scope, compared, everything)
        appear, vanish, change = (
            appear + piece.appeared.height, vanish + piece.vanished.height, change + piece.changed.height
        )  # fmt: skip
        rows = pl.concat([*([] if first is None else [first]), _side_by_side(old.plan, new.plan, piece)])
        first = rows.sort(END, START, "__key").head(limit)
    assert first is not None
    return Difference(appear, vanish, change, first.drop(END, START, "__key"))


def _count(view: ShardedView) -> int:
    return sum(current_rows(view, shard).height for shard in pieces(view.segments))


def _side_by_side(old: Plan, new: Plan, piece: Differences) -> pl.DataFrame:
    """Keys, window, and values before and after, with the place by which rows are sorted."""
    before, after = (
        rows.select(*plan.keys, START, END).hstack(
            [shown(series).alias(f"{series.name} {when}") for series in shows(plan, rows, plan.columns)[0]]
        )
        for plan, rows, when in ((old, piece.gone, "before"), (new, piece.fresh, "after"))
    )
    place = [*new.keys, START, END]
    both = before.join(after, on=place, how="full", nulls_equal=True, coalesce=True)
    keys = both.select(new.keys)
    key = encoded(keys) if new.keys else pl.repeat(b"", both.height, dtype=pl.Binary, eager=True)
    columns = [shown(series) for series in keys.get_columns()] + list(_bounds(new, both))
    values = [name for name in both.columns if name not in place]
    return both.select(END, START).hstack([key.alias("__key"), *columns, *both.select(values).get_columns()])


def _bounds(plan: Plan, rows: pl.DataFrame) -> Iterator[pl.Series]:
    """A window's bounds as people read them."""
    for name, column in (("window_start", START), ("window_end", END)):
        if isinstance(plan.view.windows, CountBased):
            yield rows[column].alias(name)
        elif isinstance(plan.view.windows, Global):
            yield pl.repeat(None, rows.height, dtype=pl.String, eager=True).alias(name)
        else:
            yield shown(rows[column].cast(pl.Datetime("us")).alias(name))
