"""What events find in the files of a large table is what they find in memory; and numbers of keys never change."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import penstock as ps
from penstock.kernel import lookup
from penstock.kernel.expressions import dtype
from penstock.kernel.tables import find, write_sorted
from penstock.model.table import Snapshot, TableJoin
from penstock.process_state import process

TEXTS = st.text("ab\u00e9\0", max_size=3)
KEYS = {
    "int": st.integers(-3, 3),
    "string": TEXTS,
    "binary": st.binary(max_size=2),
    "date": st.dates(date(1960, 1, 1), date(1960, 1, 4)),
    "boolean": st.booleans(),
    "decimal(5,2)": st.decimals(-1, 1, places=1),
}


@st.composite
def tables(draw):
    """The kinds of a key, rows of a table, and keys that are looked for."""
    kinds = draw(st.lists(st.sampled_from(list(KEYS)), min_size=1, max_size=3))
    keys = st.tuples(*(st.none() | KEYS[kind] for kind in kinds))
    rows = st.tuples(keys, st.none() | st.integers(0, 5))
    return kinds, draw(st.lists(rows, max_size=20, unique_by=lambda row: row)), draw(st.lists(keys, max_size=20))


@given(tables(), st.booleans(), st.integers(1, 3), st.sampled_from(["inner", "left"]))
def test_what_is_looked_up_in_files_is_what_memory_holds(told, timed, files, how):
    kinds, rows, wanted = told
    if not timed:  # one row a key
        rows = list({key: (key, since) for key, since in rows}.values())
    types = {f"k{n}": dtype(kind) for n, kind in enumerate(kinds)}
    frame = _frame([key for key, _ in rows], types).with_columns(
        pl.Series("since", [since for _, since in rows], pl.Int64).cast(dtype("timestamp")),
        pl.int_range(len(rows), dtype=pl.Int32).alias("v"),
    )
    schema = ", ".join(f"k{n} {kind}" for n, kind in enumerate(kinds))
    table = ps.table(
        "t", schema=f"{schema}, since timestamp, v int", key=list(types), valid_from="since" if timed else None
    )
    asked = ", ".join(f"w{n} {kind}" for n, kind in enumerate(kinds))
    events = ps.stream("events", schema=f"{asked}, at timestamp", event_time="at")
    left = _frame(wanted, {f"w{n}": kind for n, kind in enumerate(types.values())}).with_columns(
        pl.lit(2, pl.Int64).alias("__at"), pl.int_range(pl.len()).alias("__n")
    )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / lookup.FOLDER
        place.mkdir()
        frame.write_parquet(Path(folder) / "part-0.parquet")
        numbers = lookup.numbers(frame.drop_nulls(list(types)).select(*types))
        pieces = frame.drop_nulls(list(types)).with_columns(numbers).sort(lookup.NUMBER).drop(lookup.NUMBER)
        for n in range(files):  # cut anywhere
            each = -(-pieces.height // files)
            write_sorted(table, pieces.slice(n * each, each), place / f"{n}.arrow")
        found = []
        for large in (False, True):
            on = tuple(f"w{n}" for n in range(len(kinds)))
            step = TableJoin(events, table, on, how, snapshot=Snapshot(1, folder, large))
            found.append(find(step, left.lazy(), [pl.col(name) for name in on]).collect().sort("__n"))
        process.of(lookup.OpenLookups).clear()
    assert_frame_equal(*found)


def _frame(rows, types):
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    told = zip(types.items(), columns, strict=True)
    return pl.DataFrame([pl.Series(name, list(values), kind) for (name, kind), values in told])


def test_rows_of_one_number_are_found_where_they_cross_batches(tmp_path):
    lookup.write(pl.DataFrame({"v": range(6), lookup.NUMBER: [1, 7, 7, 7, 7, 9]}), tmp_path / "0.arrow", batch=2)
    assert lookup.Lookup(str(tmp_path)).rows(pl.Series([7, 8]))["v"].sort().to_list() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        ({"a": ["ann"]}, -7483770165988684330),
        ({"a": [""], "b": [True]}, 6238072747940578789),
        ({"a": [date(1970, 1, 3)]}, 2),
    ],
)
def test_the_number_of_a_key_is_the_same_for_ever(keys, number):
    """Files that were written once are read by every later version of Penstock."""
    assert lookup.numbers(pl.DataFrame(keys)).to_list() == [number]


def test_few_keys_have_the_same_number():
    texts = pl.Series([f"user{n}" for n in range(200_000)])
    assert lookup.numbers(pl.DataFrame({"a": texts})).n_unique() == 200_000
    assert lookup.numbers(pl.DataFrame({"a": texts, "b": texts.reverse()})).n_unique() == 200_000
