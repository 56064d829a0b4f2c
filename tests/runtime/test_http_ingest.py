"""Events over HTTP, through Spark, to a question that waits for them; once each, also over stops and restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock.cli.serve import Remote
from penstock.client import Client, ServerError
from penstock.control import Live
from penstock.serve.server import Server
from penstock.serve.service import Host
from penstock.serve.settings import Settings


def app() -> ps.App:
    made = ps.App("shop")
    posts = made.stream(
        "posts", ps.http("inbox"), schema="tag string, likes int, price decimal(10,2), at timestamp", event_time="at",
        watermark=ps.bounded("10 seconds"), max_ahead=None,
    )  # fmt: skip
    made.view("by_tag", posts.group_by("tag").agg(n=ps.count(), likes=ps.sum("likes"), price=ps.max("price")))
    return made


def row(tag: str, likes: int, price: str = "1.50") -> dict[str, object]:
    return {"tag": tag, "likes": likes, "price": price, "at": "2024-05-01T12:00:00Z"}


def test_who_sends_events_can_read_them_at_once_and_after_a_restart(tmp_path: Path, spark: object):
    live = Live(app(), tmp_path, spark=spark, tick=3600.0).start()
    host = Host(live.index, live.failures, live.failed)
    with Server(tmp_path, Settings(port=0), host) as server, Client(server.url) as client:
        view, stream = client.view("by_tag"), client.stream("posts")
        token = stream.send([row("a", 1), row("a", 2, "2.25"), row("b", 5)], key="first")
        found = view.get(tag="a", after=token, timeout="60s")
        assert found is not None
        assert (found["n"], found["likes"], found["price"]) == (2, 3, 2.25)
        assert stream.send([row("a", 1), row("a", 2, "2.25"), row("b", 5)], key="first") == token

        kept = stream.send([{"tag": "c", "likes": "many"}, {"tag": "c", "likes": 1, "at": "2024-05-01T12:00:01Z"}],
                           keep_malformed=True)  # fmt: skip
        assert (view.get(tag="c", after=kept, timeout="60s") or {})["n"] == 1
        dead = live.store.query("SELECT reason, row FROM __refused WHERE kind = 'dead'").rows()
        assert len(dead) == 1
        assert "many" in dead[0][1]

        live.execute("INSERT INTO posts (tag, likes, at) VALUES ('d', 7, TIMESTAMP '2024-05-01 12:00:02')")
        live.catch_up()
        assert (view.get(tag="d") or {})["likes"] == 7

        live.index("by_tag", ["tag"])
        Remote(tmp_path).index("by_tag", ["n"])  # through the channel, as a server of its own process asks for it
        made = live.store.query("SELECT name FROM sqlite_schema WHERE name LIKE '\\_\\_by\\_%' ESCAPE '\\'")
        assert sorted(made["name"]) == ["__by_by_tag_n", "__by_by_tag_tag"]
        assert client.view("by_tag").to_polars().sort("tag")["n"].to_list() == [2, 1, 1, 1]
        live.stop()
        meanwhile = stream.send([row("a", 10)])
        with pytest.raises(ServerError, match="not committed"):
            view.get(tag="a", after=meanwhile, timeout="100ms")

        live = Live(app(), tmp_path, spark=spark, tick=3600.0).start()
        try:
            found = view.get(tag="a", after=meanwhile, timeout="60s")
            assert found is not None
            assert (found["n"], found["likes"]) == (3, 13)
            assert (view.get(tag="b") or {})["n"] == 1
        finally:
            live.stop()
