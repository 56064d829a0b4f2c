"""The graph of an app: all kinds of nodes, as text, as a picture, and as a store keeps it."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import penstock as ps
from penstock.app import App
from penstock.dataflow.compile import graph_of
from penstock.dataflow.drawing import draw
from penstock.dataflow.graph import Edge, Graph, Node, graph_from_json

SVG = "{http://www.w3.org/2000/svg}"


class Flag(ps.Processor):
    output = "item string, n int, at timestamp"
    seen = ps.value("int")

    def on_event(self, key, event, time):
        yield {"item": key.item, "n": 1, "at": time}


def shop() -> App:
    app = App("shop")
    time = {"event_time": "at", "watermark": ps.bounded("10 seconds")}
    schema = "id bigint, item string, user bigint, at timestamp"
    orders = app.stream("orders", ps.files("orders"), schema=schema, id="id", **time)
    payments = app.stream(
        "payments", ps.files("payments"), schema="order_id bigint, amount int, paid timestamp", event_time="paid",
        watermark=ps.bounded("1 minute"),
    )  # fmt: skip
    edges = app.stream("edges", ps.files("edges"), schema="a bigint, b bigint")
    users = app.table("users", ps.files("users"), schema="id bigint, tier string", key="id")
    paid = app.join(
        "paid", orders, payments.where("amount > 0"), on="id = order_id", within=("0 seconds", "1 hour"),
        event_time="at", keep="none",
    )  # fmt: skip
    flagged = app.process("flagged", paid, Flag, by="item", event_time="at")
    pattern = ps.pattern("first", lambda e: e.n > 0).then("second", lambda e: e.n > 1).within("1 minute")
    app.match("twice", flagged, pattern, by="item", output="item string", give=lambda key, match: {"item": key.item})
    labels = app.iterate("labels", edges.where("a >= 0"), ps.connected_components("a", "b"))
    tiers = orders.join(users, on="user = id", prefix="u_")
    app.view("by_tier", tiers.group_by("tier").agg(n=ps.count()), state="sharded")
    app.table_of("by_tier", name="tiers")
    windows = flagged.group_by("item").window(ps.fixed("1 minute")).agg(n=ps.sum("n")).trigger(ps.on_close())
    by_item = app.view("by_item", windows.allow_late("5 seconds"))
    app.view("total", by_item.changes().group_by().agg(n=ps.sum("n")))
    app.view("sizes", labels.group_by("component").agg(n=ps.count()))
    app.sink("by_item", ps.to_jsonl("out"))
    app.sink(edges.where("a < b"), ps.to_jsonl("rows"), name="raw")
    return app


# ruff: noqa: E501
TEXT = """\
dataflow of shop
  group 1
    table users · files('users') · by id · reload: at start
    source orders · files('orders') · duplicates by id · watermark bounded('10 seconds') · state in the store · kept: all
      view by_tier ← orders → join(users, on='user = id', prefix='u_') · by tier · state in segments
        table tiers ← by_tier · the view by_tier · by tier · reload: 10 seconds
    source payments · files('payments') · watermark bounded('1 minute') · kept: all
      join paid ← orders and payments → where('amount > 0') · inner · by id = order_id · watermark held back by 1 hour · state in segments · kept: none · its readers cannot be audited or backfilled
        processor flagged ← paid · Flag · by item · watermark held by its earliest timer · state in segments · kept: all
          pattern twice ← flagged · by item · state in segments · kept: all
          view by_item ← flagged · ps.fixed('1 minute') · by item · watermark held back by 5 seconds · state in the store
            view total ← by_item · state in the store
            sink by_item_jsonl ← by_item · jsonl
  group 2
    source edges · files('edges') · kept: all
      derived labels ← edges · loop, in a query of its own · kept: all
        view sizes ← labels · by component · state in the store
      sink raw ← edges → where('a < b') · jsonl
"""


def test_an_app_is_explained_as_text():
    assert shop().explain() == TEXT.rstrip()


def test_the_graph_has_every_part_and_what_flows_where():
    graph = shop().graph()
    kinds = {node.name: node.kind for node in graph.nodes}
    assert kinds == {
        "orders": "source", "payments": "source", "edges": "source", "users": "table", "tiers": "table", "paid": "join",
        "flagged": "processor", "twice": "pattern", "labels": "derived", "by_tier": "view", "by_item": "view",
        "total": "view", "sizes": "view", "by_item_jsonl": "sink", "raw": "sink",
    }  # fmt: skip
    assert set(graph.edges) >= {
        Edge("stream orders", "stream paid"),
        Edge("stream payments", "stream paid", ("where('amount > 0')",)),
        Edge("stream paid", "stream flagged"),
        Edge("table users", "view by_tier"),
        Edge("view by_tier", "table tiers"),
        Edge("view by_item", "view total"),
        Edge("stream edges", "stream labels"),
        Edge("stream edges", "sink raw", ("where('a < b')",)),
    }


def test_each_node_comes_after_those_that_it_reads():
    graph = shop().graph()
    places = {node.id: place for place, node in enumerate(graph.ordered)}
    assert len(places) == len(graph.nodes)
    assert all(places[edge.start] < places[edge.end] for edge in graph.edges)


def test_state_watermark_and_history_of_a_node_are_told():
    nodes = {node.name: node for node in shop().graph().nodes}
    assert {name: nodes[name].state for name in ("orders", "payments", "paid", "by_item", "by_tier", "raw")} == {
        "orders": "store", "payments": None, "paid": "segments", "by_item": "store", "by_tier": "segments", "raw": None,
    }  # fmt: skip
    assert nodes["paid"].keys == ("id = order_id",)
    assert nodes["paid"].hold == "watermark held back by 1 hour"
    assert nodes["flagged"].hold == "watermark held by its earliest timer"
    assert nodes["by_item"].hold == "watermark held back by 5 seconds"
    assert (nodes["paid"].kept, nodes["flagged"].kept) == ("none", "all")


def test_nodes_that_rows_connect_are_a_group_and_tables_connect_nothing():
    groups = {frozenset(node.name for node in nodes) for nodes in shop().graph().groups.values()}
    assert frozenset({"edges", "labels", "sizes", "raw"}) in groups
    assert len(groups) == 2
    app = App("two")
    users = app.table("users", ps.files("users"), schema="id bigint, tier string", key="id")
    for name in ("a", "b"):
        stream = app.stream(name, ps.files(name), schema="user bigint")
        app.view(f"of_{name}", stream.join(users, on="user = id").group_by("tier").agg(n=ps.count()))
    assert {number: [node.name for node in nodes] for number, nodes in app.graph().groups.items()} == {
        0: ["users"], 1: ["a", "of_a"], 2: ["b", "of_b"],
    }  # fmt: skip


def test_a_store_gives_back_the_graph_that_it_was_given():
    graph = shop().graph()
    assert graph_from_json(graph.to_json()) == graph


def test_tables_that_a_processor_looks_up_are_among_its_inputs():
    class Count(ps.Processor):
        output = "k string, at timestamp"

        def on_event(self, key, event, at):
            yield key, at

    app = App("test")
    stream = app.stream(
        "s", ps.files("in"), schema="k string, at timestamp", event_time="at", watermark=ps.bounded("1 second")
    )
    names = app.table("names", ps.files("names"), schema="id string", key="id")
    app.process("counts", stream, Count, by="k", event_time="at", tables=[names])
    edges = {(edge.start, edge.end) for edge in graph_of(app).edges}
    assert edges == {("stream s", "stream counts"), ("table names", "stream counts")}


def test_a_table_that_shows_a_view_behind_it_does_not_hang():
    nodes = (Node("view v", "view", "v"), Node("table t", "table", "t"))
    graph = Graph("loop", nodes, (Edge("view v", "table t"), Edge("table t", "view v")))
    assert {node.name for node in graph.ordered} == {"v", "t"}
    ElementTree.fromstring(draw(graph))


@pytest.mark.parametrize("app", [shop(), App("empty")], ids=["shop", "empty"])
def test_the_picture_is_xml_and_has_every_name(app: App):
    graph = app.graph()
    root = ElementTree.fromstring(draw(graph))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {node.name for node in graph.nodes} <= set(texts)
    assert {f"group {number}" for number in graph.groups} <= set(texts)
    dashed = [box for box in root.iter(f"{SVG}rect") if box.get("stroke-dasharray")]
    assert len(dashed) == sum(node.kind == "table" for node in graph.nodes)


def test_boxes_of_the_picture_do_not_overlap():
    root = ElementTree.fromstring(draw(shop().graph()))
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("stroke-width")]
    places = [tuple(float(box.get(name, "")) for name in ("x", "y", "width", "height")) for box in boxes]
    for number, (x, y, wide, high) in enumerate(places):
        for left, top, _, _ in places[:number]:
            assert abs(x - left) >= wide or abs(y - top) >= high
