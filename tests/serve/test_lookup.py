"""Lookups: rows by key and window, in each form, page by page."""

from __future__ import annotations

import csv
import io
import json

import httpx
import polars as pl
import pyarrow as pa
import pytest

VIEW = "/api/v1/views/trending"


def rows(client: httpx.Client, **parameters: object) -> list[tuple[object, ...]]:
    answer = client.get(VIEW, params=parameters)
    assert answer.status_code == 200, answer.text
    return [(row["tag"], row["window_start"][14:19], row["posts"], row["likes"]) for row in answer.json()["rows"]]


def test_a_key_has_its_rows_newest_first(client: httpx.Client):
    assert rows(client, **{"key.tag": "x"}) == [("x", "00:10", 1, 4), ("x", "00:00", 2, 3)]


def test_several_values_of_a_key_mean_any_of_them(client: httpx.Client):
    assert len(rows(client, **{"key.tag": ["x", "y"]})) == 3


def test_a_null_key_is_found_by_its_name(client: httpx.Client):
    assert rows(client, null="tag") == [(None, "00:00", 1, None)]


def test_a_window_is_found_by_its_start_in_any_zone(client: httpx.Client):
    found = rows(client, **{"key.tag": "x", "window_start": "2024-05-01T14:00:10+02:00"})
    assert found == [("x", "00:10", 1, 4)]


def test_a_range_of_windows_leaves_out_its_end(client: httpx.Client):
    asked = {"from": "2024-05-01T12:00:10Z", "to": "2024-05-01T12:00:20Z"}
    assert rows(client, **asked) == [("x", "00:10", 1, 4)]
    assert len(rows(client, to="2024-05-01T12:00:20Z", order="oldest")) == 4


def test_pages_hold_every_row_once_also_while_rows_come(client: httpx.Client, filled):
    seen, cursor = [], None
    while True:
        asked = {"limit": 2, "order": "oldest"} | ({} if cursor is None else {"cursor": cursor})
        answer = client.get(VIEW, params=asked).json()
        seen += [(row["tag"], row["window_start"]) for row in answer["rows"]]
        cursor = answer["next"]
        if len(seen) == 2:
            filled.commit(("a", 1, 0), ("new", 1, 100))  # before and behind the place that was reached
        if cursor is None:
            break
    assert len(seen) == len(set(seen))
    assert ("new", "2024-05-01T12:01:40Z") in seen
    assert len(seen) >= 6


def test_an_answer_tells_types_and_the_commit(client: httpx.Client):
    body = client.get(VIEW).json()
    assert body["columns"][0] == {"name": "tag", "type": "string"}
    assert body["commit"] == 1
    assert body["rows"][0]["final"] is False


def test_csv_has_a_line_of_names_and_no_formulas(client: httpx.Client):
    answer = client.get(VIEW, headers={"Accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    found = list(csv.DictReader(io.StringIO(answer.text)))
    assert found[0]["tag"] == "'=cmd()"
    assert found[0]["final"] == "false"
    assert answer.headers["penstock-commit"] == "1"


def test_arrow_has_the_types_of_the_view(client: httpx.Client):
    answer = client.get(VIEW, params={"format": "arrow"})
    frame = pl.from_arrow(pa.ipc.open_stream(answer.content).read_all())
    assert isinstance(frame, pl.DataFrame)
    assert frame.schema["window_start"] == pl.Datetime("us", "UTC")
    assert frame.schema["posts"] == pl.Int64
    assert frame.schema["final"] == pl.Boolean
    assert frame["likes"].to_list() == [row["likes"] for row in client.get(VIEW).json()["rows"]]


def test_a_view_without_windows_has_one_row(client: httpx.Client):
    body = client.get("/api/v1/views/totals").json()
    assert [(row["posts"], row["best"], row["window_start"]) for row in body["rows"]] == [(6, 5, None)]
    assert client.get("/api/v1/views/totals", params={"from": "2024-05-01T12:00:00Z"}).status_code == 422


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"key.tga": "x"}, "did you mean 'tag'"),
        ({"kye.tag": "x"}, "unknown parameter"),
        ({"limit": "0"}, "limit"),
        ({"from": "yesterday"}, "from is not of type timestamp"),
        ({"cursor": "abc"}, "not a cursor"),
        ({"order": "upwards"}, "order"),
        ({"after": "posts"}, "after"),
        ({"timeout": "soon"}, "timeout"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_hint(client: httpx.Client, asked: dict[str, str], said: str):
    answer = client.get(VIEW, params=asked)
    assert answer.status_code == 422
    assert said in json.dumps(answer.json(), ensure_ascii=False)


def test_a_view_that_is_not_there_names_the_near_miss(client: httpx.Client):
    answer = client.get("/api/v1/views/trendig")
    assert answer.status_code == 404
    assert answer.json()["hint"] == "did you mean 'trending'?"


def test_an_accept_header_that_no_form_fits_is_told(client: httpx.Client):
    assert client.get(VIEW, headers={"Accept": "image/png"}).status_code == 406
    assert client.get(VIEW, headers={"Accept": "text/csv;q=0.5, application/json"}).json()["rows"]


def test_views_streams_and_sinks_are_listed(client: httpx.Client, filled):
    filled.store.delivered({"out": 2})
    views = {view["name"]: view for view in client.get("/api/v1/views").json()}
    assert views["trending"]["keys"] == ["tag"]
    assert client.get("/api/v1/views/trending/schema").json() == views["trending"]
    (stream,) = client.get("/api/v1/streams").json()
    assert stream["counters"]["events"] == 6
    assert stream["ingest"] is True
    assert stream["columns"][1] == {"name": "likes", "type": "int"}
    assert client.get("/api/v1/streams/posts").json() == stream
    assert client.get("/api/v1/sinks").json() == [{"name": "out", "position": 2, "newest": 6}]
    assert client.get("/api/v1/sinks/none").status_code == 404
