"""Sinks are values, and a sink that cannot serve a view is refused where it is defined."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.sinks import check, to_console, to_function, to_jsonl, to_parquet
from tests.sinks.support import COUNTS, LIVE, STREAM

SINKS = [
    to_console(), to_console(limit=3, mode="update"), to_jsonl("out"), to_jsonl("out", rows_per_file=5, mode="append"),
    to_parquet("out"), to_parquet("out", mode="complete"), to_function(print), to_function(print, batch=7),
]  # fmt: skip


@pytest.mark.parametrize("sink", SINKS, ids=repr)
def test_a_sink_prints_as_its_constructor_and_compares_by_value(sink):
    names = {
        f"to_{n}": f
        for n, f in (("console", to_console), ("jsonl", to_jsonl), ("parquet", to_parquet), ("function", to_function))
    }
    again = eval(repr(sink), {"ps": type("ps", (), {n: staticmethod(f) for n, f in names.items()}), "print": print})
    assert again == sink
    assert hash(again) == hash(sink)
    assert [other for other in SINKS if other == sink] == [sink]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: to_console(mode="apend"), "did you mean 'append'"),
        (lambda: to_console(limit=0), "limit of a console must be a whole number above zero"),
        (lambda: to_jsonl("x", rows_per_file=True), "rows_per_file must be"),
        (lambda: to_jsonl("s3://bucket/x"), "not a directory of this machine"),
        (lambda: to_parquet(""), "not a directory"),
        (lambda: to_function("print"), "not a function: 'print'"),
        (lambda: to_function(print, batch=-1), "must be a whole number above zero, and is -1"),
    ],
)
def test_a_definition_that_means_nothing_is_refused(make, says):
    with pytest.raises(DefinitionError, match=says):
        make()


def test_a_path_is_as_good_as_text():
    assert to_jsonl(Path("a") / "b") == to_jsonl("a/b")


TOTALS = STREAM.group_by("k").agg(n=ps.count())
SESSIONS = STREAM.group_by("k").window(ps.session("5 seconds")).agg(n=ps.count())
SIGNED = ps.stream(
    "s", schema="k string, sign int, at timestamp", event_time="at", watermark=ps.bounded("0 seconds"), sign="sign"
)
SIGNED_COUNTS = SIGNED.group_by("k").window(ps.fixed("10 seconds")).agg(n=ps.count())


@pytest.mark.parametrize(
    ("mode", "view", "says"),
    [
        ("append", TOTALS, "never ends"),
        ("append", COUNTS.trigger(ps.each()), "may close without a final pane"),
        ("append", COUNTS.trigger(ps.on_time(early=ps.each(), unchanged="skip")), "may close without a final pane"),
        ("append", COUNTS.allow_late("1 minute"), "a window without late elements fires no other"),
        ("append", COUNTS.trigger(ps.on_time(early=ps.each())).discarding(), "parts of windows"),
        ("update", COUNTS.discarding(), "by a part of it"),
        ("update", SESSIONS, "the old one would stay"),
        ("update", SIGNED_COUNTS.retracting(), "only a retraction shows it"),
        ("panes", COUNTS.trigger(ps.never()), "would never get a row: the view fires no panes"),
        ("complete", COUNTS.trigger(ps.never()), "would never get a row"),
        ("panes", STREAM.group_by("k").agg(Index=ps.count()), "a column 'Index', and so has every pane"),
    ],
)
def test_a_mode_that_would_lose_or_garble_windows_is_refused(mode, view, says):
    with pytest.raises(DefinitionError, match=says):
        check(to_console(mode=mode), view)


@pytest.mark.parametrize(
    ("mode", "view"),
    [
        *((mode, view) for mode in ("panes", "complete") for view in (TOTALS, LIVE, SESSIONS, COUNTS.discarding())),
        ("append", COUNTS),
        ("append", COUNTS.discarding()),
        ("append", COUNTS.trigger(ps.on_close()).allow_late("1 minute")),
        ("append", SESSIONS),
        ("append", STREAM.group_by("k").window(ps.count_window(3)).agg(n=ps.count())),
        ("update", TOTALS),
        ("update", LIVE),
        ("update", SIGNED_COUNTS),
        ("complete", STREAM.group_by("k").agg(index=ps.count())),
    ],
)
def test_a_mode_that_fits_is_accepted(mode, view):
    check(to_console(mode=mode), view)


def test_what_is_no_sink_is_refused():
    with pytest.raises(DefinitionError, match="not a sink: 'out'"):
        check("out", COUNTS)  # type: ignore[arg-type]
