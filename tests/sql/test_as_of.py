"""FOR SYSTEM_TIME AS OF with a stream: the definitions that Python has, scripts, what SHOW tells, what is refused."""

from __future__ import annotations

import pytest

from penstock.app import App
from penstock.model.join import join_behind
from penstock.scripts.play import Play
from penstock.sql import answer, define
from penstock.sql.errors import SqlError
from penstock.sql.read import parse, parse_one

STREAMS = """
CREATE STREAM orders (item STRING, n INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'a';
CREATE STREAM prices (item STRING, price INT, since TIMESTAMP, gone BOOLEAN,
  WATERMARK FOR since AS since - INTERVAL 10 SECONDS) FROM FILES 'b';
CREATE CONTINUOUS VIEW best AS
  SELECT item, window_start, window_end, max(price) AS top FROM TUMBLE(prices, since, 1 MINUTE)
  GROUP BY item, window_start, window_end EMIT ON TIME RETRACTING;
"""
AS_OF = "orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.at AS p ON o.item = p.item"


def app_with(*statements: str) -> App:
    app = App("shop")
    for statement in parse(STREAMS + ";".join(statements)):
        define(app, statement)
    return app


def test_it_is_the_join_with_versions_of_python():
    app = app_with(f"CREATE STREAM priced AS SELECT * FROM {AS_OF} AND p.gone IS NOT TRUE")
    orders, prices = app.streams["orders"], app.streams["prices"]
    assert app.streams["priced"].event_time == "at"
    in_python = orders.join(prices.versions("item", deleted="gone"), how="left", prefix="p_")
    assert join_behind(app.streams["priced"]) == join_behind(in_python)
    assert app.streams["priced"].schema.ddl() == "item string, n int, at timestamp, price int, since timestamp"


SCRIPT = f"""
CREATE STREAM priced AS SELECT o.n, p.price, o.at FROM {AS_OF} AND p.gone IS NOT TRUE;
CREATE CONTINUOUS VIEW takings AS
  SELECT window_start, window_end, sum(n * price) AS takings, sum(n) AS n FROM TUMBLE(priced, at, 1 HOUR)
  GROUP BY window_start, window_end;
CREATE CONTINUOUS VIEW direct AS
  SELECT p.price, window_start, window_end, sum(o.n) AS n
  FROM TUMBLE(orders, at, 1 HOUR) AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.at AS p ON o.item = p.item
  GROUP BY p.price, window_start, window_end;
CREATE CONTINUOUS VIEW of_best AS
  SELECT b.top, count(*) AS n FROM orders AS o JOIN best FOR SYSTEM_TIME AS OF o.at AS b USING (item) GROUP BY b.top;
INSERT INTO prices VALUES ('tea', 3, '12:00:00', false), ('tea', 4, '12:05:00', NULL), ('tea', 0, '12:07:00', true);
INSERT INTO orders VALUES ('tea', 1, '12:01:00'), ('tea', 10, '12:05:00'), ('tea', 100, '12:08:00');
ADVANCE WATERMARK TO '12:30:00';
ASSERT takings (takings, n) EQUALS (43, 111);
ASSERT direct (price, n) EQUALS (3, 1), (4, 10), (0, 100);
ASSERT of_best (top, n) EQUALS (3, 2), (0, 1);
"""


def test_columns_may_have_names_that_sql_has_a_meaning_for():
    app = app_with(
        "CREATE STREAM odd (`order` STRING, over BOOLEAN, seen TIMESTAMP, WATERMARK FOR seen AS seen) FROM FILES 'o'",
        "CREATE STREAM x AS SELECT o.n, o.at FROM orders AS o JOIN odd FOR SYSTEM_TIME AS OF o.at AS p "
        "ON o.item = p.`order` AND p.over IS NOT TRUE",
    )
    join = join_behind(app.streams["x"])
    assert join.deleted == "over"
    odd = app.streams["odd"]
    made = odd.join(odd.versions("order", deleted="over"), prefix="v_")
    assert made.schema is not None
    assert made.schema.names == ("order", "over", "seen", "v_seen")


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_script_finds_versions(engine):
    play = Play(engine)
    for statement in parse(STREAMS + SCRIPT):
        play.do(statement)
    assert play.assertions == 3


def test_what_is_shown_makes_it_again():
    app = app_with(
        f"CREATE STREAM priced AS SELECT * FROM {AS_OF} AND p.gone IS NOT TRUE",
        "CREATE STREAM named AS SELECT o.at AS at, p.price AS cost FROM orders o JOIN (SELECT item, price, since "
        "FROM prices WHERE price > 0) FOR SYSTEM_TIME AS OF o.at p ON upper(o.item) = p.item",
    )
    again = app_with()
    for name in ("priced", "named"):
        text = "\n".join(line for (line,) in answer(app, parse_one(f"SHOW CREATE {name}")).rows)
        define(again, parse_one(text))
        assert again.streams[name] == app.streams[name], text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{AS_OF} AND NOT p.gone", "compares no column of the event with the table's key"),
        (f"{AS_OF} AND o.n > 3", "compares no column of the event with the table's key"),
        (f"{AS_OF} AND p.price IS NOT TRUE", "and is int, not boolean"),
        (f"{AS_OF} AND p.since <= o.at", "compares no column of the event with the table's key"),
        (AS_OF.replace("LEFT", "FULL"), "not joined by FULL JOIN"),
        (AS_OF.replace("OF o.at", "OF o.n"), "'n' is not the event time"),
        (AS_OF.replace("= p.item", "= upper(p.item)"), "unknown column"),
        (AS_OF.replace("o.item = p.item", "p.gone IS NOT TRUE"), "needs an equality between"),
    ],
)
def test_what_cannot_be_is_refused(text, message):
    with pytest.raises(SqlError, match=message) as refused:
        app_with(f"CREATE STREAM x AS SELECT * FROM {text}")
    if "NOT p.gone" in text:
        assert "p.column IS NOT TRUE" in str(refused.value)
