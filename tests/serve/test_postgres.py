"""Serving from a store in PostgreSQL: the same questions have the same answers, and none can write or take for ever."""

from __future__ import annotations

import itertools
import os
from typing import Any

import httpx
import pytest

from tests.postgres import Postgres
from tests.serve.conftest import Filled

VIEW, QUERY = "/api/v1/views/trending", "/api/v1/query"
_NUMBERS = itertools.count(1)


@pytest.fixture
def store_url(postgres: Postgres) -> str:
    return f"{postgres.url}?schema=serve{os.getpid()}_{next(_NUMBERS)}"


def rows(client: httpx.Client, **parameters: Any) -> list[tuple[object, ...]]:
    answer = client.get(VIEW, params=parameters)
    assert answer.status_code == 200, answer.text
    return [(row["tag"], row["window_start"][14:19], row["posts"], row["likes"]) for row in answer.json()["rows"]]


def ask(client: httpx.Client, sql: str, parameters: object = None) -> httpx.Response:
    return client.post(QUERY, json={"sql": sql, "parameters": parameters or {}})


def test_lookups_and_questions_are_answered(client: httpx.Client, filled: Filled, postgres: Postgres):
    assert rows(client, **{"key.tag": "x"}) == [("x", "00:10", 1, 4), ("x", "00:00", 2, 3)]
    assert rows(client, null="tag") == [(None, "00:00", 1, None)]
    assert rows(client, **{"key.tag": "x", "window_start": "2024-05-01T14:00:10+02:00"}) == [("x", "00:10", 1, 4)]
    assert len(rows(client, final="false")) == 5
    page = client.get(VIEW, params={"limit": 2, "order": "oldest"}).json()
    rest = client.get(VIEW, params={"limit": 9, "order": "oldest", "cursor": page["next"]}).json()
    assert len(page["rows"]) + len(rest["rows"]) == 5
    assert client.get("/api/v1/views/totals").json()["rows"][0]["posts"] == 6
    answer = ask(client, "SELECT tag, sum(posts) AS n FROM trending GROUP BY tag ORDER BY n DESC, tag LIMIT 2").json()
    assert answer["rows"] == [{"tag": "x", "n": 3}, {"tag": None, "n": 1}]
    named = ask(client, "SELECT posts FROM trending WHERE tag = :tag AND likes > :least", {"tag": "x", "least": 3})
    assert named.json()["rows"] == [{"posts": 1}]
    assert ask(client, "SELECT posts FROM trending WHERE tag = :tag", {"tag": "x' OR 1=1 --\0"}).json()["rows"] == []
    for wrong in ("DELETE FROM trending", "SELECT * FROM __meta", "SELECT pg_sleep(60)", "SELECT nn FROM trending"):
        assert ask(client, wrong).status_code == 422, wrong
    filled.commit(("x", 1, 0))
    assert rows(client, **{"key.tag": "x"})[1] == ("x", "00:00", 3, 4)
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid <> pg_backend_pid() AND datname = 'postgres' AND application_name = ''"
    )
    assert len(rows(client)) == 5, "a process whose connection was cut connects again"


def test_streams_metrics_and_panes_are_told(client: httpx.Client):
    assert client.get("/api/v1/streams").status_code == 200
    assert [view["name"] for view in client.get("/api/v1/views").json()] == ["totals", "trending"]
    assert "posts" in client.get("/metrics").text
