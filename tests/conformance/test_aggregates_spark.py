"""The aggregates against Spark SQL: its answer, the model's and the kernel's are one, on edge values of every type."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import penstock as model
import penstock.model.aggregates as ps
from penstock.kernel.aggregates import columns
from penstock.model.aggregates import Aggregate, Origin
from penstock.testing import TestStream, run
from tests.kernel.test_aggregates import Row, by_model, frame_of, near, presented, reduced, slack
from tests.model.test_aggregates import NUMBERS, SCALARS, VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: How a value that Python would get in its own time zone travels to Spark and back: as a number.
IN = {"date": "date_from_unix_date(cast({} AS int))", "timestamp": "timestamp_micros({})"}
OUT = {"date": "unix_date({})", "timestamp": "unix_micros({})"}
#: Every row with what orders it, in order; `{x}` and `{filter}` are filled in.
ROWS = "sort_array(collect_list(struct(at, part, pos, {x} AS v)) FILTER (WHERE {filter}))"


def spark_sql(aggregate: Aggregate, kind: str) -> str:
    """The same question in Spark's words, with an order where Spark's own function depends on that of the rows."""
    taken = aggregate.where or "true"
    rows = ROWS.format(x="x", filter=taken)
    match aggregate:
        case ps.First() | ps.Last():
            return out(f"element_at({rows}, {1 if isinstance(aggregate, ps.First) else -1}).v", kind)
        case ps.MinBy() | ps.MaxBy():
            pick = "min" if isinstance(aggregate, ps.MinBy) else "max"
            return (
                f"{pick}_by(k, struct(x, {'' if pick == 'min' else '-'}pos)) FILTER (WHERE x IS NOT NULL AND {taken})"
            )
        case ps.Top():
            best = (
                f"sort_array(collect_list(struct(x, -pos AS pos, k)) FILTER (WHERE x IS NOT NULL AND {taken}), false)"
            )
            return f"transform(slice({best}, 1, {aggregate.k}), s -> s.k)"
        case ps.CollectList():
            rows = ROWS.format(x="x", filter=f"x IS NOT NULL AND {taken}")
            return f"transform({rows}, s -> {out('s.v', kind)})"
        case ps.CollectSet():
            return f"transform(sort_array(collect_set(x) FILTER (WHERE {taken})), v -> {out('v', kind)})"
        case ps.CountDistinct():
            return f"count(DISTINCT x) FILTER (WHERE {taken})"
        case ps.Quantile():
            number = "cast(x AS double)"
            rows = f"WITHIN GROUP (ORDER BY {number}) FILTER (WHERE NOT isnan({number}) AND {taken})"
            return f"percentile_disc({aggregate.q}) {rows}"
        case ps.ApproxDistinct():
            return f"coalesce(hll_sketch_estimate(hll_sketch_agg(x) FILTER (WHERE {taken})), 0)"
    function = {"sum": "try_sum", "avg": "try_avg"}.get(aggregate.word, aggregate.word)
    return out(
        f"{function}({', '.join(aggregate.inputs) or '*'}) FILTER (WHERE {taken})", aggregate_kind(aggregate, kind)
    )


def aggregate_kind(aggregate: Aggregate, kind: str) -> str:
    return kind if isinstance(aggregate, (ps.Min, ps.Max)) else "bigint"


def out(sql: str, kind: str) -> str:
    return OUT.get(kind, "{}").format(sql)


def questions(kind: str) -> Iterator[tuple[Aggregate, tuple[str, ...]]]:
    yield from ((ps.count(where=where), ()) for where in (None, "take"))
    for make in (ps.count, ps.min, ps.max, ps.first, ps.last, ps.collect_list, ps.collect_set, ps.count_distinct):
        yield make("x"), (kind,)
    yield from ((make("x", where="take"), (kind,)) for make in (ps.count, ps.max, ps.last, ps.collect_set))
    yield from ((make("k", "x"), ("string", kind)) for make in (ps.min_by, ps.max_by))
    yield ps.max_by("k", "x", where="take"), ("string", kind)
    yield from ((ps.top(2, "x", value="k", where=where), (kind, "string")) for where in (None, "take"))
    if kind in ("int", "bigint", "string"):
        yield ps.approx_distinct("x"), (kind,)
    if kind in NUMBERS:
        for number in (ps.sum, ps.avg, ps.variance, ps.var_pop, ps.stddev, ps.stddev_pop):
            yield number("x"), (kind,)
        yield from ((number("x", where="take"), (kind,)) for number in (ps.sum, ps.avg))
        yield ps.quantile("x", 0.4), (kind,)


def cases(kind: str) -> list[list[Any]]:
    """Nothing but nulls, every ordered pair of edge values, and all of them together."""
    values = [None, *VALUES[kind]]
    finite = [v for v in values if not isinstance(v, float) or abs(v) < float("inf")]
    return [[None, None, None], [None], *map(list, itertools.product(values, repeat=2)), values, finite * 2]


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark without code generation: the same answers, and no time spent on compiling each query."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, old in before.items():
        spark.conf.set(name, str(old))


@pytest.mark.parametrize("kind", SCALARS)
def test_spark_the_model_and_the_kernel_agree(interpreted: SparkSession, kind: str) -> None:
    table = [
        (case, i // 2, 0, i, value, f"row {i}", i % 3 != 1)
        for case, values in enumerate(cases(kind))
        for i, value in enumerate(values)
    ]
    travels = "bigint" if kind in IN else kind
    rows = interpreted.createDataFrame(
        table, f"case_id int, at bigint, part int, pos bigint, x {travels}, k string, take boolean"
    )
    rows.selectExpr("* EXCEPT (x)", f"{IN.get(kind, '{}').format('x')} AS x").createOrReplaceTempView("edges")
    asked = list(questions(kind))
    answers = ", ".join(f"{spark_sql(aggregate, kind)} AS a{i}" for i, (aggregate, _) in enumerate(asked))
    found = interpreted.sql(f"SELECT case_id, {answers} FROM edges GROUP BY case_id").collect()
    by_spark = {row.case_id: row for row in found}

    better = 0
    for i, (aggregate, types) in enumerate(asked):
        places = [{"x": 4, "k": 5}[text] for text in aggregate.inputs]
        model_rows = [
            Row(line[0], tuple(line[p] for p in places), line[6] if aggregate.where else True, Origin(*line[1:4]))
            for line in table
        ]
        model = by_model(aggregate, model_rows)
        of = columns(aggregate, "a", types)
        kernel = presented(of, reduced([of], frame_of(model_rows, types), pl.col("take") if aggregate.where else None))
        for case, values in enumerate(cases(kind)):
            inputs = [row for row in model_rows if row.group == case]
            theirs = plain(by_spark[case][f"a{i}"])
            said = f"{aggregate!r} of {kind} {values}: Spark {theirs!r}, model {model[case]!r}, kernel {kernel[case]!r}"
            assert near(aggregate, kernel[case], model[case], slack(aggregate, types, inputs)), said
            if theirs is None and model[case] is not None and overflows_on_the_way(aggregate, inputs):
                better += 1
                continue
            # Spark averages whole numbers as doubles, so there it rounds where the model does not.
            as_doubles = ("double",) if isinstance(aggregate, ps.Avg) and not kind.startswith("decimal") else types
            assert near(aggregate, model[case], theirs, slack(aggregate, as_doubles, inputs)), said
    assert not better or kind in ("bigint", "decimal(38,0)")


def overflows_on_the_way(aggregate: Aggregate, rows: list[Row]) -> bool:
    """Whether the values of one sign alone leave the range: then Spark may give null for a total that fits."""
    if not isinstance(aggregate, (ps.Sum, ps.Avg)):
        return False
    numbers = [row.values[0] for row in rows if row.take and row.values[0] is not None]
    limit = 10**38 if any(isinstance(number, Decimal) for number in numbers) else 2**63
    return max(abs(sum(n for n in numbers if n > 0)), abs(sum(n for n in numbers if n < 0))) >= limit  # type: ignore


def plain(value: Any) -> Any:
    if isinstance(value, bytearray):
        return bytes(value)
    return [plain(each) for each in value] if isinstance(value, list) else value


def test_result_types_are_sparks(spark: SparkSession) -> None:
    pairs = [
        (make("x"), kind, f"{function}(x{i})")
        for i, kind in enumerate(NUMBERS)
        for make, function in (
            (ps.sum, "sum"),
            (ps.avg, "avg"),
            (ps.variance, "variance"),
            (ps.collect_list, "collect_list"),
        )
    ]
    nulls = ", ".join(f"cast(null AS {kind}) AS x{i}" for i, kind in enumerate(NUMBERS))
    asked = ", ".join(f"typeof({sql})" for _, _, sql in pairs)
    theirs = spark.sql(f"SELECT {asked} FROM (SELECT {nulls})").collect()[0]
    for (aggregate, kind, _), their in zip(pairs, theirs, strict=True):
        assert aggregate.result_type((kind,)) == their


def test_sketches_are_within_their_tolerance_and_spark_reads_their_bytes(spark: SparkSession) -> None:
    spark.range(20_000).selectExpr(
        "cast(pow(id * 7919 % 20000, 1.2) AS bigint) AS x", "concat('user ', cast(sqrt(id % 5000) AS int)) AS s"
    ).createOrReplaceTempView("many")
    rows = spark.sql("SELECT x, s FROM many").collect()
    numbers, texts = (
        (ps.approx_distinct("x"), ps.quantile("x", 0.5)),
        (ps.heavy_hitters("x", size=64), ps.second_moment("x")),
    )
    asked = [*((aggregate, "bigint") for aggregate in numbers), *((aggregate, "string") for aggregate in texts)]
    partials, answers = [], []
    for aggregate, kind in asked:
        of = columns(aggregate, "a", (kind,))
        lines = [Row(0, (row.x if kind == "bigint" else row.s,), True, Origin(0, 0, i)) for i, row in enumerate(rows)]
        partial = reduced([of], frame_of(lines, (kind,)), None)
        partials.append(partial["a"][0])
        answers.append(presented(of, partial)[0])
    truth = spark.sql(f"SELECT count(DISTINCT x) AS n, avg(cast(x <= {answers[1]} AS int)) AS rank FROM many").first()
    assert truth is not None
    distinct, _, often, moment = answers
    assert isinstance(distinct, int)
    assert abs(distinct / truth.n - 1) < 0.049
    assert abs(truth.rank - 0.5) < 0.0133 * 2
    counts = Counter(row.s for row in rows)
    assert isinstance(often, list)
    assert all(abs(each["estimate"] - counts[each["item"]]) <= len(rows) * 3.5 / 64 for each in often)
    assert abs(moment / sum(n * n for n in counts.values()) - 1) < 0.18  # type: ignore[operator]

    sketches = spark.createDataFrame([(bytearray(partials[0]), bytearray(partials[1]))], "hll binary, kll binary")
    read = sketches.selectExpr("hll_sketch_estimate(hll)", "kll_sketch_get_quantile_double(kll, 0.5D)").first()
    assert read is not None
    assert abs(read[0] / truth.n - 1) < 0.049  # Spark estimates by the order of rows while a sketch was never united
    assert read[1] == answers[1]


def test_spark_sketches_are_read_by_the_model(spark: SparkSession) -> None:
    theirs = spark.sql(
        "SELECT hll_sketch_agg(id) AS hll, hll_sketch_estimate(hll_sketch_agg(id)) AS n,"
        " kll_sketch_agg_double(cast(id AS double)) AS kll FROM range(5000)"
    ).first()
    assert theirs is not None
    assert ps.approx_distinct("x").present(bytes(theirs.hll)) == theirs.n
    median = ps.quantile("x", 0.5).present(bytes(theirs.kll))
    assert isinstance(median, float)
    assert abs(median - 2500) < 5000 * 0.0133 * 2


def test_zeros_have_the_sign_that_spark_gives_them(spark: SparkSession) -> None:
    """Of equal zeros `min` and `max` take 0.0: Spark takes the one that comes first."""
    from pyspark.sql import functions as f

    rows = spark.sql("SELECT * FROM VALUES (-0.0D), (-0.0D) AS t(x)").coalesce(1)
    sums, values = "sum(x), avg(x)", "first(x), last(x), collect_list(x)"
    found = rows.groupBy("x").agg(*(f.expr(text) for text in (*sums.split(", "), *values.split(", ")))).first()
    assert found is not None
    assert [str(value) for value in found] == ["0.0", "0.0", "0.0", "-0.0", "-0.0", "[-0.0, -0.0]"]
    stream = model.stream("s", schema="x double")
    view = stream.group_by("x").agg(
        s=model.sum("x"), a=model.avg("x"), f=model.first("x"), l=model.last("x"), c=model.collect_list("x")
    )
    for engine in ("reference", "kernel"):
        (row,) = run(view, TestStream(stream).add((-0.0,), (-0.0,)), engine).table
        assert [str(row[name]) for name in "xsaflc"] == [str(value) for value in found]
