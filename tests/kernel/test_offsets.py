"""Only `kernel/offsets.py` knows how offsets are packed, and Spark SQL packs them as Python does."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import penstock
from penstock.kernel.offsets import made_offset, made_offset_sql, spark_number

#: Shifts by the numbers of bits in offsets, and Spark's function for the numbers of rows.
PACKING = re.compile(r"(<<|>>) ?(33|38)\b|shift(left|right)\(|ROW_BITS|TASK_BITS")


def test_no_other_file_packs_offsets():
    source = Path(penstock.__file__).parent
    files = [path for path in source.rglob("*.py") if PACKING.search(path.read_text(encoding="utf-8"))]
    assert [str(path.relative_to(source)) for path in files] == ["kernel/offsets.py"]


@pytest.mark.parametrize(("epoch", "task", "row"), [(0, 0, 0), (7, 3, 5), (1_000_000, 4095, (1 << 26) - 1)])
def test_the_expression_of_spark_gives_the_same_offset(epoch: int, task: int, row: int):
    sql = made_offset_sql(str(epoch), str(spark_number(task, row)))
    # DuckDB has the same operators under other names; tests/runtime/test_poison.py runs it on Spark.
    sql = re.sub(r"(\d+)L\b", r"\1", sql).replace("shiftleft(", "left_shift(").replace("shiftright(", "right_shift(")
    duckdb.sql("CREATE OR REPLACE TEMP MACRO left_shift(x, n) AS x::BIGINT << n")
    duckdb.sql("CREATE OR REPLACE TEMP MACRO right_shift(x, n) AS x::BIGINT >> n")
    assert duckdb.sql(f"SELECT {sql}").fetchall() == [(made_offset(epoch, task, row),)]
