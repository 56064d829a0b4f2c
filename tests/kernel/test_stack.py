"""Views that take their steps together do exactly what each does on its own."""

from __future__ import annotations

from dataclasses import fields, replace

import polars as pl
from hypothesis import assume, given, note
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import penstock as ps
from penstock.kernel.fire import percents
from penstock.kernel.local import LocalKernel
from penstock.kernel.memory import Memory, Open
from penstock.kernel.plan import Plan
from penstock.kernel.stack import Members, Stack, shape, stacks
from penstock.kernel.step import Change
from penstock.testing import replay
from tests.strategies import aligned_windows, cases, scripts, views


class Watched(LocalKernel):
    """Remembers what each commit brought, and what it did."""

    def __init__(self, view: ps.View) -> None:
        super().__init__(view)
        self.log: list[tuple[list[pl.DataFrame], object, Change]] = []

    def step(self, deltas, time):
        reached = {percent: time.reached(percent) for percent in percents(self.view.firing)}
        time = replace(time, reached=reached.__getitem__)
        change = super().step(deltas, time)
        self.log.append((list(deltas), time, change))
        return change


class MemberState(Memory):
    """A view's own state, as a store would keep it."""

    def open_rows(self, limit: int) -> pl.DataFrame | None:
        return self.live if self.live.height <= limit else None


def sorted_frame(frame: pl.DataFrame) -> pl.DataFrame:
    plain = [name for name, kind in frame.schema.items() if not kind.is_nested() and kind != pl.Object]
    return frame.sort(plain, maintain_order=True)


def same(one: Change, other: Change) -> None:
    for part in ("taken", "live", "closed"):
        assert_frame_equal(sorted_frame(getattr(one, part)), sorted_frame(getattr(other, part)))
    assert_frame_equal(one.panes, other.panes)


@st.composite
def alike(draw: st.DrawFn) -> list[ps.View]:
    """Views of one shape: other names, other lengths of windows, other conditions."""
    first = draw(views(window=aligned_windows()))
    first = replace(first, shown=None, condition=None)
    assume(not first.signed)
    found = [first]
    for number in range(draw(st.integers(1, 3))):
        flow = first.input.where("v <> 2") if draw(st.booleans()) else first.input
        named = tuple((f"{name}{number}", aggregate) for name, aggregate in first.aggregates)
        keys = tuple((f"key_{name}", text) for name, text in first.keys)
        window = draw(aligned_windows()) if draw(st.booleans()) else first.windows
        found.append(replace(first, input=flow, aggregates=named, keys=keys, windows=window))
    return found


@cases(50, deep=32)
@given(alike(), st.data())
def test_a_stack_does_what_its_views_do_on_their_own(found, data):
    script = data.draw(scripts(found[0]).filter(lambda s: "restart" not in repr(s.steps).lower()))
    note("\n".join(map(repr, [*found, *script.steps])))
    kernels = [Watched(view) for view in found]
    for kernel in kernels:
        replay(kernel.view, script, kernel)
    names = tuple(f"v{number}" for number in range(len(found)))
    plans = tuple(Plan(view) for view in found)
    assert len({shape(plan) for plan in plans}) == 1
    stack = Stack(names, plans)
    here = Open(stack.plan)
    states = {name: MemberState(plan) for name, plan in zip(names, plans, strict=True)}
    there = Members(stack, states)
    for steps in zip(*(kernel.log for kernel in kernels), strict=True):
        deltas = {name: pl.concat(found) for name, (found, _, _) in zip(names, steps, strict=True) if found}
        time = steps[0][1]
        changes = [stack.step(deltas, state, time) for state in (here, there)]
        parts = [stack.parts(change) for change in changes]
        for name, (_, _, expected) in zip(names, steps, strict=True):
            same(expected, parts[0][name])
            same(expected, parts[1][name])
            states[name].apply(parts[1][name])
        here.apply(changes[0])
    held = there.open_rows(10**6)
    assert held is not None
    assert held.height == here.live.height
    assert there.open_rows(held.height - 1) is None or not held.height


def test_views_of_one_shape_are_stacked_and_others_are_not():
    stream = ps.stream(
        "s", schema="k string, n bigint, at timestamp", event_time="at", watermark=ps.bounded("1 second")
    )
    base = stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.sum("n"))
    made = {
        "a": base,
        "longer": stream.group_by(key="upper(k)").window(ps.fixed("5 minutes")).agg(total=ps.sum("n + 1")),
        "filtered": stream.where("n > 1").group_by("k").window(ps.fixed("1 minute")).agg(n=ps.sum("n", where="n > 2")),
        "other_key": stream.group_by("n").window(ps.fixed("1 minute")).agg(m=ps.sum("n")),
        "other_aggregate": stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.max("n")),
        "other_lateness": base.allow_late("1 hour"),
        "retracting": base.retracting(),
        "session": stream.group_by("k").window(ps.session("1 minute")).agg(n=ps.sum("n")),
    }
    plans = {name: Plan(view) for name, view in made.items()}
    together = {stack.names for stack in stacks(plans, dict.fromkeys(plans, 0))}
    assert ("a", "longer", "filtered") in together
    assert all(len(names) == 1 for names in together - {("a", "longer", "filtered")})
    apart = {stack.names for stack in stacks(plans, {**dict.fromkeys(plans, 0), "longer": 5})}
    assert ("longer",) in apart
    assert {field.name for field in fields(Change)} >= {"taken", "live", "closed", "panes"}
