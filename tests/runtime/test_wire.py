"""The records between tasks and the driver: what is written is read again, and one module knows their kinds."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.model.watermarks import Observation, PartitionTimes
from penstock.runtime.epoch import wire
from penstock.store.file import File

FRAME = pl.DataFrame({"n": [1, 2], "text": ["a", None]})


def sent(*records: wire.Record) -> wire.TaskOutput:
    """The records as they arrive: through Arrow, as `mapInArrow` returns them."""
    table = pa.Table.from_batches(list(wire.as_batches(records)))
    return wire.read(wire.records_of(table.to_pylist()))


def test_every_record_is_read_as_it_was_written():
    file = File("events/a.parquet", "s", "events", 3, 3, 2, 100, "sum", 1, None)
    output = sent(
        wire.observed(2, Observation({0: PartitionTimes(5, None), 1: PartitionTimes(9, 7)}, {3: 1})),
        wire.observed(1, Observation({0: PartitionTimes(6, None)}, {3: 2})),
        wire.row_count(4),
        wire.history_file(file),
        wire.ids(FRAME),
        wire.rejected("late", FRAME),
        wire.rejected("dead", FRAME.head(1)),
        wire.flow_rows(1, FRAME),
        wire.sample(FRAME),
        wire.sample(FRAME.head(1)),
        wire.suspects(FRAME),
        wire.shared_deltas(0, FRAME),
        wire.deltas(2, FRAME),
        wire.deltas(2, FRAME.head(1)),
    )
    assert output.rows == 7
    assert output.observed == Observation({0: PartitionTimes(6, None), 1: PartitionTimes(9, 7)}, {3: 3})
    assert output.files == [file]
    assert output.sample is not None
    assert output.sample.equals(FRAME)
    assert [frame.height for frame in output.rejected["late"] + output.rejected["dead"]] == [2, 1]
    assert [frame.height for frame in output.deltas[2]] == [2, 1]
    for frames in (output.ids, output.flow_rows[1], output.suspects, output.shared_deltas[0]):
        assert frames[0].equals(FRAME)


def test_no_records_are_no_batches():
    assert not list(wire.as_batches([]))
    assert wire.read([]) == wire.TaskOutput()


def test_a_record_of_another_version_is_not_taken_for_rejected_rows():
    with pytest.raises(AssertionError, match="own"):
        wire.read([wire.Record("own", 0, wire.pack(FRAME))])


def test_no_other_module_names_the_kinds_of_records():
    source = Path(penstock.__file__).parent
    kinds = re.compile(r'"(observed|row count|flow rows|suspects|shared deltas|rejected )"|record\["kind"\]')
    files = [path for path in source.rglob("*.py") if kinds.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(source)) for path in files] == ["runtime/epoch/wire.py"]
