"""SQL over HTTP: parameters are values, whatever they hold; nothing is written; what takes too long is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import httpx
import polars as pl
import pyarrow as pa
import pytest

from penstock.serve.server import Server
from penstock.serve.settings import Limits

QUERY = "/api/v1/query"


def ask(client: httpx.Client, sql: str, parameters: object = None, **more: object) -> httpx.Response:
    return client.post(QUERY, json={"sql": sql, "parameters": parameters or {}, **more})


def test_a_select_answers_with_names_and_rows(client: httpx.Client):
    found = ask(client, "SELECT tag, sum(posts) AS n FROM trending GROUP BY tag ORDER BY n DESC, tag LIMIT 2").json()
    assert [column["name"] for column in found["columns"]] == ["tag", "n"]
    assert found["rows"] == [{"tag": "x", "n": 3}, {"tag": None, "n": 1}]
    assert found["more"] is False


def test_parameters_are_bound_by_name_and_by_place(client: httpx.Client):
    named = ask(client, "SELECT posts FROM trending WHERE tag = :tag AND likes > :least", {"tag": "x", "least": 3})
    assert named.json()["rows"] == [{"posts": 1}]
    placed = ask(client, "SELECT posts FROM trending WHERE tag = ? AND likes > ?", ["x", -1])
    assert len(placed.json()["rows"]) == 2


@pytest.mark.parametrize("text", ["x' OR 1=1 --", "'; DROP TABLE __meta; --", 'x" OR ""="', "\\", "%", "x\u0000"])
def test_a_parameter_is_never_read_as_sql(client: httpx.Client, text: str):
    answer = ask(client, "SELECT posts FROM trending WHERE tag = :tag", {"tag": text})
    assert answer.json()["rows"] == []


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM trending", "DROP TABLE trending", "INSERT INTO posts VALUES (1)", "PRAGMA user_version = 9",
        "ATTACH 'x' AS y", "SELECT * FROM __meta", "SELECT * FROM sqlite_schema", "SELECT load_extension('x')",
        "SELECT readfile('/etc/passwd')", "SELECT 1; SELECT 2", "SELECT * FROM pragma_table_info('x')",
        "VACUUM INTO 'x'", "SELECT randomblob(1000000000)", "SELECT printf('%1000000000d', 1)",
        "WITH RECURSIVE c AS (SELECT 1) DELETE FROM c",
        "SELECT", "", "((((", "SELECT 'unfinished", "SHOW VIEWS", "SUBSCRIBE TO trending", "SELECT :a", "SELECT ?",
    ],
)  # fmt: skip
def test_whatever_is_no_select_over_views_is_refused(client: httpx.Client, filled, sql: str):
    before = filled.store.query("SELECT count(*) FROM sqlite_schema").item()
    assert ask(client, sql).status_code == 422
    assert filled.store.query("SELECT count(*) FROM sqlite_schema").item() == before


def test_more_rows_than_the_limit_are_told(client: httpx.Client):
    found = ask(client, "SELECT tag FROM trending", limit=2).json()
    assert len(found["rows"]) == 2
    assert found["more"] is True


def test_arrow_of_a_question_has_the_types_of_its_values(client: httpx.Client):
    sql = "SELECT tag, posts, posts / 2.0 AS half FROM trending ORDER BY posts DESC"
    answer = client.post(QUERY, json={"sql": sql}, headers={"Accept": "application/vnd.apache.arrow.stream"})
    frame = pl.DataFrame(pl.from_arrow(pa.ipc.open_stream(answer.content).read_all()))
    assert frame.schema == {"tag": pl.String, "posts": pl.Int64, "half": pl.Decimal(27, 6)}
    assert frame["half"][0] == 1.0


def slow() -> str:
    """A question that would take for ever: the product of a view with itself, many times."""
    tables = ", ".join(f"trending t{n}" for n in range(24))
    return f"SELECT count(*) AS n FROM {tables}"


def test_a_question_that_takes_too_long_is_stopped_and_others_go_on(serving: Callable[..., Server]):
    server = serving(limits=Limits(statement_seconds=0.3, processes=1))
    with httpx.Client(base_url=server.url, timeout=30) as client:
        assert ask(client, slow()).status_code == 504
        assert ask(client, "SELECT count(*) AS n FROM trending").json()["rows"] == [{"n": 5}]


def test_a_process_that_does_not_stop_is_killed_and_another_takes_its_place(serving: Callable[..., Server]):
    server = serving(limits=Limits(statement_seconds=2, processes=1))
    with httpx.Client(base_url=server.url, timeout=60) as client:
        assert ask(client, "SELECT count(*) AS n FROM totals").status_code == 200
        (process,) = server.app.state.service.askers._selects._all
        os.kill(process.pid, signal.SIGSTOP)
        assert ask(client, "SELECT count(*) AS n FROM totals").status_code == 504
        assert ask(client, "SELECT count(*) AS n FROM totals").json()["rows"] == [{"n": 1}]


def test_an_answer_that_is_too_large_is_refused(serving: Callable[..., Server], filled):
    filled.commit(*((f"{n}" * 1000, 1, 0) for n in range(30)))
    server = serving(limits=Limits(answer=10_000))
    with httpx.Client(base_url=server.url, timeout=30) as client:
        answer = ask(client, "SELECT tag FROM trending")
        assert answer.status_code == 413, answer.text
        assert client.get("/api/v1/views/trending").status_code == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"sql": 1}', b'{"sql": "SELECT 1", "more": 1}', b"[" * 100_000, b'{"sql":"\xff"}',
     b'{"sql": "SELECT 1", "parameters": {"a": {"b": 1}}}', b'{"sql": "SELECT 1", "limit": 1e400}',
     b'{"sql": "' + b"(" * 50_000 + b'"}'],
)  # fmt: skip
def test_bodies_that_are_no_question_are_refused(client: httpx.Client, body: bytes):
    answer = client.post(QUERY, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_a_page_of_this_origin_may_send(client: httpx.Client):
    origin = str(client.base_url).rstrip("/")
    answer = client.post("/api/v1/query", json={"sql": "SELECT 1 AS n"}, headers={"Origin": origin})
    assert answer.status_code == 200
