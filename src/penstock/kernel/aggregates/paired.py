"""A pair of a live and a batch aggregate on columns: the live partial, where its rows stand, and the batch answer."""

from __future__ import annotations

import polars as pl

from penstock.kernel.aggregates.base import Columns, Expressive
from penstock.kernel.aggregates.order import RowOrder
from penstock.model.aggregates import Paired
from penstock.model.aggregates.paired import ANSWERED, LIVE, NOTHING, PAST


class PairedColumns(Columns):
    """`name`…: the live partial; `name.state`; `name.answer`, of the batch aggregate, where the state says so."""

    needs_settle = True
    aggregate: Paired

    def __init__(self, aggregate: Paired, name: str, types: tuple[str, ...], live: Columns, batch: Columns) -> None:
        self.live, self.batch, self.state, self.answer = live, batch, f"{name}.state", f"{name}.answer"
        super().__init__(aggregate, name, types)

    def partial(self) -> dict[str, pl.DataType]:
        return {**self.live.fields, self.state: pl.Int8(), self.answer: self.live.result}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return [*self.live.reduce(self.aggregate.of_live(inputs), where), _reduced(where).alias(self.state)]

    def combine(self) -> list[pl.Expr]:
        answer = pl.col(self.answer).filter(pl.col(self.state) == ANSWERED).first()
        return [*self.live.combine(), _combined(self.state), answer]

    def reduce_orders(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[RowOrder]:
        return self.live.reduce_orders(self.aggregate.of_live(inputs), where)

    def combine_orders(self) -> list[RowOrder]:
        return self.live.combine_orders()

    def settle(self, frame: pl.DataFrame) -> pl.DataFrame:
        answer = pl.lit(None, self.fields[self.answer])
        if self.answer in frame.columns:
            answer = pl.when(pl.col(self.state) == ANSWERED).then(self.answer)
        frame = self.live.settle(frame).with_columns(answer.alias(self.answer))
        return frame.select(pl.exclude(list(self.fields)), *self.fields)  # in one order, whatever came in

    def present(self, frame: pl.DataFrame) -> pl.Series:
        known = frame[self.state] == ANSWERED
        if not known.any():
            return self.live.present(frame)
        answers = frame[self.answer].alias(self.name)
        if known.all():
            return answers
        # An estimate costs, so it is made only where it is the answer.
        numbered = frame.with_row_index("__row")
        known_values = numbered.filter(known).select("__row", answers.filter(known))
        rest = numbered.filter(~known)
        guessed = rest.select("__row").with_columns(self.live.present(rest))
        return pl.concat([known_values, guessed]).sort("__row")[self.name]

    def zero(self) -> dict[str, object]:
        return {**self.live.zero(), self.state: NOTHING, self.answer: None}

    @property
    def result(self) -> pl.DataType:
        return self.live.result


class ExactnessColumns(Expressive):
    """`name`: where the rows of the pair beside it stand."""

    @property
    def state(self) -> str:
        return self.name

    def partial(self) -> dict[str, pl.DataType]:
        return {self.name: pl.Int8()}

    def reduce(self, inputs: tuple[pl.Expr, ...], where: pl.Expr | None) -> list[pl.Expr]:
        return [_reduced(where).alias(self.name)]

    def combine(self) -> list[pl.Expr]:
        return [_combined(self.name)]

    def present_expr(self) -> pl.Expr:
        return (pl.col(self.name) == ANSWERED).alias(self.name)

    def zero(self) -> dict[str, object]:
        return {self.name: NOTHING}


def _reduced(where: pl.Expr | None) -> pl.Expr:
    """Rows of which only the live aggregate knows, if there are any."""
    any_taken = pl.len() > 0 if where is None else where.fill_null(False).any()
    return pl.when(any_taken).then(pl.lit(LIVE, pl.Int8)).otherwise(pl.lit(NOTHING, pl.Int8))


def _combined(state: str) -> pl.Expr:
    """`model.aggregates.paired.joined`, of a group."""
    states = pl.col(state)
    alone = (states != NOTHING).sum() <= 1
    past = ((states == PAST) | (states == NOTHING)).all()
    several = pl.when(past).then(pl.lit(PAST, pl.Int8)).otherwise(pl.lit(LIVE, pl.Int8))
    return pl.when(alone).then(states.max()).otherwise(several).alias(state)
