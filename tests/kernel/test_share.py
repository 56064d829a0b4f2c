"""Views that are reduced together give the same deltas as each on its own, however an epoch is cut."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import penstock as ps
from penstock.kernel.admit import admit
from penstock.kernel.fire import present
from penstock.kernel.local import events_frame
from penstock.kernel.plan import START, Plan
from penstock.kernel.reduce import combine, reduce
from penstock.kernel.share import Cluster, share
from penstock.model.commits import Event
from penstock.model.time import BEGINNING
from penstock.testing import DAY
from tests.kernel.test_against_reference import cut_with
from tests.strategies import SCHEMA, SECOND, aligned_windows, cases, rows

STREAM = ps.stream("s", schema=SCHEMA, event_time="at", watermark=ps.bounded("5 seconds"), max_ahead=None)
AGGREGATES = [
    ps.count(), ps.count("v"), ps.sum("v"), ps.max("f"), ps.avg("v", where="k = 'a'"), ps.first("v"),
    ps.count_distinct("k"), ps.approx_distinct("v"), ps.variance("v"), ps.sum("10 / v"), ps.collect_list("v"),
    ps.approx_distinct("v", lg_k=4).in_batch(ps.count_distinct("v")),
]  # fmt: skip


@st.composite
def several_views(draw: st.DrawFn) -> list[ps.View]:
    made = []
    for _ in range(draw(st.integers(2, 6))):
        flow: ps.model.stream.Flow = STREAM
        for condition in draw(st.lists(st.sampled_from(["v > 2", "k = 'a'", "v IS NULL OR v < 5"]), max_size=2)):
            flow = flow.where(condition)
        keys = draw(st.sampled_from([(), ("k",), ("f",), ("k", "f"), ("v",)]))
        window = draw(st.one_of(aligned_windows(), st.just(ps.global_window())))
        named = draw(st.dictionaries(st.sampled_from("mno"), st.sampled_from(AGGREGATES), min_size=1))
        made.append(flow.group_by(*keys).window(window).agg(**named))
    return made


def shown(plan: Plan, deltas: pl.DataFrame) -> pl.DataFrame:
    """Deltas with what they present: the bytes of a sketch depend on the order of its parts, its answer does not."""
    return deltas.select(*plan.keys, START, "__n").with_columns(present(plan.columns, deltas))


@cases(120, deep=50)
@given(several_views(), st.lists(rows(0), max_size=40), st.one_of(st.none(), st.integers(0, 100)), st.integers(0, 99))
def test_shared_deltas_equal_those_of_each_view_alone(views, raw, watermark, seed):
    events = [Event("s", row, int(str(row["partition"])), offset) for offset, row in enumerate(raw)]
    frame = admit(STREAM, events_frame(STREAM, events, 0), 0).rows
    plans = [Plan(view) for view in views]
    before = [BEGINNING if watermark is None else DAY + (12 * 3600 + watermark) * SECOND] * len(plans)
    sharing = share("s", plans, frame)
    batches = [sharing.reduce(part, before) for part in cut_with(seed)(frame)]
    if not batches:
        return
    got = sharing.deltas(batches, before)
    for number, plan in enumerate(plans):
        alone = reduce(plan, "s", frame, before[number])
        by = [*plan.keys, START]
        expected = combine(plan, [alone.deltas])
        assert_frame_equal(shown(plan, got[number]).sort(by), shown(plan, expected).sort(by), rel_tol=1e-9)
        late = [b.own[number].late if number in b.own else b.late.get(number, alone.late.clear()) for b in batches]
        places = ["__partition", "__offset"]
        assert_frame_equal(pl.concat(late).sort(places), alone.late.sort(places))


@cases(60, deep=50)
@given(
    st.lists(st.tuples(st.integers(1, 90), st.integers(0, 50)), min_size=8, max_size=20),
    st.sampled_from([(), ("k",), ("k", "f")]),
    st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=3),
    st.lists(rows(0), min_size=1, max_size=40),
    st.one_of(st.none(), st.integers(0, 100)),
    st.integers(1, 200),
)
def test_views_that_differ_in_their_windows_are_rolled_up_together(windows, keys, aggregates, raw, watermark, largest):
    events = [Event("s", row, int(str(row["partition"])), offset) for offset, row in enumerate(raw)]
    frame = admit(STREAM, events_frame(STREAM, events, 0), 0).rows
    plans = [
        Plan(
            STREAM.where("v > 2 OR v IS NULL")
            .group_by(*(f"{key} AS {key}{number}" for key in keys))
            .window(ps.fixed(f"{size} seconds", offset=f"{offset % size} seconds"))
            .agg(**{f"{name}{number}": one for name, one in zip("mno", aggregates, strict=False)})
        )
        for number, (size, offset) in enumerate(windows)
    ]
    mark = BEGINNING if watermark is None else DAY + (12 * 3600 + watermark) * SECOND
    cluster = Cluster(STREAM, tuple(plans), tuple(range(len(plans))))
    assert cluster.alike == (tuple(range(len(plans))),)
    deltas = cluster.deltas(cluster.base(frame), [mark] * len(plans), largest)
    for plan, got in zip(plans, deltas, strict=True):
        by = [*plan.keys, START]
        expected = combine(plan, [reduce(plan, "s", frame, mark).deltas])
        assert got.schema == expected.schema
        assert_frame_equal(shown(plan, got).sort(by), shown(plan, expected).sort(by), rel_tol=1e-9)


def test_views_on_few_dimensions_are_reduced_as_one():
    frame = pl.DataFrame({"k": ["a", "b"] * 5000, "v": [1, 2, 3, 4] * 2500, "__at": [0] * 10_000})
    frame = frame.with_columns(pl.col("v").cast(pl.Int32), f=pl.lit(1.0))
    views = [STREAM.group_by("k").agg(n=ps.count()), STREAM.where("v > 2").group_by("v").agg(s=ps.sum("v"))]
    assert [cluster.numbers for cluster in share("s", [Plan(v) for v in views], frame).clusters] == [(0, 1)]


def test_a_view_that_would_make_the_base_large_stays_alone():
    frame = pl.DataFrame({"k": [str(i) for i in range(10_000)], "v": [1] * 10_000, "__at": [0] * 10_000})
    frame = frame.with_columns(pl.col("v").cast(pl.Int32))
    views = [
        STREAM.group_by("k").agg(n=ps.count()),
        STREAM.group_by("v").agg(s=ps.count()),
        STREAM.group_by().agg(n=ps.count()),
    ]
    sharing = share("s", [Plan(v) for v in views], frame)
    assert sharing.alone == (0,)
