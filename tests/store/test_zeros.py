"""The sign of zero: kept where a value is shown as it came; one zero where values are grouped, compared or added."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import penstock as ps
from penstock.sinks.files import plain
from penstock.sinks.rows import Decoder
from penstock.testing import TestStream, run
from tests.sinks.support import Fed
from tests.store.engine import NAME

STREAM = ps.stream("s", schema="k string, x double, f float")
VIEW = STREAM.group_by("x").agg(
    first=ps.first("x"), last=ps.last("f"), several=ps.collect_list("x", order="position"), best=ps.top(2, "x"),
    by=ps.max_by("x", "k"), total=ps.sum("x"), mean=ps.avg("x"), low=ps.min("x"), high=ps.max("f"),
    distinct=ps.collect_set("x"),
)  # fmt: skip
SCRIPT = TestStream(STREAM).add(("a", -0.0, -0.0), ("b", -0.0, -0.0))
AS_IT_CAME = {"first": "-0.0", "last": "-0.0", "several": "[-0.0, -0.0]", "best": "[-0.0, -0.0]", "by": "-0.0"}
ONE_ZERO = {"x": "0.0", "total": "0.0", "mean": "0.0", "low": "0.0", "high": "0.0", "distinct": "[0.0]"}


def texts(row: dict[str, object]) -> dict[str, str]:
    return {name: str(row[name]) for name in AS_IT_CAME | ONE_ZERO}


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_the_engines_keep_the_sign_of_values_and_have_one_zero_otherwise(engine):
    result = run(VIEW, SCRIPT, engine)
    for rows in (result.table, result.panes):
        assert [texts(row) for row in rows] == [AS_IT_CAME | ONE_ZERO]


def test_the_sign_survives_the_store_and_what_sinks_get(tmp_path: Path):
    fed = Fed(VIEW, tmp_path, SCRIPT)
    fed.step()
    panes, table = fed.panes(), fed.store.query(f"SELECT * FROM {NAME}")
    fed.store.close()
    decoder = Decoder(VIEW)
    for row in (*decoder.panes(panes), *decoder.table(table)):
        assert texts(row) == AS_IT_CAME | ONE_ZERO
        assert json.loads(json.dumps(plain(row)))["first"] == 0
        assert '"first": -0.0' in json.dumps(plain(row))


def test_zeros_of_both_signs_are_equal_in_the_stores_sql(tmp_path: Path):
    fed = Fed(STREAM.group_by("k").agg(x=ps.last("x")), tmp_path, TestStream(STREAM).add(("a", -0.0, 0), ("b", 0.0, 0)))
    fed.step()
    for condition in ("x = 0", "x = -0.0", "x >= 0", "x < 0.5"):
        assert fed.store.query(f"SELECT count(*) FROM {NAME} WHERE {condition}").item() == 2
    fed.store.close()
