"""The kernel with its state in segments, in a plain directory: each commit writes files, restarts open them anew."""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl

from penstock.kernel.fire import Time
from penstock.kernel.local import Cut, LocalKernel, table_of
from penstock.kernel.merge import one_row
from penstock.kernel.reduce import closing_bound, combine
from penstock.kernel.stack import place_schema
from penstock.kernel.step import Change
from penstock.model.commits import TableRow
from penstock.model.view import View
from penstock.state.compact import merges
from penstock.state.pane_file import filed, read_block, reference, write_panes
from penstock.state.segment import Segment, SegmentFile, encoded, shards
from penstock.state.segment_state import SegmentState, presented
from penstock.state.step import ShardStep, steps
from penstock.store.block import KEY, view_panes


class SegmentKernel(LocalKernel):
    """One view with its state in segments, stepped shard by shard, and compacted now and then."""

    def __init__(self, view: View, directory: Path, seed: int, cut: Cut = lambda rows: [rows]) -> None:
        super().__init__(view, cut)
        self._directory, self._seed, self._chance = directory, seed, random.Random(seed)
        self._segments: list[Segment] = []
        self._closed, self._run, self._files = -(1 << 62), 0, 0
        first = presented(self.plan, one_row(self.plan), final=False)
        self._write([encoded("v", self._state().layouts["rows"], 0, first)])

    def _state(self) -> SegmentState:
        return SegmentState(self.plan, str(self._directory), self._segments, closed=self._closed)

    def _write(self, parts: list) -> None:
        file = SegmentFile(str(self._directory), f"{self._files}.arrow")
        self._files += 1
        for part in parts:
            file.add(part)
        self._segments += file.close()

    def step(self, deltas, time: Time) -> Change:
        self._run += 1
        combined = [combine(self.plan, list(deltas))] if deltas else []
        work = ShardStep("v", self.plan, str(self._directory), tuple(self._segments), self._closed, self._run, time)
        results = list(steps(work, combined, self._chance.choice([1, 1, 2, 5])))
        for result in results:
            self._write(result.encoded)
        bound = closing_bound(self.plan, time.after)
        bound = self.plan.view.forgotten_before(time.after) if self.plan.forgets else bound
        self._closed = self._closed if bound is None else max(self._closed, bound)
        if self._chance.random() < 0.3:
            self._compact()
        panes = pl.concat([result.panes for result in results])
        panes = panes.sort(self.plan.keys, maintain_order=True) if self.plan.keys else panes
        if panes.height and self._chance.random() < 0.3:
            self._check_files([result.panes for result in results], panes)
        late = pl.concat([result.late for result in results])
        empty = one_row(self.plan).clear()
        place = pl.DataFrame(schema=place_schema(self.plan))
        return Change(
            place,
            empty,
            empty,
            panes,
            late,
            place,
            place,
            place,
        )

    def _check_files(self, parts: list[pl.DataFrame], panes: pl.DataFrame) -> None:
        """Panes that shards write to files are read as they were, in the order of all of them."""
        root, keys = str(self._directory), [KEY + name for name in self.plan.keys]
        names = (f"panes-{self._run}-{number}" for number in range(len(parts)))
        blocks = [view_panes(self.plan, part) for part in parts]
        files = [write_panes(root, name, part) for name, part in zip(names, blocks, strict=True) if part.height]
        read = [read_block(root, reference(block), KEY) for block in filed(root, files, keys, 3, 2).blocks]
        assert pl.concat(read).equals(view_panes(self.plan, panes)), "panes in files"

    def _compact(self) -> None:
        for merge in list(merges(str(self._directory), self._state().layouts, self._segments, fanout=2, smallest=4)):
            merge.check()
            file = SegmentFile(str(self._directory), f"{self._files}.arrow")
            self._files += 1
            merge.write(file, shards(self._chance.choice([1, 3])))
            self._segments = [one for one in self._segments if one not in merge.segments] + file.close()

    def table(self) -> list[TableRow]:
        return table_of(self.plan, self._state().table())

    def restart(self) -> SegmentKernel:
        plain = super().restart()
        other = SegmentKernel.__new__(SegmentKernel)
        other.__dict__.update(plain.__dict__)
        for name in ("_directory", "_seed", "_chance", "_segments", "_closed", "_run", "_files"):
            setattr(other, name, getattr(self, name))
        return other
