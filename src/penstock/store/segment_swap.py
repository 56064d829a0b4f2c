"""The swap of generations whose rows are in segments.

A generation of the same definition becomes one more run of the old view: rows that differ, and tombstones for those
that are gone. One of another definition takes the place of the old segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from penstock.kernel.fire import pane_schema
from penstock.kernel.plan import END, OWNER_END, OWNER_START, START, Plan, nothing
from penstock.kernel.reduce import late_schema
from penstock.kernel.swap import SwapResult, settle, standing, unshown
from penstock.model.time import Instant
from penstock.state.compact import PIECE, pieces
from penstock.state.layout import FINAL, in_place, layouts
from penstock.state.segment import EncodedRows, HashRange, Segment, encoded
from penstock.state.segment_state import presented
from penstock.state.step import SegmentChange
from penstock.store.generations import Scope, same_face, taken_back_ghosts
from penstock.store.segment_differences import current_rows, differences, shared_pieces, value_state, visible_state
from penstock.store.segment_generation import GenerationFiles
from penstock.store.sharded_view import ShardedView


@dataclass
class SegmentSwap:
    """One swap. `old` is None if the view is new. New rows go into one file of the generation.

    About `largest` rows are in memory at a time.
    """

    name: str
    old: ShardedView | None
    new: ShardedView
    scope: Scope
    watermark: Instant
    files: GenerationFiles
    largest: int = PIECE

    def __post_init__(self) -> None:
        self._ghost_panes: list[pl.DataFrame] = []
        self._panes: list[pl.DataFrame] = []

    def rows(self) -> SegmentChange:
        """The same definition: a run that makes the old generation what the new one is."""
        assert self.old is not None
        return self._change(self.files.write(self._changed_rows(self.old, self.new)))

    def definition(self) -> SegmentChange:
        """Another definition: all segments of the new generation, under the view's name."""
        old, new = self.old, self.new
        if old is not None and same_face(old.plan, new.plan):
            added, rest = self.files.write(self._corrected_rows(old, new)), new.segments
        else:
            added = self.files.write(_unshown_rows(new, self.largest))
            rest = tuple(segment for segment in new.segments if segment.kind != "ghosts")
        return self._change([replace(segment, owner=self.name) for segment in (*rest, *added)])

    def _change(self, segments: Sequence[Segment]) -> SegmentChange:
        plan = self.new.plan
        panes = pl.concat([nothing(pane_schema(plan)), *self._panes])
        if len(self._panes) > 1:
            panes = panes.sort([*plan.keys, START, END, "__insert", "__index"])
        return SegmentChange(pl.concat([*self._ghost_panes, panes]), nothing(late_schema()), tuple(segments))

    # the same definition

    def _changed_rows(self, old: ShardedView, new: ShardedView) -> Iterator[EncodedRows]:
        plan, run = old.plan, old.next_run
        compared = value_state(plan), value_state(plan)
        for shard in shared_pieces(old, new, self.largest):
            piece = differences(old, new, shard, self.scope, compared)
            settled = settle(plan, piece.fresh, standing(plan, piece.gone), piece.gone, self.watermark)
            self._panes.append(settled.panes)
            yield from _settled_rows(self.name, plan, run, settled, piece.gone)
            if plan.merging and plan.retracting:
                yield from self._removed_ghosts(old, shard, run, piece.vanished)
            if "seen" in layouts(plan):
                yield _changed_counts(old, new, shard, run)

    def _removed_ghosts(
        self, old: ShardedView, shard: HashRange, run: int, vanished: pl.DataFrame
    ) -> Iterator[EncodedRows]:
        """The ghosts of windows that are gone are taken back with them."""
        plan, layout = old.plan, layouts(old.plan)["ghosts"]
        ghosts = old.state(shard).kind("ghosts").all()
        owners = vanished.select(*plan.keys, START, END).unique()
        removed = ghosts.join(
            owners, left_on=[*plan.keys, OWNER_START, OWNER_END], right_on=[*plan.keys, START, END], how="semi",
            nulls_equal=True,
        )  # fmt: skip
        if removed.height:
            self._ghost_panes.append(taken_back_ghosts(plan, removed))
            yield encoded(self.name, layout, run, ghosts.clear(), removed.select(layout.identity))

    # another definition

    def _corrected_rows(self, old: ShardedView, new: ShardedView) -> Iterator[EncodedRows]:
        """Rows of the new generation that go on from what they correct."""
        plan, run = new.plan, new.next_run
        with_shown = old.plan.retracting and plan.retracting
        compared = visible_state(old.plan, with_shown), visible_state(plan, with_shown)
        for shard in shared_pieces(old, new, self.largest):
            piece = differences(old, new, shard, self.scope, compared)
            settled = settle(plan, piece.fresh, standing(old.plan, piece.gone), None, self.watermark)
            self._panes.append(settled.panes)
            yield from _settled_rows(self.name, plan, run, settled, piece.fresh.clear())


def _unshown_rows(new: ShardedView, largest: int) -> Iterator[EncodedRows]:
    """Rows of a view that is new, or has other columns now: nobody has seen them."""
    plan, run = new.plan, new.next_run
    for shard in pieces(new.segments, largest):
        rows = unshown(plan, current_rows(new, shard).filter(pl.col("__index") > 0))
        settled = SwapResult(rows.filter(~pl.col(FINAL)), rows.filter(FINAL), nothing(pane_schema(plan)))
        yield from _settled_rows(new.name, plan, run, settled, rows.clear())


def _settled_rows(name: str, plan: Plan, run: int, settled: SwapResult, gone: pl.DataFrame) -> Iterator[EncodedRows]:
    """Rows as segments of a run, with tombstones for rows that are gone."""
    kinds, place = layouts(plan), [*plan.keys, START, END]
    live, closed = presented(plan, settled.live, final=False), presented(plan, settled.closed, final=True)
    if in_place(plan):
        parts = [(kinds["rows"], pl.concat([live, closed]), gone)]
    else:
        parts = [(kinds["rows"], live, gone.filter(~pl.col(FINAL))), (kinds["final"], closed, gone.filter(FINAL))]
    for layout, rows, old in parts:
        removed = old.select(place).join(rows.select(place), on=place, how="anti", nulls_equal=True)
        if rows.height or removed.height:
            yield encoded(name, layout, run, rows, removed)


def _changed_counts(old: ShardedView, new: ShardedView, shard: HashRange, run: int) -> EncodedRows:
    """How many elements each key had, where that differs."""
    layout = layouts(old.plan)["seen"]
    keys = list(layout.keys)
    before, after = (view.state(shard).kind("seen").all() for view in (old, new))
    if not keys:  # one row, which the newest run replaces
        return encoded(old.name, layout, run, after if after.height else before.with_columns(__seen=pl.lit(0)))
    removed = before.select(keys).join(after.select(keys), on=keys, how="anti", nulls_equal=True)
    changed = after.join(before, on=after.columns, how="anti", nulls_equal=True)
    return encoded(old.name, layout, run, changed, removed)
