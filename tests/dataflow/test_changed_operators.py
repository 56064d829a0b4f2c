"""What may change of an operator that has state under its name, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.dataflow.process_stream import pattern_stream
from penstock.runtime.commit.operators import operator_runtime
from penstock.store import SqliteStore

TRADES = ps.stream(
    "trades", schema="symbol string, price bigint, at timestamp", event_time="at", watermark=ps.bounded("10 seconds")
)
DIP = (
    ps.pattern("top", lambda e: e.price > 10)
    .then("down", lambda e: e.price < 5, "+", greedy=True)
    .later("up", lambda e: e.price > 20)
    .within("1 minute")
    .skip("past last")
)


@pytest.fixture
def take_up(tmp_path: Path) -> Iterator[Callable[[ps.Pattern], None]]:
    """Takes up the operator `dips` with a pattern, in a store that has had others."""
    store = SqliteStore.open(tmp_path)
    store.lock()

    def take(pattern: ps.Pattern, by: str = "symbol") -> None:
        dips = pattern_stream("dips", TRADES, pattern, by=by, output="symbol string", give=lambda key, m: {})
        operator_runtime(dips.stream, store, lambda source: None)

    yield take
    store.close()


def test_conditions_of_a_pattern_may_change(take_up: Callable[[ps.Pattern], None]):
    take_up(DIP)
    take_up(
        ps.pattern("top", lambda e, m: e.price > 100)
        .then("down", lambda e: e.price < 50, "+", greedy=True)
        .later("up", lambda e: e.price > 200)
        .within("60 seconds")
        .skip("past last")
    )


@pytest.mark.parametrize(
    "changed",
    [
        DIP.later("high", lambda e: e.price > 30),
        DIP.unless("news", lambda e: e.price == 0),
        DIP.within("2 minutes"),
        DIP.skip("next"),
        DIP.skip("last down"),
        ps.pattern("top", lambda e: e.price > 10)
        .then("down", lambda e: e.price < 5, "+")
        .later("up", lambda e: e.price > 20)
        .within("1 minute")
        .skip("past last"),
        ps.pattern("top", lambda e: e.price > 10)
        .then("down", lambda e: e.price < 5, "+", greedy=True)
        .sometime("up", lambda e: e.price > 20)
        .within("1 minute")
        .skip("past last"),
        ps.pattern("top", lambda e: e.price > 10)
        .then("down", lambda e: e.price < 5, (1, 3), greedy=True)
        .later("up", lambda e: e.price > 20)
        .within("1 minute")
        .skip("past last"),
    ],
    ids=str,
)
def test_other_steps_of_a_pattern_are_refused_under_its_name(
    changed: ps.Pattern, take_up: Callable[[ps.Pattern], None]
):
    take_up(DIP)
    with pytest.raises(ps.DefinitionError, match="'dips' had another definition") as refused:
        take_up(changed)
    told = str(refused.value)
    assert str(DIP) in told
    assert str(changed) in told
    for choice in ("another name", "take back", "DROP STREAM dips"):
        assert choice in told
    take_up(DIP)
