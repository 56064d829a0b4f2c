"""What sinks get is what the model says: random views, values of every type, and years that Python does not know.

The views for append reach triggers that leave a window without a final pane: `check` must refuse them.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import DefinitionError
from penstock.model.time import show_instant, to_datetime
from penstock.model.windows import CountBased
from penstock.sinks import check, to_console
from penstock.sinks.files import Jsonl, Parquet, plain
from penstock.sinks.rows import Decoder, PaneRows, column_of
from penstock.testing import TestStream, run
from tests.sinks.support import STREAM, Fed
from tests.store.engine import NAME
from tests.strategies import cases, scripts, views


def outbox_and_table(view: ps.View, script: TestStream) -> tuple[pl.DataFrame, pl.DataFrame]:
    with tempfile.TemporaryDirectory() as directory:
        fed = Fed(view, Path(directory), script)
        try:
            for commit in fed.commits:
                if commit is None:
                    fed.engine = fed.engine.restart()
                else:
                    fed.engine.commit(commit)
            return fed.panes(), fed.store.query(f"SELECT * FROM {NAME}")
        finally:
            fed.store.close()


def canonical(rows: list[dict]) -> list[str]:
    return [repr(sorted(row.items())) for row in rows]


@cases(25, deep=32)
@given(views(), st.data())
def test_panes_and_table_decode_to_what_the_model_has(view, data):
    script = data.draw(scripts(view))
    expected = run(view, script)
    panes, table = outbox_and_table(view, script)
    rows = Decoder(view).panes(panes)
    assert [row.pop("pane") for row in rows] == list(range(1, len(rows) + 1))
    assert canonical(rows) == canonical(expected.panes)
    decoded = Decoder(view).table(table)
    assert sorted(canonical(decoded)) == sorted(canonical(expected.table))
    assert all(list(row) == list(Decoder(view).schema("complete")) for row in decoded)


TRIGGERS = [
    ps.on_close(), ps.each(), ps.after_count(2), ps.every("5 seconds"), ps.each().or_finally(ps.on_close()),
    *(
        ps.on_time(early=early, late=late, unchanged=unchanged)
        for early in (None, ps.each())
        for late in (None, ps.never(), ps.after_count(3))
        for unchanged in ("fire", "skip")
    ),
]  # fmt: skip
WINDOWS = [ps.fixed("10 seconds"), ps.session("4 seconds"),
           ps.count_window(3)]  # fmt: skip


def appendable() -> Iterator[tuple[ps.View, DefinitionError | None]]:
    """Views of every shape, and why each cannot be appended."""
    for window, trigger, late in product(WINDOWS, TRIGGERS, ["0 seconds", "8 seconds"]):
        if late != "0 seconds" and not window.ends_in_event_time:
            continue
        grouped = STREAM.group_by("k").window(window).agg(n=ps.count())
        try:
            plain_view = grouped.trigger(trigger).allow_late(late)
        except DefinitionError:  # late panes of windows that are closed as soon as they are full
            assert isinstance(window, CountBased)
            continue
        for view in (plain_view, plain_view.discarding(), plain_view.retracting()):
            try:
                check(to_console(mode="append"), view)
            except DefinitionError as error:
                yield view, error
            else:
                yield view, None


def appended_and_final(view: ps.View, seed: int) -> tuple[list[str], list[str]]:
    """What append would give of a random stream with late events, and the table's final rows."""
    chance, script = random.Random(seed), TestStream(STREAM)
    for second in range(0, 40, 4):
        ats = [max(0, second - chance.choice([0, 0, 1, 5, 9])) for _ in range(chance.randrange(1, 4))]
        script = script.add(*((chance.choice("ab"), 1, f"12:00:{at:02}") for at in ats))
    result = run(view, script.clock("+7 seconds").watermark("12:02:00"))
    panes = [row for row in result.panes if row["kind"] == "insert" and row["final"]]
    shown = [{name: row[name] for name in view.columns} for row in panes]
    return sorted(canonical(shown)), sorted(canonical([row for row in result.table if row["final"]]))


def test_append_gives_each_final_row_of_the_table_once():
    for view, error in appendable():
        if error is None:
            appended, final = appended_and_final(view, seed=0)
            assert appended == final, view


def test_append_is_refused_only_where_it_would_lose_or_garble_windows():
    reasons: dict[str, bool] = {}
    for view, error in appendable():
        if error is not None:
            reason = error.message.partition(": ")[2][:30]
            if not reasons.get(reason):
                appended, final = appended_and_final(view, seed=0)
                reasons[reason] = appended != final
    assert reasons
    assert all(reasons.values()), reasons


EVERYTHING = ps.stream(
    "e",
    schema="d date, t timestamp, b binary, f float, x double, y boolean, c decimal(12,2), w decimal(30,4), s string",
)
VALUES = EVERYTHING.group_by("y", "d").agg(
    t=ps.max("t"), ts=ps.collect_list("t", order="position"), ds=ps.collect_list("d", order="position"),
    b=ps.max("b"), f=ps.max("f"), x=ps.max("x"), c=ps.max("c"), w=ps.sum("w"),
    cs=ps.collect_list("c", order="position"),
    hot=ps.heavy_hitters("s"),
)  # fmt: skip


def test_values_of_every_type_come_back_typed_in_panes_and_table():
    noon, day = datetime(2024, 5, 1, 12, 0, 0, 500_000, UTC), date(2024, 5, 1)
    given = [
        {
            "d": day, "t": noon, "b": b"\x00\xff", "f": 0.5, "x": float("nan"), "y": True, "c": Decimal("1.10"),
            "w": Decimal("123456789012345678901234.5678"), "s": "é\n\"",
        }
    ]  # fmt: skip
    panes, table = outbox_and_table(VALUES, TestStream(EVERYTHING).add(*given))
    decoder = Decoder(VALUES)
    (pane,), (row,) = decoder.panes(panes), decoder.table(table)
    for shown in (pane, row):
        assert (shown["y"], shown["d"], shown["window_start"], shown["window_end"]) == (True, day, None, None)
        assert (shown["t"], shown["ts"], shown["ds"]) == (noon, [noon], [day])
        assert (shown["b"], shown["f"], str(shown["x"])) == (b"\x00\xff", 0.5, "nan")
        assert (str(shown["c"]), str(shown["cs"][0])) == ("1.10", "1.10")
        assert shown["w"] == Decimal("123456789012345678901234.5678")
        assert shown["hot"] == [{"item": 'é\n"', "estimate": 1}]
    text = plain(pane)
    assert (text["t"], text["d"], text["x"], text["c"]) == ("2024-05-01T12:00:00.5Z", "2024-05-01", "NaN", "1.10")
    assert text["b"] == "AP8="


def in_parquet(rows: list[dict], schema: dict[str, pl.DataType]) -> pl.DataFrame:
    with tempfile.TemporaryFile() as file:
        Parquet("unused").write(file, rows, schema)  # type: ignore[arg-type]
        file.seek(0)
        return pl.read_parquet(file.read())


def test_parquet_has_the_types_of_the_view_also_without_rows_and_with_nulls_only():
    decoder = Decoder(VALUES)
    schema = decoder.schema("panes")
    assert in_parquet([], schema).schema == pl.Schema(schema)
    nothing = dict.fromkeys(schema)
    assert in_parquet([nothing, nothing], schema).rows(named=True) == [nothing, nothing]
    assert in_parquet([nothing], schema).schema == pl.Schema(schema)


COUNTED = ps.stream("c", schema="n bigint")
FAR = COUNTED.group_by().agg(
    t=ps.max("timestamp_micros(n)"), ts=ps.collect_list("timestamp_micros(n)", order="position")
)


@pytest.mark.parametrize("year", [-1199, 9998, 10_001, 26_059])
def test_years_that_python_does_not_know_stay_numbers_and_reach_parquet(year, tmp_path):
    """Rows with such times are refused, but an expression can make one."""
    micros = int((year - 1970) * 365.2425) * 86_400_000_000
    fed = Fed(FAR, tmp_path, TestStream(COUNTED).add((micros,)))
    with suppress(DefinitionError):  # after the commit the small engine cannot read them
        fed.step()
    panes, table = fed.panes(), fed.store.query(f"SELECT * FROM {NAME}")
    fed.store.close()
    decoder = Decoder(FAR)
    rows = [*decoder.panes(panes), *decoder.table(table)]
    assert len(rows) == 2
    for row in rows:
        assert row["t"] == (to_datetime(micros) if 1 < year <= 9999 else micros)
        assert plain(row)["t"] == (show_instant(micros) if 1 < year <= 9999 else micros)
    stored = in_parquet(decoder.panes(panes), decoder.schema("panes"))
    assert stored["t"].to_physical().to_list() == [micros]
    assert stored["ts"].explode().to_physical().to_list() == [micros]


def columns_of_all_types(size: int) -> st.SearchStrategy[dict[str, list[Any]]]:
    """Values of Python for `ALL_TYPES`, some of them null."""
    micros = st.integers(-(10**18), 10**18).map(lambda number: number // 10 ** (number % 7) * 10 ** (number % 7))
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "text": st.text(), "whole": st.integers(-(2**63), 2**63 - 1), "few": st.integers(-128, 127),
        "real": st.floats(), "short": st.floats(width=32), "yes": st.booleans(), "bytes": st.binary(max_size=5),
        "day": st.integers(-(10**6), 10**7), "at": micros,
        "money": st.decimals("-999", "999", places=2), "big": st.decimals("-9e20", "9e20", places=4),
    }  # fmt: skip
    kinds["list"] = st.lists(st.none() | kinds["at"], max_size=3)
    kinds["parts"] = st.fixed_dictionaries({"x": st.none() | kinds["real"], 'y"': st.none() | kinds["text"]})
    return st.fixed_dictionaries({n: st.lists(st.none() | k, min_size=size, max_size=size) for n, k in kinds.items()})


UTC_TIME = pl.Datetime("us", "UTC")
ALL_TYPES = {
    "text": pl.String(), "whole": pl.Int64(), "few": pl.Int8(), "real": pl.Float64(), "short": pl.Float32(),
    "yes": pl.Boolean(), "bytes": pl.Binary(), "day": pl.Date(), "at": UTC_TIME, "money": pl.Decimal(5, 2),
    "big": pl.Decimal(30, 4), "list": pl.List(UTC_TIME), "parts": pl.Struct({"x": pl.Float64(), 'y"': pl.String()}),
}  # fmt: skip


@cases(50, deep=20)
@given(st.integers(0, 4).flatmap(columns_of_all_types))
def test_columns_become_the_json_that_rows_become(values):
    rows = PaneRows(pl.DataFrame([column_of(name, kind, values[name]) for name, kind in ALL_TYPES.items()]))
    file = BytesIO()
    Jsonl("unused").write(file, rows, ALL_TYPES)
    lines = file.getvalue().decode().split("\n")[:-1]
    assert [as_numbers(json.loads(line)) for line in lines] == [as_numbers(plain(row)) for row in rows]


def as_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """A row with decimals as such: as text they can have zeros in other ways."""
    return {name: Decimal(row[name]) if name in ("money", "big") and row[name] else row[name] for name in row}
