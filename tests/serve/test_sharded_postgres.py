"""Views in segments with the store in PostgreSQL: lookups, SQL and metrics answer as with SQLite."""

from __future__ import annotations

import itertools
import os

import httpx
import pytest

from tests.postgres import Postgres
from tests.serve import test_lookup, test_subscribe
from tests.serve.conftest import Filled

_NUMBERS = itertools.count(1)


@pytest.fixture
def store_url(postgres: Postgres) -> str:
    return f"{postgres.url}?schema=sharded{os.getpid()}_{next(_NUMBERS)}"


@pytest.fixture
def shards() -> int:
    return 2


def test_lookups_questions_and_metrics_are_answered(client: httpx.Client, filled: Filled):
    test_subscribe.test_a_snapshot_comes_before_the_panes(client)
    test_lookup.test_a_key_has_its_rows_newest_first(client)
    test_lookup.test_a_null_key_is_found_by_its_name(client)
    test_lookup.test_a_view_without_windows_has_one_row(client)
    answer = client.post("/api/v1/query", json={"sql": "SELECT sum(posts) AS n FROM trending WHERE tag = 'x'"})
    assert answer.json()["rows"] == [{"n": 3}]
    assert 'penstock_view_segment_rows{view="totals"}' in client.get("/metrics").text
    test_lookup.test_pages_hold_every_row_once_also_while_rows_come(client, filled)
