"""Every final table equals a plain recomputation from all events, under the recorded watermarks.

The recomputation is written without the engine's code: which windows an instant belongs to is found by trying all
starts, sessions by joining neighbours until nothing changes, and values with Python's own sum, max and set.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.kernel.local import LocalKernel
from penstock.model.commits import Commit
from penstock.testing import DAY
from tests.comparison import same
from tests.kernel.test_against_reference import cut_with
from tests.strategies import SCHEMA, SECOND, cases, scripts, seconds

BASE = DAY + 12 * 3600 * SECOND
VALUES = {
    "n": ps.count(),
    "s": ps.sum("v"),
    "m": ps.max("v"),
    "d": ps.count_distinct("v"),
    "o": ps.count(where="v > 2"),
}


def plain_values(rows):
    values = [row["v"] for row in rows if row["v"] is not None]
    return (
        len(rows),
        sum(values) if values else None,
        max(values) if values else None,
        len(set(values)),
        len([v for v in values if v > 2]),
    )


def recorded(view, script, seed):
    """The commits with the watermark in force when each began and the one after the last, and the final table."""
    kernel = LocalKernel(view, cut_with(seed))
    commits: list[tuple[Commit, int]] = []
    for commit in script.commits():
        if commit is None:
            kernel = kernel.restart()
            continue
        commits.append((commit, kernel.time.watermark))
        kernel.commit(commit)
    return commits, kernel.time.watermark, kernel.table()


def plain_windows(at, size, every):
    """All [start, start + size) with a start at a multiple of `every`, by trying them."""
    first = (at - size) // every - 1
    starts = [every * i for i in range(first, at // every + 2)]
    return [(start, start + size) for start in starts if start <= at < start + size]


def stream_of(delay):
    watermark = ps.bounded(delay, idle=None)
    return ps.stream("s", schema=SCHEMA, event_time="at", watermark=watermark, max_ahead=None)


@cases(100, deep=40)
@given(
    st.integers(1, 20), st.integers(1, 9), st.integers(0, 20), seconds(0, 15), st.integers(0, 1000), st.data()
)  # fmt: skip
def test_sliding_windows_hold_what_plain_grouping_gives(size, every, lateness, delay, seed, data):
    window = ps.sliding(f"{size} seconds", every=f"{every} seconds")
    view = stream_of(delay).group_by("k").window(window).agg(**VALUES).allow_late(f"{lateness} seconds")
    commits, end, table = recorded(view, data.draw(scripts(view)), seed)
    groups: dict[tuple, list] = {}
    for commit, watermark in commits:
        for event in commit.events:
            at = event.row["at"]
            if at is None:
                continue
            for window_start, window_end in plain_windows(at, size * SECOND, every * SECOND):
                if watermark < window_end + lateness * SECOND:
                    groups.setdefault((event.row["k"], window_start, window_end), []).append(event.row)
    expected = {where: (plain_values(rows), end >= where[2] + lateness * SECOND) for where, rows in groups.items()}
    got = {(row.key[0], *row.window): (row.values, row.final) for row in table}
    assert got.keys() == expected.keys()
    for where, value in expected.items():
        assert same(list(got[where][0]), list(value[0])), where
        assert got[where][1] == value[1]


@cases(100, deep=40)
@given(st.integers(1, 15), seconds(0, 15), st.integers(0, 1000), st.data())
def test_sessions_that_never_close_hold_what_joining_neighbours_gives(gap, delay, seed, data):
    view = stream_of(delay).group_by("k").window(ps.session(f"{gap} seconds")).agg(**VALUES).allow_late("400 days")
    commits, _, table = recorded(view, data.draw(scripts(view)), seed)
    sessions: list[tuple[object, set[int], list]] = []
    for row in (event.row for commit, _ in commits for event in commit.events if event.row["at"] is not None):
        near = [s for s in sessions if s[0] == row["k"] and any(abs(at - row["at"]) <= gap * SECOND for at in s[1])]
        sessions = [s for s in sessions if s not in near]
        times = {row["at"]}.union(*(s[1] for s in near))
        sessions.append((row["k"], times, [row, *(r for s in near for r in s[2])]))
    expected = {(k, min(times), max(times) + gap * SECOND): plain_values(rows) for k, times, rows in sessions}
    got = {(row.key[0], *row.window): row.values for row in table}
    assert got.keys() == expected.keys()
    assert all(same(list(got[where]), list(expected[where])) for where in expected)


@cases(75, deep=40)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 1000), st.data())
def test_count_windows_hold_every_so_many_rows_in_log_order(size, every, seed, data):
    view = stream_of("0 seconds").group_by("k").window(ps.count_window(size, every=every)).agg(**VALUES)
    commits, _, table = recorded(view, data.draw(scripts(view)), seed)
    sequences: dict[object, list] = {}
    for commit, _ in commits:
        for event in sorted(commit.events, key=lambda e: (e.partition, e.offset)):
            if event.row["at"] is not None:
                sequences.setdefault(event.row["k"], []).append(event.row)
    expected = {}
    for key, rows in sequences.items():
        for start in range(0, len(rows), every):
            part = rows[start : start + size]
            expected[(key, start, start + size)] = (plain_values(part), len(part) == size)
    got = {(row.key[0], *row.window): (row.values, row.final) for row in table}
    assert got.keys() == expected.keys()
    assert all(same(list(got[w][0]), list(expected[w][0])) and got[w][1] == expected[w][1] for w in expected)
