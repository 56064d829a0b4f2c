"""Many views, one pass: views of a stream whose dimensions together have few values are reduced as one.

The union of their keys, filters and time slices is grouped once (`base`); because partials merge, each view's own
deltas follow from the base by rolling it up (`unfold`), when the batches of an epoch have come together. A hundred
views on a dozen dimensions then cost a task about what one costs. Views for which the union would hardly be smaller
than the events, or whose windows are not slices of time, are reduced on their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import polars as pl

from penstock.kernel.aggregates import Columns, columns
from penstock.kernel.aggregates.base import canonical, combine_places
from penstock.kernel.assign import reach, slice_start
from penstock.kernel.elements import MadeBefore, compiled
from penstock.kernel.expressions import Compiled, dtype
from penstock.kernel.group import group
from penstock.kernel.plan import START, Input, Plan, settle
from penstock.kernel.reduce import Reduced, closing_bound, combine, is_small, late_rows, partials, reduce, reduce_places
from penstock.kernel.roll_up import FEW, LARGEST, roll_up
from penstock.model.aggregates import Aggregate
from penstock.model.expressions import bind
from penstock.model.stream import Stream, Where
from penstock.model.time import BEGINNING, Instant
from penstock.model.windows import Aligned, Cumulating, Fixed, Global, Sliding

#: A base pays if it has at most this share of the events' number, measured on a sample of `SAMPLE`.
WORTH, SAMPLE = 0.2, 8192


@dataclass(frozen=True)
class Cluster:
    """Views (by number) that are reduced together."""

    source: Stream
    plans: tuple[Plan, ...]
    numbers: tuple[int, ...]

    @cached_property
    def keys(self) -> dict[str, str]:
        """Key expressions → columns of the base."""
        texts = dict.fromkeys(text for plan in self.plans for _, text in plan.view.keys)
        plain = self.source.schema  # a column keeps its name: conditions on it can be asked of the base
        return {text: text if text in plain.names else f"d:{number}" for number, text in enumerate(texts)}

    @cached_property
    def filters(self) -> dict[str, str]:
        """Conditions of the streams' where steps that do not follow from the keys → columns of the base."""
        texts = dict.fromkeys(text for plan in self.plans for text in _conditions(plan))
        undecided = [text for text in texts if not bind(text, self.source.schema).columns <= self.keys.keys()]
        return {text: f"b:{number}" for number, text in enumerate(undecided)}

    def holds(self, text: str) -> pl.Expr:
        """Whether a condition holds, for the rows of the base."""
        if text in self.filters:
            return pl.col(self.filters[text])
        return self.compiled(text).value

    @cached_property
    def aggregates(self) -> dict[Aggregate, Columns]:
        """Each distinct aggregate once, under a name of its own."""
        by_aggregate: dict[Aggregate, Columns] = {}
        for plan in self.plans:
            for _, aggregate in plan.view.aggregates:
                if aggregate not in by_aggregate:
                    types = plan.view.input_types(aggregate)
                    by_aggregate[aggregate] = columns(aggregate, f"a:{len(by_aggregate)}", types, plan.view.signed)
        return by_aggregate

    @cached_property
    def slice(self) -> int:
        """The length of time that no bound of any of the windows divides; 0 where time does not matter."""
        step = 0
        for plan in self.plans:
            kind = plan.view.windows
            if isinstance(kind, Fixed):
                step = gcd(step, kind.size, kind.offset)
            elif isinstance(kind, Sliding):
                step = gcd(step, kind.slice, kind.offset)
            elif isinstance(kind, Cumulating):
                step = gcd(step, kind.step, kind.offset)
        return step

    def compiled(self, text: str) -> Compiled:
        return compiled(text, self.source.schema)

    def dimensions(self) -> list[pl.Expr]:
        """The base's dimensions, from the stream's rows."""
        made = [
            canonical(self.compiled(text).value, bind(text, self.source.schema).type or "string").alias(name)
            for text, name in self.keys.items()
        ]
        made += [self.compiled(text).value.fill_null(False).alias(name) for text, name in self.filters.items()]
        if self.slice:
            at = pl.col("__at")
            made.append((at - at % self.slice).alias("__t"))
        return made

    @property
    def names(self) -> list[str]:
        return [*self.keys.values(), *self.filters.values(), *(["__t"] if self.slice else [])]

    @cached_property
    def types(self) -> dict[str, pl.DataType]:
        """The types of the dimensions."""
        made = {name: dtype(bind(text, self.source.schema).type or "string") for text, name in self.keys.items()}
        return made | dict.fromkeys(self.filters.values(), pl.Boolean()) | {"__t": pl.Int64()}

    def base(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The stream's rows, grouped by all dimensions of the cluster."""
        texts: dict[str, pl.Expr] = {}

        def column(text: str) -> pl.Expr:
            if text not in texts:
                texts[text] = self.compiled(text).value.alias(f"x:{len(texts)}")
            return pl.col(texts[text].meta.output_name())

        inputs = []
        for aggregate, part in self.aggregates.items():
            where = None if aggregate.where is None else column(aggregate.where)
            inputs.append(Input(part, tuple(column(text) for text in aggregate.inputs), where))
        rows = frame.lazy().select(*self.dimensions(), "__at", "__partition", "__offset", *texts.values())
        rows = rows.with_columns(reduce_places(inputs))
        parts = [pl.len().cast(pl.Int64).alias("__n"), *partials(inputs, is_small(self.aggregates.values(), frame))]
        if self.names:
            grouped = group(rows, self.names, self.types, parts, frame.height)
        else:
            grouped = rows.with_columns(pl.lit(0).alias("__all")).group_by("__all").agg(parts)
        return settle(grouped.collect(), self.aggregates.values())

    def combine(self, bases: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The bases of several batches as one."""
        if len(bases) == 1:
            return bases[0]
        parts = [e for part in self.aggregates.values() for e in part.combine()]
        rows = pl.concat(bases).with_columns(combine_places(self.aggregates.values()))
        grouped = rows.group_by(self.names or ["__all"]).agg(pl.col("__n").sum(), *parts)
        return settle(grouped, self.aggregates.values())

    def unfold(self, base: pl.DataFrame, plan: Plan, watermark: Instant) -> pl.LazyFrame:
        """One view's deltas (before `settle`), rolled up from the base."""
        kind = plan.view.windows
        assert isinstance(kind, Aligned)
        start = pl.lit(BEGINNING, pl.Int64) if isinstance(kind, Global) else slice_start(kind, pl.col("__t"))
        rows = self._rows_of(base, plan, start.alias(START))
        bound = closing_bound(plan, watermark)
        if bound is not None:
            rows = rows.filter(reach(kind, pl.col(START)).last > bound)
        return _combined(plan, rows, [*plan.keys, START])

    def _rows_of(self, base: pl.DataFrame, plan: Plan, time: pl.Expr) -> pl.LazyFrame:
        """The rows of the base that count for a view, with the view's names for keys and partials."""
        rows, conditions = base.lazy(), _conditions(plan)
        if conditions:
            rows = rows.filter(self.holds(text) for text in conditions)
        fields = [
            pl.col(shared_field).alias(theirs)
            for part, (_, aggregate) in zip(plan.aggregates, plan.view.aggregates, strict=True)
            for shared_field, theirs in zip(self.aggregates[aggregate].fields, part.columns.fields, strict=True)
        ]
        keys = [pl.col(self.keys[text]).alias(name) for name, text in plan.view.keys]
        return rows.select(*keys, time, "__n", *fields)

    @cached_property
    def alike(self) -> tuple[tuple[int, ...], ...]:
        """Views, by their place in the cluster, that differ in their fixed windows only; each in one such group."""
        groups: dict[object, list[int]] = {}
        for place, plan in enumerate(self.plans):
            texts = tuple(text for _, text in plan.view.keys)
            aggregates = tuple(aggregate for _, aggregate in plan.view.aggregates)
            same = (texts, aggregates, tuple(_conditions(plan))) if isinstance(plan.view.windows, Fixed) else place
            groups.setdefault(same, []).append(place)
        return tuple(tuple(places) for places in groups.values())

    def deltas(self, base: pl.DataFrame, watermarks: Sequence[Instant], largest: int = LARGEST) -> list[pl.DataFrame]:
        """The deltas of each view. Views that are rolled up together have about `largest` rows in memory."""
        by_place: dict[int, pl.DataFrame] = {}
        queries: dict[int, pl.LazyFrame] = {}
        for places in self.alike:
            plans = [self.plans[place] for place in places]
            if len(places) < FEW:
                queries |= {place: self.unfold(base, self.plans[place], watermarks[place]) for place in places}
                continue
            first = plans[0]
            slices = _combined(first, self._rows_of(base, first, pl.col("__t")), [*first.keys, "__t"])
            rows = settle(slices.collect(), first.columns)  # fewer than the base has: all views begin with them
            bounds = [closing_bound(self.plans[place], watermarks[place]) for place in places]
            by_place |= dict(zip(places, roll_up(rows, plans, bounds, largest), strict=True))
        for place, frame in zip(queries, pl.collect_all(queries.values()), strict=True):
            by_place[place] = settle(frame, self.plans[place].columns).select(*self.plans[place].delta_schema)
        return [by_place[place] for place in range(len(self.plans))]


def _combined(plan: Plan, rows: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """A view's partials by group (before `settle`)."""
    parts = [e for part in plan.aggregates for e in part.columns.combine()]
    rows = rows.with_columns(combine_places(plan.columns))
    return rows.group_by(by).agg(pl.col("__n").sum(), *parts)


@dataclass
class Batch:
    """What a batch of a stream leaves for all its views: a base for each cluster, and single views' deltas."""

    bases: list[pl.DataFrame]
    own: dict[int, Reduced]
    late: dict[int, pl.DataFrame]


@dataclass(frozen=True)
class Sharing:
    """How the views of one stream are reduced together."""

    source: str
    plans: tuple[Plan, ...]
    clusters: tuple[Cluster, ...]

    @cached_property
    def alone(self) -> tuple[int, ...]:
        shared = {number for cluster in self.clusters for number in cluster.numbers}
        return tuple(number for number in range(len(self.plans)) if number not in shared)

    def reduce(self, frame: pl.DataFrame, watermarks: Sequence[Instant], before: MadeBefore | None = None) -> Batch:
        """One batch of admitted events, for all views. `before` is what users' functions have made of it already."""
        before = {} if before is None else before
        late: dict[int, pl.DataFrame] = {}
        oldest = frame["__at"].min() if frame.height else None
        for cluster in self.clusters:
            for number, plan in zip(cluster.numbers, cluster.plans, strict=True):
                bound = closing_bound(plan, watermarks[number])
                if bound is not None and isinstance(oldest, int) and oldest < bound:
                    late[number] = late_rows(plan, self.source, frame, watermarks[number])
        own = {n: reduce(self.plans[n], self.source, frame, watermarks[n], before) for n in self.alone}
        return Batch([cluster.base(frame) for cluster in self.clusters], own, late)

    def combine(self, batches: Sequence[Batch]) -> Batch:
        """Several batches as one, so that memory follows the groups and not the events."""
        if len(batches) == 1:
            return batches[0]
        own = {
            number: Reduced(
                combine(self.plans[number], [batch.own[number].deltas for batch in batches]),
                pl.concat([batch.own[number].late for batch in batches]),
                pl.concat([batch.own[number].dead for batch in batches]),
            )
            for number in self.alone
        }
        late: dict[int, pl.DataFrame] = {}
        for number in {number for batch in batches for number in batch.late}:
            late[number] = pl.concat([batch.late[number] for batch in batches if number in batch.late])
        bases = [cluster.combine([batch.bases[i] for batch in batches]) for i, cluster in enumerate(self.clusters)]
        return Batch(bases, own, late)

    def deltas(self, batches: Sequence[Batch], watermarks: Sequence[Instant]) -> list[pl.DataFrame]:
        """Each view's deltas, from all batches of an epoch."""
        by_number: dict[int, pl.DataFrame] = {
            number: combine(self.plans[number], [batch.own[number].deltas for batch in batches])
            for number in self.alone
        }
        for i, cluster in enumerate(self.clusters):
            base = cluster.combine([batch.bases[i] for batch in batches])
            marks = [watermarks[number] for number in cluster.numbers]
            by_number |= dict(zip(cluster.numbers, cluster.deltas(base, marks), strict=True))
        return [by_number[number] for number in range(len(self.plans))]


def share(source: str, plans: Sequence[Plan], sample: pl.DataFrame, events: int | None = None) -> Sharing:
    """Decides which views to reduce together, by how many distinct dimensions a sample of events has.

    `events` is how many a batch has, where the sample is not a whole batch.
    """
    streams = {s.name: s for plan in plans for s in plan.view.input.sources}
    rows = sample.gather_every(max(1, sample.height // SAMPLE)) if sample.height else sample
    clusters: list[list[int]] = []
    able = [number for number, plan in enumerate(plans) if _can_share(plan)]
    able.sort(key=lambda n: (len(plans[n].keys), plans[n].view.keys))
    for number in able:
        for members in clusters:
            together = Cluster(streams[source], tuple(plans[n] for n in [*members, number]), (*members, number))
            if _is_worth(together, rows, events or sample.height):
                members.append(number)
                break
        else:
            clusters.append([number])
    kept = [members for members in clusters if len(members) > 1]
    return Sharing(
        source,
        tuple(plans),
        tuple(Cluster(streams[source], tuple(plans[n] for n in members), tuple(members)) for members in kept),
    )


def _is_worth(cluster: Cluster, sample: pl.DataFrame, events: int) -> bool:
    """Whether the base would be much smaller than the events it stands for.

    The number of distinct values beyond the sample is estimated from those that it has once and twice (Chao).
    """
    if not cluster.names or not sample.height:
        return True
    seen = sample.lazy().select(cluster.dimensions()).group_by(cluster.names).len()
    counts = seen.select(pl.len(), (pl.col("len") == 1).sum().alias("once"), (pl.col("len") == 2).sum().alias("twice"))
    distinct, once, twice = counts.collect().row(0)
    unseen = once * once / (2 * twice) if twice else once * once
    return bool(distinct + unseen <= WORTH * events)


def _conditions(plan: Plan) -> list[str]:
    return [step.condition for step in plan.branches[0].steps if isinstance(step, Where)]


def _can_share(plan: Plan) -> bool:
    """Views of one branch with where steps only, windows that are slices of time, and expressions that cannot fail.

    A view that forgets keys may need elements one by one.
    """
    view = plan.view
    if len(plan.branches) != 1 or not all(isinstance(step, Where) for step in plan.branches[0].steps):
        return False
    if not isinstance(view.windows, (Fixed, Sliding, Cumulating, Global)) or view.signed or view.forgets:
        return False
    schema = plan.branches[0].source.schema
    return all(compiled(text, schema).error is None for text in (*view.expressions, *_conditions(plan)))
