"""Views of one shape take their steps together: a hundred small frames cost far more than one with a column more.

Two views have one shape if all that their steps depend on is the same: the types of their keys, their aggregates but
for the expressions that feed them, trigger, accumulation, lateness and time. Their rows lie under each other, with the
view's number as one more key. Lengths of windows may differ: a step only looks at where windows end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Protocol

import numpy as np
import polars as pl

from penstock.kernel.fire import Time, pane_schema
from penstock.kernel.merge import widen
from penstock.kernel.plan import END, START, Plan, nothing
from penstock.kernel.reduce import closing_bound, late_schema
from penstock.kernel.step import Change, State, advance, step
from penstock.model.aggregates import Aggregate
from penstock.model.time import Instant
from penstock.model.windows import Aligned, CountBased, Fixed

#: The number of a row's view in its stack.
VIEW = "__view"


class StackPlan(Plan):
    """The plan of the first view of a stack, with the view's number as one more key. The others take its names."""

    @cached_property
    def keys(self) -> list[str]:
        return [VIEW, *(name for name, _ in self.view.keys)]

    @cached_property
    def key_types(self) -> dict[str, pl.DataType]:
        return {VIEW: pl.Int32(), **Plan(self.view).key_types}


@dataclass(frozen=True, eq=False)
class Stack:
    """Views that take their steps together; often just one."""

    names: tuple[str, ...]
    plans: tuple[Plan, ...]

    @cached_property
    def plan(self) -> Plan:
        """What all of them are stepped by."""
        return self.plans[0] if len(self.plans) == 1 else StackPlan(self.plans[0].view, closed=self.plans[0].closed)

    @property
    def remembers(self) -> bool:
        """Whether open windows are all that the next step may ask for: neither ghosts nor counts."""
        return not self.plan.merging and not isinstance(self.plan.view.windows, CountBased)

    def step(self, deltas: Mapping[str, pl.DataFrame], state: State, time: Time) -> Change:
        """One commit for all of them, by the deltas of those that got some."""
        if len(self.names) == 1:
            return step(self.plan, list(deltas.values()), state, time)
        windowed: list[pl.DataFrame] = []
        fixed: dict[int, pl.DataFrame] = {}
        for number, (name, plan) in enumerate(zip(self.names, self.plans, strict=True)):
            if name not in deltas:
                continue
            if isinstance(plan.view.windows, Fixed):
                fixed[number] = deltas[name]
            else:
                windowed.append(self.stacked(number, widen(plan, deltas[name], time.before), [*plan.delta_schema, END]))
        if fixed:
            windowed.append(self._fixed(fixed, time.before))
        return advance(self.plan, pl.concat(windowed) if windowed else None, state, time)

    def _fixed(self, deltas: Mapping[int, pl.DataFrame], before: Instant) -> pl.DataFrame:
        """Deltas of views with fixed windows, by number, as `widen` and `stacked` give them: all at once."""
        schema, frames, sizes = list(self.plans[0].delta_schema), list[pl.DataFrame](), list[int]()
        for number, rows in deltas.items():
            plan = self.plans[number]
            assert isinstance(plan.view.windows, Fixed)
            frame = rows.select(*plan.delta_schema) if rows.columns != list(plan.delta_schema) else rows.clone()
            frame.columns = schema
            frames.append(frame)
            sizes.append(plan.view.windows.size)
        together, heights = pl.concat(frames), [frame.height for frame in frames]
        numbers = pl.Series(VIEW, np.repeat(np.array(list(deltas), np.int32), heights))
        ends = together[START] + pl.Series(np.repeat(np.array(sizes, np.int64), heights))
        wide = together.insert_column(0, numbers).with_columns(ends.alias(END))
        bound = closing_bound(self.plans[0], before)  # the same for all: it is a part of their shape
        return wide if bound is None else wide.filter(pl.col(END) > bound)

    def stacked(self, number: int, frame: pl.DataFrame, schema: Sequence[str]) -> pl.DataFrame:
        """One view's frame with the names of the first, and its number."""
        if len(self.names) == 1:
            return frame
        names = dict(zip(self._names(number), self._names(0), strict=True))
        picked = [pl.col(name).alias(names.get(name, name)) for name in dict.fromkeys(schema)]
        return frame.select(pl.lit(number, pl.Int32).alias(VIEW), *picked)

    def parted(self, frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
        """A frame of the stack by view, each with its own names; views without rows are left out."""
        if len(self.names) == 1:
            return {self.names[0]: frame} if frame.height else {}
        parts = frame.partition_by(VIEW, as_dict=True, include_key=False, maintain_order=True)
        frames = {}
        for (number,), part in parts.items():
            names = dict(zip(self._names(0), self._names(number), strict=True))
            frames[self.names[number]] = part.rename({name: names.get(name, name) for name in part.columns})
        return frames

    def _names(self, number: int) -> list[str]:
        """All names that a view's own names are part of."""
        plan = self.plans[number]
        return [*plan.delta_schema, *plan.state_schema, *pane_schema(plan)]

    def parts(self, change: Change) -> dict[str, Change]:
        """A change of the stack, view by view."""
        if len(self.names) == 1:
            return {self.names[0]: change}
        live, closed = self.parted(change.live), self.parted(change.closed)
        panes, taken = self.parted(change.panes), self.parted(change.taken)
        changes = {}
        for name, plan in zip(self.names, self.plans, strict=True):
            state, place = nothing(plan.state_schema), nothing(place_schema(plan))
            changes[name] = Change(
                taken.get(name, place),
                live.get(name, state),
                closed.get(name, state),
                panes.get(name, nothing(pane_schema(plan))),
                nothing(late_schema()),
                place,
                nothing(plan.ghost_schema),
                nothing({**plan.key_types, "__seen": pl.Int64()}),
            )
        return changes


def place_schema(plan: Plan) -> dict[str, pl.DataType]:
    """What tells a view's windows apart."""
    return {**plan.key_types, START: pl.Int64(), END: pl.Int64()}


def stacks(plans: Mapping[str, Plan], watermarks: Mapping[str, Instant]) -> list[Stack]:
    """Which views take their steps together. They keep their watermarks in common once they have them."""
    names_by_shape: dict[object, list[str]] = {}
    for name, plan in plans.items():
        names_by_shape.setdefault((shape(plan), watermarks[name]) if _can_stack(plan) else name, []).append(name)
    return [Stack(tuple(names), tuple(plans[name] for name in names)) for names in names_by_shape.values()]


def _can_stack(plan: Plan) -> bool:
    plain = plan.view.shown is None and plan.view.condition is None and not plan.view.signed and not plan.forgets
    return plain and isinstance(plan.view.windows, Aligned)


def shape(plan: Plan) -> object:
    """All that a view's steps depend on."""
    view = plan.view
    return (
        tuple(plan.sources),
        tuple(plan.key_types.values()),
        tuple(_form(aggregate, view.input_types(aggregate)) for _, aggregate in view.aggregates),
        (view.windows.ends, view.windows.ends_in_event_time),
        (view.firing, view.accumulation, view.lateness, plan.closed),
    )


def _form(aggregate: Aggregate, types: Sequence[str]) -> object:
    """An aggregate without the expressions that feed it."""
    texts = (*aggregate.inputs, aggregate.where)
    own_fields = [(field.name, getattr(aggregate, field.name)) for field in fields(aggregate)]
    return type(aggregate), tuple(types), tuple(part for part in own_fields if part[1] not in texts)


class StoredState(State, Protocol):
    """State that is kept elsewhere, and can be fetched where it is small."""

    def open_rows(self, limit: int) -> pl.DataFrame | None:
        """All open windows; None if there are more than `limit`."""

    def table(self) -> pl.DataFrame:
        """The value state of all windows, open and final, with `final`."""


class Members:
    """The stored windows of a stack, kept view by view: what is asked of the stack is asked of each."""

    def __init__(self, stack: Stack, states: Mapping[str, StoredState]) -> None:
        self.stack, self.states = stack, states

    def open_rows(self, limit: int) -> pl.DataFrame | None:
        open_by_view: dict[str, pl.DataFrame] = {}
        for name, state in self.states.items():
            rows = state.open_rows(limit)
            if rows is None:
                return None
            limit -= rows.height
            open_by_view[name] = rows
        return self._together(open_by_view)

    def at(self, windows: pl.DataFrame) -> pl.DataFrame:
        asked = self.stack.parted(windows)
        return self._together({name: self.states[name].at(places) for name, places in asked.items()})

    def of(self, keys: pl.DataFrame) -> pl.DataFrame:
        asked = self.stack.parted(keys)
        return self._together({name: self.states[name].of(places) for name, places in asked.items()})

    def ghosts_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        return nothing(self.stack.plan.ghost_schema)

    def seen_of(self, keys: pl.DataFrame) -> pl.DataFrame:
        return nothing({**self.stack.plan.key_types, "__seen": pl.Int64()})

    def due(self, time: Time) -> pl.DataFrame:
        return self._together({name: state.due(time) for name, state in self.states.items()})

    def _together(self, open_by_view: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
        frames = [
            self.stack.stacked(self.stack.names.index(name), frame, frame.columns)
            for name, frame in open_by_view.items()
            if frame.height
        ]
        return pl.concat(frames) if frames else nothing(self.stack.plan.state_schema)
