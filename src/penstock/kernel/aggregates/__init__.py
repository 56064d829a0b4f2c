"""The aggregates on columns: the model's aggregates again, vectorised. Only sketches and users' monoids loop."""

from __future__ import annotations

from penstock.kernel.aggregates.base import Columns
from penstock.kernel.aggregates.count import CountColumns
from penstock.kernel.aggregates.distinct import DistinctColumns
from penstock.kernel.aggregates.extremes import ExtremeColumns
from penstock.kernel.aggregates.moments import MomentColumns
from penstock.kernel.aggregates.monoid import MonoidColumns
from penstock.kernel.aggregates.multiset import CountedColumns, WeightedColumns
from penstock.kernel.aggregates.paired import ExactnessColumns, PairedColumns
from penstock.kernel.aggregates.pick import PickColumns
from penstock.kernel.aggregates.ranked import RankedColumns
from penstock.kernel.aggregates.second_moment import SecondMomentColumns
from penstock.kernel.aggregates.sketches import ApproxDistinctColumns, HeavyHittersColumns, QuantileColumns
from penstock.kernel.aggregates.sums import sum_columns
from penstock.model import aggregates as model
from penstock.model.aggregates.paired import apart
from penstock.model.types import is_float

__all__ = ["Columns", "columns"]


def columns(
    aggregate: model.Aggregate, name: str, types: tuple[str, ...], signed: bool = False, made: bool = False,
    alone: bool = True,
) -> Columns:  # fmt: skip
    """The aggregate on columns named after `name`, for inputs of these types.

    `signed` rows may retract; rows that are `made` have an ordinal beside their position. Position and ordinal tell
    rows apart if they come `alone`, not in a union.
    """
    if signed:
        return _signed(aggregate.retractable(), name, types)
    return _unsigned(aggregate, name, types, made, alone)


def _unsigned(
    aggregate: model.Aggregate, name: str, types: tuple[str, ...], made: bool = False, alone: bool = True
) -> Columns:
    match aggregate:
        case model.Count():
            return CountColumns(aggregate, name, types)
        case model.Sum() | model.Avg():
            return sum_columns(aggregate, name, types)
        case model.Min() | model.Max():
            return ExtremeColumns(aggregate, name, types)
        case model.Moments():
            return MomentColumns(aggregate, name, types)
        case model.First() | model.Last() | model.MinBy() | model.MaxBy():
            return PickColumns(aggregate, name, types, made, alone)
        case model.Top() | model.CollectList():
            return RankedColumns(aggregate, name, types, made=made)
        case model.CollectSet() | model.CountDistinct():
            return DistinctColumns(aggregate, name, types)
        case model.ApproxDistinct():
            return ApproxDistinctColumns(aggregate, name, types)
        case model.Quantile():
            return QuantileColumns(aggregate, name, types)
        case model.HeavyHitters():
            return HeavyHittersColumns(aggregate, name, types)
        case model.SecondMoment():
            return SecondMomentColumns(aggregate, name, types)
        case model.Monoid():
            return MonoidColumns(aggregate, name, types)
        case model.Paired():
            live, batch = (_unsigned(one, name, part_types, made, alone) for one, part_types in apart(aggregate, types))
            return PairedColumns(aggregate, name, types, live, batch)
        case model.Exactness():
            return ExactnessColumns(aggregate, name, types)
    raise TypeError(f"no columns for {aggregate!r}")


def _signed(aggregate: model.Aggregate, name: str, types: tuple[str, ...]) -> Columns:
    match aggregate:
        case model.FromMultiset(of=of):
            return CountedColumns(aggregate, name, types, _unsigned(of, name, types))
        case model.Count():
            return CountColumns(aggregate, name, types, signed=True)
        case model.Moments():
            return WeightedColumns(aggregate, name, types, signed=True)
        case model.Sum() | model.Avg():
            if is_float(types[0]):
                return WeightedColumns(aggregate, name, types, signed=True)
            return sum_columns(aggregate, name, types, signed=True)
        case model.SecondMoment():
            return SecondMomentColumns(aggregate, name, types, signed=True)
        case model.Monoid():
            return MonoidColumns(aggregate, name, types, signed=True)
    raise TypeError(f"no signed columns for {aggregate!r}")
