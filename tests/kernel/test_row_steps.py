"""Steps that make rows of rows: what users' functions get and give, dead letters, order, and batches."""

from __future__ import annotations

import datetime
import pickle

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import penstock as ps
from penstock.errors import DefinitionError
from penstock.kernel.local import LocalKernel
from penstock.kernel.plan import Plan
from penstock.kernel.share import share
from penstock.model.reference import Reference
from penstock.model.time import BEGINNING
from penstock.testing import TestStream, replay
from tests.comparison import differences

S = ps.stream(
    "s", schema="line string, v int, at timestamp", event_time="at", watermark=ps.bounded("10 seconds"), max_ahead=None
)
ROWS = [("b a", 1, "12:00:01"), ("a c a", 2, "12:00:02"), (None, 3, "12:00:03"), ("", None, "12:00:04")]
SCRIPT = TestStream(S).add(*ROWS[:2]).add(*ROWS[2:])


def both(view: ps.View, script: TestStream = SCRIPT):
    """What reference and kernel give alike."""
    expected = replay(view, script, Reference(view))
    got = replay(view, script, LocalKernel(view, lambda rows: [rows[1:], rows[:1]]))
    assert not (found := differences(expected, got)), "\n".join(found)
    return got


def collected(flow: ps.Flow, column: str) -> list[object]:
    return both(flow.group_by().agg(found=ps.collect_list(column))).table[0]["found"]


def dead(flow: ps.Flow) -> list[str]:
    return [row["reason"] for row in both(flow.group_by().agg(n=ps.count())).dead]


def test_the_words_of_lines_are_counted_in_one_line_of_python_each_way():
    by_hand = S.flat_map(lambda row: (row.line or "").split(), schema="word string")
    by_sql = S.explode("split(line, ' ') AS word").where("word <> ''")
    tables = [both(flow.group_by("word").agg(n=ps.count())).table for flow in (by_hand, by_sql)]
    assert [(row["word"], row["n"]) for row in tables[0]] == [("a", 3), ("b", 1), ("c", 1)]
    assert tables[0] == tables[1]


def test_rows_made_of_one_event_keep_their_order():
    words = S.explode("split(line, ' ') AS word")
    assert collected(words, "word") == ["b", "a", "a", "c", "a", ""]
    assert collected(words.explode("array(word, upper(word)) AS w"), "w")[:6] == ["b", "B", "a", "A", "a", "A"]
    picked = words.group_by().agg(first=ps.first("word"), last=ps.last("word"), top=ps.top(3, "v", value="word"))
    row = both(picked, TestStream(S).add(*ROWS[:2])).table[0]
    assert (row["first"], row["last"], row["top"]) == ("b", "a", ["a", "c", "a"])
    pairs = words.group_by().window(ps.count_window(2)).agg(pair=ps.collect_list("word", order="position"))
    assert [row["pair"] for row in both(pairs).table] == [["b", "a"], ["a", "c"], ["a", ""]]


def test_branches_of_a_union_come_one_after_the_other():
    flow = S.where("v < 3").explode("array(2, 1) AS n").select("n").union(S.where("v < 3").select(n="0"))
    assert collected(flow, "n") == [2, 1, 0, 2, 1, 0]


def test_an_outer_explode_keeps_events_without_elements_and_the_position_is_a_column():
    flow = S.explode("split(line, ' ') AS word", outer=True, position="place")
    assert flow.schema.ddl() == "line string, v int, at timestamp, place int, word string"
    assert collected(flow.where("word IS NULL"), "v") == [3]
    assert collected(flow, "place") == [0, 1, 0, 1, 2, 0]


def test_a_function_gets_values_of_python_and_gives_a_dictionary_a_tuple_or_the_only_value():
    def seen(row):
        assert row.at == row["at"] == row[2]
        return {"day": row.at.date(), "at": row.at + datetime.timedelta(hours=1)}

    made = S.map(seen, schema="at timestamp, day date, nothing int")
    assert collected(made.select(h="hour(at) + coalesce(nothing, 0)"), "h") == [13, 13, 13, 13]
    assert collected(S.map(lambda row: (row.v, row.line), schema="n bigint, line string"), "n") == [1, 2, 3]
    assert collected(S.map(lambda row: row.v, schema="n double"), "n") == [1.0, 2.0, 3.0]
    assert collected(S.map(lambda row: [row.v, None], schema="n array<int>"), "n")[0] == [1, None]
    assert collected(S.flat_map(lambda row: iter([(row.v,)] * 2), schema="n int"), "n") == [1, 1, 2, 2, 3, 3]
    assert collected(S.filter(lambda row: row.v and row.v > 1), "v") == [2, 3]


def test_structs_and_maps_pass_through_functions():
    made = S.map(
        lambda row: {"m": {"v": row.v}, "s": {"at": row.at, "n": [row.v]}},
        schema="m map<string,int>, s struct<at:timestamp,n:array<int>>",
    )
    assert collected(made.filter(lambda row: row.s["at"].second < 3).explode("m AS key, value"), "value") == [1, 2]
    assert collected(made.select(n="element_at(s.n, 1) + m['v']"), "n") == [2, 4, 6]


def test_a_row_on_which_a_function_fails_is_a_dead_letter_and_the_others_count():
    def upper(row):
        return row.line.upper()

    view = S.map(upper, schema="line string").group_by().agg(n=ps.count())
    found = both(view)
    assert found.table[0]["n"] == 3
    assert [(row["v"], row["reason"]) for row in found.dead] == [
        (3, "map(upper) failed: AttributeError: 'NoneType' object has no attribute 'upper'")
    ]


@pytest.mark.parametrize(
    ("flow", "reason"),
    [
        (S.map(lambda row: {"n": row.v, "m": 1}, schema="n int"), "map(<lambda>): unknown column 'm'"),
        (S.map(lambda row: {"n": "x"}, schema="n int"), "map(<lambda>): the column 'n': 'x' is not of type int"),
        (S.map(lambda row: 1 << 40, schema="n int"), "map(<lambda>): the column 'n': 1099511627776 is not of type int"),
        (S.map(lambda row: "a\0", schema="t string"), "map(<lambda>): the column 't' has a NUL character"),
        (S.map(lambda row: 7, schema="a int, b int"),
         "map(<lambda>): it gave 7, and must give a dictionary or a tuple of a int, b int"),
        (S.flat_map(lambda row: "text", schema="t string"),
         "flat_map(<lambda>) failed: it gave str, and must give rows, for example a list of them"),
        (S.filter(lambda row: 1 / 0), "filter(<lambda>) failed: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_what_is_no_row_says_why(flow, reason):
    assert set(dead(flow)) == {reason}


def test_if_one_row_of_an_event_fails_none_of_them_counts():
    numbers = S.where("v IS NOT NULL").explode("array(v, 2, 0) AS n")
    found = both(numbers.select(x="6 div (n - 2)").group_by().agg(n=ps.count()))
    assert found.table[0]["n"] == 0
    assert sorted(row["v"] for row in found.dead) == [1, 2, 3]
    after = (
        S.where("v IS NOT NULL").explode("array(v, 1) AS n").flat_map(lambda row: [1, 2 // (row.n - 2)], schema="x int")
    )
    found = both(after.explode("array(x, x) AS y").group_by().agg(n=ps.count()))
    assert (found.table[0]["n"], [row["v"] for row in found.dead]) == (16, [2])


def test_late_rows_are_those_of_their_event():
    flow = S.explode("array(0, 60) AS late").with_time("timestamp_seconds(unix_seconds(at) - late)")
    view = flow.group_by().window(ps.fixed("1 minute")).agg(n=ps.count())
    found = both(view, TestStream(S).add(("a", 1, "12:05:15")).add(("b", 2, "12:05:30"), ("c", 3, "12:04:20")))
    assert sorted(row["v"] for row in found.late) == [2, 3, 3]


def test_events_that_were_multiplied_find_rows_in_tables():
    users = ps.table("users", schema="id int, name string", key="id")
    flow = (
        S.where("v IS NOT NULL")
        .explode("array(v, v + 1) AS n")
        .join(users, on="n = id")
        .map(lambda row: f"{row.name}{row.v}", schema="who string")
    )
    script = TestStream(S).table(users, (1, "x"), (2, "y"), (4, "z")).add(*ROWS)
    view = flow.group_by().agg(found=ps.collect_list("who"))
    assert both(view, script).table[0]["found"] == ["x1", "y1", "y2", "z3"]


# Batches


def batches(flow: ps.Flow, script: TestStream = SCRIPT):
    view = flow.group_by().agg(found=ps.collect_list("n"))
    return replay(view, script, LocalKernel(view))


def test_code_on_columns_gets_frames_of_polars_or_tables_of_arrow():
    polars = S.map_batches(lambda rows: rows.select(n=pl.col("v") * 2), schema="n bigint")
    assert batches(polars).table[0]["found"] == [2, 4, 6]
    arrow = S.map_batches(lambda rows: pa.table({"n": pc.add(rows["v"], 1)}), schema="n int", of="arrow")
    assert batches(arrow).table[0]["found"] == [2, 3, 4]


def test_the_rows_on_which_a_batch_fails_are_found():
    def checked(rows):
        if (rows["v"] == 2).any():
            raise ValueError("a two")
        return rows.select(n="v")

    found = batches(S.map_batches(checked, schema="n int"))
    assert found.table[0]["found"] == [1, 3]
    assert [(row["v"], row["reason"]) for row in found.dead] == [(2, "map_batches(checked) failed: ValueError: a two")]


def test_a_batch_must_keep_the_number_of_rows():
    found = batches(S.map_batches(lambda rows: rows.select(n="v").drop_nulls(), schema="n int"))
    assert found.table[0]["found"] == [1, 2, 3]  # alone, the rows that stay are as many as they were
    assert [row["reason"] for row in found.dead] == [
        "map_batches(<lambda>) failed: gave 0 rows for 1; use flat_map or explode to make more or fewer"
    ]


# Definitions


def test_steps_are_refused_that_cannot_mean_anything():
    with pytest.raises(DefinitionError, match="an array takes one name"):
        S.explode("split(line, ' ') AS a, b")
    with pytest.raises(DefinitionError, match="has a column 'v' already"):
        S.explode("split(line, ' ') AS v")
    with pytest.raises(DefinitionError, match="is string, and must be an array or a map"):
        S.explode("line AS word")
    with pytest.raises(DefinitionError, match="needs a name"):
        S.explode("split(line, ' ')")
    with pytest.raises(DefinitionError, match="takes a function"):
        S.map("v + 1", schema="n int")
    with pytest.raises(DefinitionError, match="unknown kind of batches"):
        S.map_batches(len, schema="n int", of="pandas")
    with pytest.raises(DefinitionError, match="struct"):
        S.map(lambda row: None, schema="s struct<a:int>").group_by("s").agg(n=ps.count())


def test_explain_prints_the_steps_and_they_travel():
    flow = S.flat_map(lambda row: row.line.split(), schema="word string").explode("split(word, '-') AS part")
    text = flow.filter(len).group_by("part").agg(n=ps.count()).explain()
    assert "→ flat_map(<lambda>, schema='word string')" in text
    assert "→ explode(\"split(word, '-') AS part\")" in text
    assert "→ filter(len)" in text
    view = flow.group_by("part").agg(n=ps.count())
    again = pickle.loads(cloudpickle.dumps(view))
    assert replay(again, SCRIPT, LocalKernel(again)).table == replay(view, SCRIPT, LocalKernel(view)).table


def test_values_that_cannot_be_stored_are_found_within_maps_and_structs():
    far = 300_000_000_000_000_000
    stream = ps.stream("s", schema="n int, m map<string,array<date>>, x array<struct<t:timestamp,c:string>>")
    rows = [
        {"n": 1, "m": {"a": [0]}, "x": [{"t": 0, "c": "b"}, None]},
        {"n": 2, "m": {"a\0": None}, "x": None},
        {"n": 3, "m": {"a": [9_000_000]}, "x": None},
        {"n": 4, "m": None, "x": [{"t": far, "c": None}]},
        {"n": 5, "m": None, "x": [{"t": far, "c": "\0"}]},
    ]
    found = both(stream.group_by("n").agg(k=ps.count()), TestStream(stream).add(*rows))
    assert [row["n"] for row in found.table] == [1]
    assert sorted((row["n"], row["reason"]) for row in found.dead) == [
        (2, "the column 'm' has a NUL character"),
        (3, "the column 'm' lies outside the years 1 to 9999"),
        (4, "the column 'x' lies outside the years 1 to 9999"),
        (5, "the column 'x' has a NUL character"),
    ]


def test_views_that_share_a_function_call_it_once():
    calls: list[int] = []

    def noted(row):
        calls.append(row.v)
        return [row.v, row.v]

    flow = S.where("v > 0").flat_map(noted, schema="n int")
    views = [flow.group_by("n").agg(k=ps.count()), flow.where("n > 1").group_by().agg(all=ps.collect_list("n"))]
    rows = pl.DataFrame(
        {"line": ["a", "b"], "v": pl.Series([1, 2], dtype=pl.Int32), "at": pl.Series([0, 0]), "__at": [0, 0]}
    ).with_columns(pl.lit(0, pl.Int32).alias("__partition"), pl.Series("__offset", [0, 1]))
    sharing = share("s", [Plan(view) for view in views], rows)
    batch = sharing.reduce(rows, [BEGINNING, BEGINNING])
    assert calls == [1, 2]
    assert [batch.own[number].deltas["__n"].sum() for number in (0, 1)] == [4, 2]


RATES = ps.table("rates", schema="v int, rate int", key="v")
PRICES = ps.table("prices", schema="v int, price int, since timestamp", key="v", valid_from="since")


def test_functions_look_rows_up_in_the_version_of_the_commit():
    def rated(row, rates):
        found = rates.get(row.v)
        return None if found is None else found.rate

    script = TestStream(S).table(RATES, (1, 10)).add(*ROWS[:2]).table(RATES, (1, 11), (3, 30)).add(*ROWS[2:], ROWS[0])
    mapped = S.map(rated, schema="rate int", tables=[RATES]).where("rate IS NOT NULL")
    assert both(mapped.group_by().agg(found=ps.collect_list("rate")), script).table[0]["found"] == [10, 11, 30]
    kept = S.filter(lambda row, rates: rates.get(row.v), tables=[RATES])
    assert both(kept.group_by().agg(found=ps.collect_list("v")), script).table[0]["found"] == [1, 1, 3]
    several = S.flat_map(lambda row, rates: [one.rate for one in rates.rows()], schema="rate int", tables=[RATES])
    assert both(several.group_by().agg(n=ps.count()), script).table[0]["n"] == 2 + 3 * 2


def test_a_table_beside_a_function_is_as_of_the_events_time():
    def price(row, rates, prices):
        return -1 if prices.get(row.v) is None else prices.get(row.v).price

    script = TestStream(S).table(PRICES, (1, 5, None), (1, 6, "12:00:02"), (2, 7, "12:00:03"))
    script = script.add(("x", 1, "12:00:01"), ("x", 1, "12:00:02"), ("x", 2, "12:00:02"), ("x", 2, "12:00:03"))
    prices = S.map(price, schema="price int", tables=[RATES, PRICES])
    assert both(prices.group_by().agg(found=ps.collect_list("price")), script).table[0]["found"] == [5, 6, -1, 7]
    with pytest.raises(DefinitionError, match="as of the event's time"):
        ps.stream("plain", schema="v int").map(price, schema="price int", tables=[PRICES])


def test_a_function_with_tables_that_fails_makes_dead_letters():
    wrong = S.map(lambda row, rates: rates.get(row.v).rate, schema="rate int", tables=[RATES])
    script = TestStream(S).table(RATES, (1, 10)).add(*ROWS[:2])
    reasons = [row["reason"] for row in both(wrong.group_by().agg(n=ps.count()), script).dead]
    assert reasons == ["map(<lambda>) failed: AttributeError: 'NoneType' object has no attribute 'rate'"]
