"""Which runs are merged: neighbours of about the same size, and all of them once what lies above is as large."""

from __future__ import annotations

import pytest

from penstock.state.compact import runs_to_merge
from penstock.state.segment import Segment


def segments(*rows: int) -> list[Segment]:
    return [segment(run, count) for run, count in enumerate(rows)]


def segment(run: int, rows: int) -> Segment:
    return Segment("v", "rows", run, f"{run}.arrow", 0, 0, rows, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("rows", "merged"),
    [
        ((10_000_000, 100_000, 100_000, 100_000), []),
        ((10_000_000, 100_000, 100_000, 100_000, 100_000), [1, 2, 3, 4]),
        ((10_000_000, 400_000, 100_000, 100_000, 100_000, 100_000), [2, 3, 4, 5]),
        ((10_000_000, 100, 100_000, 100, 100, 100), []),
        ((10_000_000, 100_000, 100, 100, 100, 100), [2, 3, 4, 5]),
        ((100, 100), []),
        ((100_000, 60_000, 60_000), [0, 1, 2]),
        ((5,), []),
    ],
)
def test_neighbours_of_a_size_are_merged(rows: tuple[int, ...], merged: list[int]) -> None:
    assert [one.run for one in runs_to_merge(segments(*rows))] == merged


def test_a_row_is_rewritten_few_times_and_runs_stay_few() -> None:
    """Epochs of 250,000 rows on ten million keys: what compaction writes for each row that an epoch writes."""
    sizes, written, most = {0: 10_000_000}, 0, 0
    for epoch in range(1, 201):
        sizes[epoch] = 250_000
        while merged := runs_to_merge([segment(run, rows) for run, rows in sorted(sizes.items())]):
            rows = min(sum(one.rows for one in merged), 10_000_000)
            written += rows
            for one in merged:
                del sizes[one.run]
            sizes[max(one.run for one in merged)] = rows
        most = max(most, len(sizes))
    assert written / (200 * 250_000) < 6
    assert most <= 12
