"""The aggregates of a view, one file a kind. `ps.count()`, `ps.sum("price")` and their like are made here.

>>> sum("price", where="country = 'CH'").result_type(("int",))
'bigint'
"""

from penstock.model.aggregates.base import Aggregate, Origin, Partial, Value
from penstock.model.aggregates.collect import CollectList, CollectSet, collect_list, collect_set
from penstock.model.aggregates.count import Count, count
from penstock.model.aggregates.distinct import CountDistinct, count_distinct
from penstock.model.aggregates.extremes import Max, Min, max, min
from penstock.model.aggregates.heavy_hitters import HeavyHitters, heavy_hitters
from penstock.model.aggregates.moments import (
    Moments,
    Stddev,
    StddevPop,
    Variance,
    VarPop,
    stddev,
    stddev_pop,
    var_pop,
    variance,
)
from penstock.model.aggregates.monoid import Monoid, monoid
from penstock.model.aggregates.multiset import FromMultiset
from penstock.model.aggregates.paired import Exactness, Paired
from penstock.model.aggregates.pick import First, Last, MaxBy, MinBy, first, last, max_by, min_by
from penstock.model.aggregates.second_moment import SecondMoment, second_moment
from penstock.model.aggregates.sketches import ApproxDistinct, Quantile, Sketch, approx_distinct, quantile
from penstock.model.aggregates.sums import Avg, Sum, avg, sum
from penstock.model.aggregates.top import Top, top

__all__ = [
    "Aggregate",
    "ApproxDistinct",
    "Avg",
    "CollectList",
    "CollectSet",
    "Count",
    "CountDistinct",
    "Exactness",
    "First",
    "FromMultiset",
    "HeavyHitters",
    "Last",
    "Max",
    "MaxBy",
    "Min",
    "MinBy",
    "Moments",
    "Monoid",
    "Origin",
    "Paired",
    "Partial",
    "Quantile",
    "SecondMoment",
    "Sketch",
    "Stddev",
    "StddevPop",
    "Sum",
    "Top",
    "Value",
    "VarPop",
    "Variance",
    "approx_distinct",
    "avg",
    "collect_list",
    "collect_set",
    "count",
    "count_distinct",
    "first",
    "heavy_hitters",
    "last",
    "max",
    "max_by",
    "min",
    "min_by",
    "monoid",
    "quantile",
    "second_moment",
    "stddev",
    "stddev_pop",
    "sum",
    "top",
    "var_pop",
    "variance",
]
