"""What define does to an app, what SHOW, DESCRIBE and EXPLAIN answer, what a file makes, what scripts say."""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock as ps
from penstock import sql
from penstock.app import App
from penstock.scripts import Script

SHOP = """
    CREATE STREAM orders (item STRING, price INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 MINUTE)
      FROM FILES 'orders';
    CREATE STREAM dear AS SELECT * FROM orders WHERE price > 100;
    CREATE CONTINUOUS VIEW totals AS SELECT item, sum(price) AS total FROM dear GROUP BY item;
    CREATE SINK screen FROM totals INTO CONSOLE;
"""


def shop(*more: str) -> App:
    app = App("shop")
    for text in (SHOP, *more):
        for statement in sql.parse(text):
            sql.define(app, statement)
    return app


def asked(app: App, text: str) -> str:
    return str(sql.answer(app, sql.parse_one(text)))


def test_an_app_in_sql_equals_one_in_python() -> None:
    app = ps.App("shop")
    orders = app.stream(
        "orders", ps.files("orders"), schema="item string, price int, at timestamp", event_time="at",
        watermark=ps.bounded("1 minute"),
    )  # fmt: skip
    view = app.view("totals", orders.where("price > 100").group_by("item").agg(total=ps.sum("price")))
    app.sink(view, ps.to_console(), name="screen")
    made = shop()
    assert (made.streams, made.views, made.sinks) == (app.streams, app.views, app.sinks)


def test_a_view_is_replaced_and_keeps_its_sinks() -> None:
    app = shop("CREATE OR REPLACE CONTINUOUS VIEW totals AS SELECT item, count(*) AS n FROM orders GROUP BY item")
    assert app.views["totals"].columns == ("item", "window_start", "window_end", "n", "final")
    assert app.sinks["screen"][1] == app.views["totals"]


def test_a_view_that_cannot_be_replaced_stays_as_it_was() -> None:
    app = shop()
    before = app.views["totals"]
    with pytest.raises(sql.SqlError, match="would never get a row"):
        sql.define(
            app,
            sql.parse_one("CREATE OR REPLACE CONTINUOUS VIEW totals AS SELECT count(*) AS n FROM orders EMIT NEVER"),
        )
    assert app.views["totals"] is before


def test_materialized_is_continuous() -> None:
    app = shop("CREATE MATERIALIZED VIEW other AS SELECT item, sum(price) AS total FROM dear GROUP BY item")
    assert app.views["other"] == app.views["totals"]


def test_retention_is_said_with_options() -> None:
    view = "SELECT count(*) AS n FROM TUMBLE(orders, at, INTERVAL 1 HOUR) GROUP BY window_start, window_end"
    app = shop(f"CREATE CONTINUOUS VIEW hours WITH (retention = '3 days') AS {view}")
    assert app.views["hours"].retention == ps.model.time.duration("3 days")
    assert "WITH (retention = '3 days')" in sql.show(app.views["hours"], "hours")


def test_a_view_without_windows_has_a_retention_too() -> None:
    view = "SELECT item, count(*) AS n FROM orders GROUP BY item"
    app = shop(f"CREATE CONTINUOUS VIEW kept WITH (retention = '7 days') AS {view}")
    assert app.views["kept"].forgets
    assert "WITH (retention = '7 days')" in asked(app, "SHOW CREATE kept")
    assert "a key stays for 7 days after its newest element, in event time" in asked(app, "EXPLAIN kept")


def test_a_stream_may_have_a_sink_too() -> None:
    app = shop("CREATE SINK rows FROM dear INTO FILES 'rows'")
    assert app.sinks["rows"][1] == sql.flows(app)["dear"]
    with pytest.raises(sql.SqlError, match="'dear' is read by totals, rows"):
        sql.define(app, sql.parse_one("DROP STREAM dear"))


def test_dropping_takes_sinks_along_and_streams_last() -> None:
    app = shop("DROP VIEW totals; DROP STREAM dear; DROP STREAM orders; DROP SINK IF EXISTS screen")
    assert (app.streams, app.views, app.sinks, sql.flows(app)) == ({}, {}, {}, {})


def test_a_stream_that_is_read_is_not_dropped() -> None:
    with pytest.raises(sql.SqlError, match="'orders' is read by dear, totals"):
        shop("DROP STREAM orders")


def test_show() -> None:
    app = shop()
    text = "SELECT item, sum(price) AS total FROM orders WHERE price > 100 GROUP BY item"
    assert asked(app, "SHOW VIEWS") == f"view    definition\ntotals  {text}"
    assert "orders  item string, price int, at timestamp  ps.files('orders', format='json')" in asked(
        app, "SHOW STREAMS"
    )
    assert "dear    item string, price int, at timestamp  orders" in asked(app, "SHOW STREAMS")
    assert asked(app, "SHOW SINKS").splitlines()[1] == "screen  totals  ps.to_console()"
    assert asked(app, "SHOW TABLES") == "no rows"


def test_show_create_gives_what_makes_the_same() -> None:
    app = shop()
    for name in ("orders", "dear", "totals"):
        text = "\n".join(row[0] for row in sql.answer(app, sql.parse_one(f"SHOW CREATE {name}")).rows)  # type: ignore[misc]
        again = App("again")
        for statement in sql.parse(SHOP):
            if getattr(getattr(statement, "name", None), "text", "") == name:
                statement = sql.parse_one(text)
            sql.define(again, statement)
        assert again.views == app.views
        assert again.streams == app.streams


def test_describe_and_explain() -> None:
    app = shop()
    assert asked(app, "DESCRIBE screen").splitlines()[1] == "screen  totals  ps.to_console()"
    assert asked(app, "EXPLAIN APP").startswith("plan\ndataflow of ")
    assert "view totals ← orders" in asked(app, "EXPLAIN app")
    assert asked(app, "EXPLAIN totals").startswith("plan\ninput\n  stream orders")
    assert "sum('price')" in asked(app, "EXPLAIN CREATE CONTINUOUS VIEW x AS SELECT sum(price) AS n FROM orders")
    assert "x" not in app.views


def test_a_subscription_is_checked() -> None:
    app = shop()
    found = sql.subscription(app, sql.parse_one("SUBSCRIBE TO totals WHERE total > 3 AND diff > 0 WITH (PROGRESS)"))  # type: ignore[arg-type]
    assert (found.view, found.snapshot, found.progress) == ("totals", False, True)
    with pytest.raises(sql.SqlError, match="is bigint, and must be boolean"):
        sql.subscription(app, sql.parse_one("SUBSCRIBE TO totals WHERE total + 1"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT 1", "app.sql:1:1: SELECT is not part of an app"),
        ("INSERT INTO s VALUES (1)", "app.sql:1:1: INSERT is not part of an app"),
        ("CREATE STREAM s (k STRING)", "app.sql:1:15: the stream 's' has no log"),
    ],
)
def test_an_app_file_only_defines(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "app.sql").write_text(text)
    with pytest.raises(sql.SqlError) as caught:
        sql.load(tmp_path / "app.sql")
    assert said in str(caught.value)


def test_a_generator_makes_the_columns_that_it_says() -> None:
    import numpy as np

    app = App("made")
    sql.define(
        app,
        sql.parse_one(
            "CREATE STREAM x (n BIGINT, page STRING, user INT, ms DOUBLE, kind STRING, at TIMESTAMP) FROM GENERATOR ("
            "n = NUMBER(), page = ZIPF('/a', '/b'), user = UNIFORM(1, 3), ms = NORMAL(10, 2.5), "
            "kind = CHOICE('x', 'y'), at = TIME()) WITH (rate = 5, seed = 7)"
        ),
    )
    log = app.streams["x"].log
    numbers = np.arange(1000)
    made = log.make(numbers, numbers * 1000)  # type: ignore[union-attr]
    assert made["n"].to_list() == list(range(1000))
    assert set(made["user"]) == {1, 2, 3}
    assert set(made["kind"]) == {"x", "y"}
    assert 600 < (made["page"] == "/a").sum() < 730
    assert abs(made["ms"].mean() - 10) < 0.5  # type: ignore[operator]
    assert made.equals(log.make(numbers, numbers * 1000))  # type: ignore[union-attr]
    assert sql.parse_one(sql.show(app.streams["x"], "x")).columns  # type: ignore[attr-defined]


# Scripts


def failed(text: str) -> str:
    report = Script.of(text).run()
    return "\n".join(str(error) for error in report.tests.values() if error)


VIEW = """
    CREATE STREAM s (k STRING, v DOUBLE, d DATE, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 1 SECOND);
    CREATE CONTINUOUS VIEW v AS SELECT k, max(v) AS high, max(d) AS day, collect_list(v) AS several FROM s GROUP BY k;
"""


def test_values_of_all_kinds_are_compared() -> None:
    assert not failed(
        VIEW
        + """INSERT INTO s VALUES ('a', 1.5, '2024-05-01', '12:00'), ('b', CAST('NaN' AS DOUBLE), NULL, '12:00');
        ASSERT v (k, high, day, several) EQUALS
          ('a', 1.5, DATE '2024-05-01', array(1.5)), ('b', 'NaN', NULL, array(CAST('NaN' AS DOUBLE)));
        ASSERT (SELECT k, high, day FROM v ORDER BY k) EQUALS ('a', 1.5, '2024-05-01'), ('b', 'NaN', NULL)"""
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ASSERT v (k) EQUALS ('a')", "row 1 is missing"),
        ("INSERT INTO s (k) VALUES ('a', 2)", "the row has 2 values for 1 columns"),
        ("INSERT INTO s (kk) VALUES ('a')", "unknown column 'kk'"),
        ("INSERT INTO t VALUES ('a')", "unknown stream 't'"),
        ("INSERT INTO s (v) VALUES ('x')", "is not of type double"),
        ("INSERT INTO s (k) VALUES (k)", "is not a constant"),
        ("INSERT INTO s (at) VALUES ('noon')", "not an instant"),
        ("ASSERT w IS EMPTY", "unknown view 'w'"),
        ("ASSERT v (x) IS EMPTY", "unknown column 'x'"),
        ("ASSERT v (k) CONTAINS (1, 2)", "the row has 2 values for 1 columns"),
        ("ADVANCE WATERMARK OF x TO '12:00'", "unknown stream 'x'"),
        ("ADVANCE WATERMARK TO 'noon'", "not an instant"),
        ("ADVANCE CLOCK BY 1 SECOND; START CLOCK AT '12:00'", "the clock is already running"),
        ("LOAD 'nowhere.sql'", "there is no file 'nowhere.sql'"),
        ("ACTIVATE VIEW v", "ACTIVATE is not a definition"),
        ("TEST 'a'; TEST 'a'", "there are two tests 'a'"),
    ],
)
def test_a_wrong_script_is_refused(text: str, said: str) -> None:
    try:
        shown = failed(VIEW + text)
    except sql.SqlError as error:
        shown = str(error)
    assert said in shown


def test_one_more_row_is_told() -> None:
    assert "unexpected row: ('a', 1)" in failed(
        "CREATE STREAM s (k STRING); CREATE CONTINUOUS VIEW v AS SELECT k, count(*) AS n FROM s GROUP BY k;"
        "INSERT INTO s VALUES ('a'); ASSERT v (k, n) IS EMPTY"
    )


def test_what_needs_spark_is_refused_where_it_is_asserted() -> None:
    said = failed(
        "CREATE STREAM s (k STRING);"
        "CREATE CONTINUOUS VIEW v AS SELECT soundex(k) AS k, count(*) AS n FROM s GROUP BY ALL;"
        "INSERT INTO s VALUES ('a'); ASSERT v IS EMPTY"
    )
    assert "the function soundex is outside the kernel" in said
    assert "--engine spark" in said


# Views over views

CASCADE = """
    CREATE STREAM bids (auction BIGINT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 4 SECONDS);
    CREATE CONTINUOUS VIEW counts AS SELECT auction, window_start, window_end, count(*) AS n
      FROM TUMBLE(bids, at, INTERVAL 10 SECONDS) GROUP BY auction, window_start, window_end EMIT RETRACTING;
    CREATE CONTINUOUS VIEW hot AS SELECT window_start, window_end, max(n) AS most FROM counts
      GROUP BY window_start, window_end;
    CREATE CONTINUOUS VIEW hourly AS SELECT window_start, window_end, sum(n) AS bids
      FROM TUMBLE(counts, window_end, INTERVAL 1 HOUR) WHERE final GROUP BY window_start, window_end;
    CREATE CONTINUOUS VIEW levels AS SELECT n, count(*) AS auctions FROM counts GROUP BY n EMIT RETRACTING;
"""


def test_views_over_views_are_played_and_asserted() -> None:
    assert not failed(
        CASCADE
        + """INSERT INTO bids VALUES (1, '12:00:01'), (1, '12:00:02'), (2, '12:00:03'), (3, '12:59:59');
        ADVANCE WATERMARK TO '13:00:00';
        ASSERT hot (most) EQUALS (2), (1);
        ASSERT hourly (bids) EQUALS (4);
        ASSERT levels (n, auctions) EQUALS (1, 2), (2, 1)"""
    )


def test_views_over_views_are_shown_as_the_statements_that_make_them() -> None:
    app, again = App("one"), App("two")
    for statement in sql.parse(CASCADE):
        sql.define(app, statement, without_log=True)
    sql.define(again, sql.parse(CASCADE)[0], without_log=True)
    for name, view in app.views.items():
        sql.define(again, sql.parse_one(sql.show(view, name)))
    assert again.views == app.views


def test_a_view_that_others_read_is_not_dropped() -> None:
    app = App("one")
    for statement in sql.parse(CASCADE):
        sql.define(app, statement, without_log=True)
    with pytest.raises(sql.SqlError, match="'counts' is read by hot, hourly, levels"):
        sql.define(app, sql.parse_one("DROP VIEW counts"))
    with pytest.raises(sql.SqlError, match="unknown stream 'count'"):
        sql.define(app, sql.parse_one("CREATE CONTINUOUS VIEW x AS SELECT count(*) AS n FROM count"))
