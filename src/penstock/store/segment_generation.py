"""The files of a generation in the making whose rows are in segments. No list names them before the swap."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path

from penstock.kernel.merge import one_row
from penstock.kernel.plan import Plan
from penstock.kernel.step import Change
from penstock.state.compact import Merge, kept_windows, merges
from penstock.state.layout import layouts
from penstock.state.segment import EncodedRows, Segment, SegmentFile, encoded, paths
from penstock.state.segment_state import encoded_change, presented
from penstock.store.sharded_view import ShardedView


class GenerationFiles:
    """Writes and removes the files of one generation.

    Their names begin with one write id, up to the first dot. A sweep spares the files of ids that are in use.
    """

    def __init__(self, root: str, token: int) -> None:
        self.id = f"{token}-generation-{uuid.uuid4().hex}"
        self._root, self._count = root, 0

    def begin(self, hidden: str, plan: Plan, shards: int) -> ShardedView:
        """A generation without events."""
        rows = presented(plan, one_row(plan), final=False)
        added = self.write([encoded(hidden, layouts(plan)["rows"], 1, rows)])
        return ShardedView(hidden, self._root, shards, added, plan=plan)

    def load(self, view: ShardedView, change: Change) -> ShardedView:
        """The generation with what a step has changed."""
        added = self.write(encoded_change(view.name, view.plan, change, view.next_run))
        return self._compact(view.changed(added))

    def rewrite(self, view: ShardedView) -> tuple[Segment, ...]:
        """All rows of a view that count, as one run: nothing is left of rows that were replaced, deleted or expired."""
        keep = kept_windows(view.expired)
        with self._file() as file:
            for kind, layout in layouts(view.plan).items():
                part = tuple(segment for segment in view.segments if segment.kind == kind)
                if part:
                    rule = keep if kind in ("rows", "final") else None
                    merge = Merge(view.root, layout, part, is_oldest=True, keep=rule)
                    merge.write(file, merge.pieces)
            return tuple(file.close())

    def write(self, parts: Iterable[EncodedRows]) -> tuple[Segment, ...]:
        """Writes one file. Without rows there is none."""
        with self._file() as file:
            for rows in parts:
                file.add(rows)
            return tuple(file.close())

    def remove(self, segments: Iterable[Segment]) -> None:
        """Removes the files of segments."""
        for path in paths(segments):
            (Path(self._root) / path).unlink(missing_ok=True)

    def _file(self) -> SegmentFile:
        self._count += 1
        return SegmentFile(self._root, f"{self.id}.{self._count}.arrow")

    def _compact(self, view: ShardedView) -> ShardedView:
        """Merges runs, so that a lookup stays short. Nobody else reads the old files."""
        for merge in merges(view.root, layouts(view.plan), view.segments):
            with self._file() as file:
                merge.write(file, merge.pieces)
                added = tuple(file.close())
            view = view.changed(added, merge.segments)
            needed = set(paths(view.segments))
            self.remove(segment for segment in merge.segments if segment.path not in needed)
        return view
