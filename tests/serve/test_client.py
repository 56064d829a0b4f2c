"""The Python client against a real server: rows, frames, panes, and what a notebook shows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import polars as pl
import pytest

import penstock
from penstock.client import Client, ServerError
from penstock.client.view import View
from penstock.serve.server import Server
from penstock.serve.settings import Settings
from penstock.serve.tokens import Tokens
from tests.conftest import without


@pytest.fixture
def shop(serving: Callable[..., Server]) -> Iterator[Client]:
    with penstock.connect(serving().url) as client:
        yield client


def test_a_key_has_a_row(shop: Client):
    view = shop.view("trending")
    assert (view.get(tag="x") or {})["likes"] == 4
    assert (view.get(tag="x", window_start=datetime(2024, 5, 1, 12, tzinfo=UTC)) or {})["likes"] == 3
    assert (view.get(tag=None) or {})["posts"] == 1
    assert view.get(tag="nobody") is None


def test_rows_come_page_by_page(shop: Client):
    view = View(shop, "trending", page=2)
    assert len(list(view.rows())) == 5
    assert len(list(view.rows(limit=3))) == 3
    assert [row["likes"] for row in view.rows(tag=["x", "y"], order="oldest")] == [3, 5, 4]
    assert view.to_polars().height == 5


def test_a_view_is_a_frame(shop: Client):
    frame = shop.view("trending").to_polars(tag="x")
    assert frame.select("tag", "posts").rows() == [("x", 2), ("x", 1)]
    import pandas

    found = shop.view("totals").to_pandas()
    assert isinstance(found, pandas.DataFrame)
    assert found["posts"][0] == 6


def test_a_question_is_a_frame(shop: Client):
    found = shop.query("SELECT tag, posts FROM trending WHERE likes = :likes", {"likes": 5})
    assert found.rows() == [("y", 1)]
    assert shop.query("SELECT count(*) AS n FROM trending").item() == 5


def test_all_there_is_can_be_listed(shop: Client):
    assert [view.name for view in shop.views()] == ["totals", "trending"]
    assert shop.streams()[0]["name"] == "posts"
    assert shop.sinks() == []
    assert shop.view("trending").schema()["keys"] == ["tag"]


def test_events_are_sent_as_rows_and_as_frames(shop: Client, filled):
    token = shop.stream("posts").send([{"tag": "a", "likes": 1, "at": datetime(2024, 5, 1, tzinfo=UTC)}], key="k")
    assert token == "posts:1"
    assert shop.stream("posts").send(pl.DataFrame({"tag": ["b"], "likes": [2]})) == "posts:2"
    with pytest.raises(ServerError, match="not committed"):
        shop.view("trending").get(tag="a", after=token, timeout="20ms")
    filled.commit(("a", 1, 40), segment=2)
    assert (shop.view("trending").get(tag="a", after=token) or {})["posts"] == 1


def test_panes_are_iterated_and_survive_a_server_that_restarts(serving: Callable[..., Server], filled):
    first = serving()
    with penstock.connect(first.url) as client:
        panes = client.view("trending").subscribe(last=0)
        seen = [next(panes)["pane"] for _ in range(3)]
        first.stop()
        serving(port=first.port)
        filled.commit(("late", 1, 70))
        seen += [next(panes)["pane"] for _ in range(3)]
    assert seen == sorted(set(seen))
    assert len(seen) == 6


def test_panes_are_iterated_async(shop: Client, filled):
    async def first(count: int) -> list[str]:
        found = []
        async for pane in shop.view("trending").asubscribe(snapshot=True):
            found.append(pane["tag"])
            if len(found) == 5:
                threading.Thread(target=filled.commit, args=(("live", 1, 80),)).start()
            if len(found) == count:
                break
        return found

    assert asyncio.run(first(6))[-1] == "live"


def test_errors_say_what_to_do(shop: Client, serving: Callable[..., Server]):
    with pytest.raises(ServerError, match="did you mean 'trending'") as caught:
        shop.view("trendin").get()
    assert caught.value.status == 404
    with pytest.raises(ServerError, match="cannot be reached"):
        next(penstock.connect("http://127.0.0.1:1").view("x").subscribe())


def test_a_notebook_shows_a_table_in_which_nothing_is_markup(shop: Client, filled):
    filled.commit(("<script>alert(1)</script>", 1, 90))
    shown = shop.view("trending")._repr_html_()
    assert shown.startswith("<table>")
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_token_is_sent_and_not_shown(filled, serving: Callable[..., Server]):
    token = Tokens(filled.directory).create(["read"])
    server = serving()
    client = penstock.connect(server.url, token)
    assert client.view("trending").get(tag="x")
    assert token not in repr(client) + repr(client.view("trending"))
    with pytest.raises(ServerError, match="token"):
        penstock.connect(server.url).views()


def test_tls_by_files(filled, tmp_path, serving: Callable[..., Server]):
    import shutil
    import subprocess

    if shutil.which("openssl") is None:
        without("there is no openssl to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "1",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = serving(cert=cert, key=key)
    assert server.url.startswith("https://")
    with penstock.connect(server.url, verify=str(cert)) as client:
        assert client.view("trending").get(tag="x")
    assert Settings().cert is None
