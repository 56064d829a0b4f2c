"""What streams that are made from others remember: written with the commit, found by key, gone with the stream."""

from __future__ import annotations

import polars as pl
import pytest

from penstock.store import Commit
from penstock.store.memory import REMEMBERED


def changes(*rows: tuple[str, bytes, bytes | None]) -> dict[str, pl.DataFrame]:
    return {"components": pl.DataFrame(rows, schema=REMEMBERED, orient="row")}


def remembered(store, *keys: tuple[str, bytes], part: str | None = None) -> dict[tuple[str, bytes], bytes]:
    asked = pl.DataFrame(keys, schema={"part": pl.String, "key": pl.Binary}, orient="row") if keys else None
    return {(p, k): v for p, k, v in store.memory("components", asked, part=part).iter_rows()}


def test_keys_are_put_replaced_and_forgotten_with_the_commit(opened):
    store = opened()
    assert remembered(store) == {}
    store.commit(Commit("tick", 1, memory=changes(("a", b"\x00k", b"1"), ("a", b"", b"2"), ("b", b"\x00k", b"3"))))
    store.commit(Commit("tick", 2, memory=changes(("a", b"\x00k", b""), ("b", b"\x00k", None), ("b", b"none", None))))
    assert remembered(store) == {("a", b"\x00k"): b"", ("a", b""): b"2"}
    assert remembered(store, ("a", b""), ("a", b""), ("b", b"")) == {("a", b""): b"2"}
    assert remembered(store, part="a") == remembered(store)
    assert remembered(store, part="b") == {}
    store.commit(Commit("tick", 3, memory=changes()))
    store.forget_stream("components")
    assert remembered(store) == {}


def test_a_commit_that_fails_remembers_nothing(opened):
    store = opened()
    refused = {"no such kind": pl.DataFrame({"stream": ["s"]})}
    with pytest.raises(Exception, match="unknown kind"):
        store.commit(Commit("tick", 1, memory=changes(("a", b"k", b"1")), refused=refused))
    assert remembered(store) == {}
