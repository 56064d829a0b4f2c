"""What `keep` says, and what it does not change; stores of before; places of other kinds."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

import penstock as ps
from penstock.errors import DefinitionError
from penstock.history.events.place import Place

SCHEMA = "k string, at timestamp"


def stream(**more: object) -> ps.Stream:
    return ps.stream("s", schema=SCHEMA, event_time="at", **more)


def test_all_is_kept_unless_one_says_otherwise_and_the_repr_says_what_was_said():
    assert (stream().kept, "keep" in repr(stream())) == ("all", False)
    assert repr(stream(keep="NONE")).endswith("keep='none')")
    assert stream(keep=timedelta(days=30)) == stream(keep="30 days") == stream(keep="720 hours")
    assert stream(keep="30 days").kept == "30 days"


@pytest.mark.parametrize("keep", ["some", "0 days", "-1 day", ""])
def test_what_is_no_span_is_refused(keep):
    with pytest.raises(DefinitionError, match=r"neither 'all' nor 'none' nor a span"):
        stream(keep=keep)


def test_a_span_needs_an_event_time():
    with pytest.raises(DefinitionError, match="by event time, and the stream has none"):
        ps.stream("s", schema="k string", keep="1 day")


def test_types_that_only_spark_has_are_not_kept():
    assert ps.stream("s", schema="k string, m map<string,int>").kept == "none"
    with pytest.raises(DefinitionError, match="structs or maps"):
        ps.stream("s", schema="k array<struct<a:int>>", keep="all")


def test_another_keep_is_no_other_view():
    views = [stream(keep=keep).group_by("k").agg(n=ps.count()) for keep in (None, "none", "30 days")]
    assert len({view.fingerprint() for view in views}) == 1


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
def test_a_place_may_be_a_directory_or_a_url(tmp_path: Path, scheme):
    place = Place(f"{scheme}{tmp_path}/x y")
    file = place.create("a/b/1-0-x.parquet")
    file.write(b"hello")
    file.close()
    place.settle("a/b/1-0-x.parquet")
    assert (file.bytes, list(place.checksum("a/b/1-0-x.parquet"))[-1]) == (5, file.checksum)
    assert place.names("a") == ["a/b/1-0-x.parquet"]
    assert place.names("nothing") == []
    place.link("a/b/1-0-x.parquet", tmp_path / "elsewhere" / "x")
    assert (tmp_path / "elsewhere" / "x").read_bytes() == b"hello"
    place.remove("a/b/1-0-x.parquet")
    place.remove("a/b/1-0-x.parquet")
    assert place.size("a/b/1-0-x.parquet") is None
