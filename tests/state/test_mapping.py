"""Segments that nobody uses are let go, so that the space of removed files becomes free."""

from __future__ import annotations

import polars as pl

from penstock.state.ids import LAYOUT
from penstock.state.mapping import SegmentCache
from penstock.state.segment import Segment, SegmentFile, encoded


def written(folder, name: str) -> Segment:
    file = SegmentFile(str(folder), name)
    file.add(encoded("v", LAYOUT, 1, pl.DataFrame({"__id": [b"a"], "__at": [1]})))
    (segment,) = file.close()
    return segment


def test_a_segment_is_mapped_once_and_let_go_when_nobody_has_used_it_for_a_while(tmp_path):
    now = [0.0]
    cache = SegmentCache(60.0, lambda: now[0])
    old, current = written(tmp_path, "1.arrow"), written(tmp_path, "2.arrow")
    first = cache(str(tmp_path), old)
    assert cache(str(tmp_path), old) is first
    (tmp_path / "1.arrow").unlink()
    assert first.batch.num_rows == 1, "a reader goes on with what it has mapped"
    for second in range(0, 100, 5):
        now[0] = float(second)
        cache(str(tmp_path), current)
    assert len(cache) == 1
