"""Joins of streams in SQL: the definitions that Python has, scripts over them, what SHOW tells, what is refused."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock.app import App
from penstock.model.join import join_behind
from penstock.scripts.play import Play
from penstock.sql import answer, define
from penstock.sql.errors import SqlError
from penstock.sql.read import parse, parse_one

STREAMS = """
CREATE STREAM clicks (ad INT, user STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'a';
CREATE STREAM shown (ad BIGINT, place STRING, seen TIMESTAMP, WATERMARK FOR seen AS seen - INTERVAL 10 SECONDS)
  FROM FILES 'b';
CREATE STREAM bare (ad INT) FROM FILES 'c';
"""
HOUR = "s.seen BETWEEN c.at - INTERVAL 1 HOUR AND c.at"


def app_with(*statements: str) -> App:
    app = App("ads")
    for statement in parse(STREAMS + ";".join(statements)):
        define(app, statement)
    return app


def joined(text: str):
    return join_behind(app_with(f"CREATE STREAM matched AS {text}").streams["matched"])


def in_python(**said):
    app = app_with()
    clicks, shown = app.streams["clicks"], app.streams["shown"]
    return join_behind(app.join("matched", clicks, shown, **{"on": "ad", "within": ("-1 hour", "0 seconds"), **said}))


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT * FROM clicks AS c LEFT JOIN shown AS s ON c.ad = s.ad AND {HOUR}",
        f"SELECT * FROM clicks c LEFT OUTER JOIN shown s ON s.ad = c.ad AND {HOUR}",
        "SELECT * FROM clicks AS c LEFT JOIN shown AS s ON (c.ad = s.ad) AND c.at >= s.seen AND c.at <= s.seen + "
        "INTERVAL '60' MINUTES",
        "SELECT * FROM clicks AS c LEFT JOIN shown AS s ON c.ad = s.ad AND seen >= at - INTERVAL '1 hour' "
        "AND NOT_LATER",
        "SELECT ad, user, at, place, seen FROM clicks LEFT JOIN shown ON clicks.ad = shown.ad "
        "AND at BETWEEN seen AND seen + INTERVAL 30 MINUTES 30 MINUTES",
    ],
)  # fmt: skip
def test_a_join_in_sql_is_the_one_in_python(text):
    assert joined(text.replace("NOT_LATER", "s.seen < c.at + INTERVAL 1 MICROSECOND")) == in_python(how="left")


def test_columns_are_chosen_and_named():
    found = joined(
        f"SELECT s.ad AS seen_ad, c.ad, user AS who FROM clicks c FULL JOIN shown s ON c.ad = s.ad AND {HOUR}"
    )
    assert found.schema.ddl() == "seen_ad bigint, ad int, who string"
    assert found.gives == (("seen_ad", 1, "ad"), ("ad", 0, "ad"), ("who", 0, "user"))
    found = joined(f"SELECT * FROM clicks c JOIN shown s ON c.user = s.place AND {HOUR}")
    assert found.schema.names == ("ad", "user", "at", "s_ad", "place", "seen")


WAYS = {"LEFT SEMI": "semi", "SEMI": "semi", "LEFT ANTI": "anti", "ANTI": "anti", "RIGHT OUTER": "right",
        "FULL OUTER": "full"}  # fmt: skip


@pytest.mark.parametrize(("words", "how"), WAYS.items())
def test_a_join_says_how(words, how):
    found = joined(f"SELECT * FROM clicks c {words} JOIN shown AS s ON c.ad = s.ad AND {HOUR}")
    assert found == in_python(how=how)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [("inclusive", ">=", "<="), ("exclusive", ">", "<"), ("left", ">=", "<"), ("right", ">", "<=")],
)
def test_each_end_belongs_to_the_bounds_or_does_not(bounds, low, high):
    found = joined(
        f"SELECT * FROM clicks c JOIN shown s ON c.ad = s.ad AND s.seen {low} c.at - INTERVAL 1 HOUR "
        f"AND s.seen {high} c.at"
    )
    assert found == in_python(bounds=bounds)


CHAIN = """
CREATE STREAM bought AS
  SELECT c.user, s.place, b.price * 2 AS twice FROM clicks AS c
  JOIN shown AS s ON c.ad = s.ad AND s.seen BETWEEN c.at - INTERVAL 1 HOUR AND c.at
  LEFT JOIN names AS n ON c.user = n.user
  JOIN buys AS b ON b.user = c.user AND b.at BETWEEN c.at AND c.at + INTERVAL 1 MINUTE
  WHERE n.name <> 'nobody';
CREATE CONTINUOUS VIEW spent AS SELECT user, sum(twice) AS total FROM bought GROUP BY user;
CREATE CONTINUOUS VIEW places AS
  SELECT s.place, window_start, window_end, count(*) AS n FROM TUMBLE(clicks, at, 1 MINUTE) AS c
  JOIN shown AS s ON c.ad = s.ad AND s.seen BETWEEN c.at - INTERVAL 1 HOUR AND c.at
  GROUP BY s.place, window_start, window_end EMIT FINAL;
CREATE STREAM chosen AS
  SELECT b.price, place, c.at FROM clicks AS c
  JOIN shown AS s ON c.ad = s.ad AND s.seen BETWEEN c.at - INTERVAL 1 HOUR AND c.at
  JOIN buys AS b ON b.user = c.user AND b.at BETWEEN s.seen AND s.seen + INTERVAL 2 HOURS;
CREATE CONTINUOUS VIEW prices AS SELECT place, max(price) AS price FROM chosen GROUP BY place;
"""
BUYS = """
CREATE STREAM buys (user STRING, price INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS) FROM FILES 'd';
CREATE TABLE names (user STRING, name STRING) FROM FILES 'n' WITH (key = 'user');
"""


def test_several_streams_and_tables_are_joined_in_a_row():
    app = app_with(BUYS + CHAIN)
    made = {name for name, stream in app.streams.items() if stream.log is join_behind(stream)}
    assert made == {"bought_join", "bought_join_2", "places_join", "chosen_join"}
    first = app.streams["bought_join"]
    assert (first.event_time, join_behind(first).hold(first.event_time)) == ("at", 0)
    last = join_behind(app.streams["chosen"])
    assert last.left.event_time == "seen"
    assert last.gives == (("price", 1, "price"), ("place", 0, "place"), ("at", 0, "at"))
    assert app.streams["places_join"].event_time == "at"


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_script_plays_joins_of_joins(engine):
    play = Play(engine)
    rows = """
INSERT INTO names VALUES ('ann', 'Ann'), ('bob', 'nobody');
INSERT INTO shown VALUES (1, 'kitchen', '12:00:00');
INSERT INTO clicks VALUES (1, 'ann', '12:10:00'), (1, 'bob', '12:10:10'), (2, 'ann', '12:10:20');
INSERT INTO buys VALUES ('ann', 5, '12:10:30'), ('bob', 7, '12:10:30'), ('ann', 9, '12:12:00');
ADVANCE WATERMARK TO '15:00:00';
ASSERT spent (user, total) EQUALS ('ann', 10);
ASSERT places (place, n) EQUALS ('kitchen', 2);
ASSERT prices (place, price) EQUALS ('kitchen', 9)
"""
    for statement in parse(STREAMS + BUYS + CHAIN + rows):
        play.do(statement)
    assert play.assertions == 3


def test_a_join_that_is_not_declared_goes_with_what_reads_it():
    app = app_with(BUYS + CHAIN)
    with pytest.raises(SqlError, match="'buys' is read by"):
        define(app, parse_one("DROP STREAM buys"))
    for statement in parse("DROP VIEW spent; DROP STREAM bought; DROP VIEW places"):
        define(app, statement)
    assert {name for name in app.streams if "join" in name} == {"chosen_join"}
    text = (
        f"CREATE OR REPLACE VIEW v AS SELECT c.ad, count(*) AS n FROM clicks c JOIN shown s ON c.ad = s.ad AND {HOUR}"
    )
    define(app, parse_one(text.replace("VIEW", "CONTINUOUS VIEW") + " GROUP BY c.ad"))
    before = app.streams["v_join"]
    define(app, parse_one(text.replace("VIEW", "CONTINUOUS VIEW").replace("JOIN", "LEFT JOIN") + " GROUP BY c.ad"))
    assert app.streams["v_join"] != before


def test_streams_meet_in_windows():
    found = joined(
        "SELECT * FROM TUMBLE(clicks, at, INTERVAL 10 SECONDS) AS c RIGHT JOIN TUMBLE(shown, seen, 10 SECONDS) AS s "
        "ON c.ad = s.ad AND c.window_start = s.window_start AND c.window_end = s.window_end"
    )
    assert found == in_python(within=None, window=ps.fixed("10 seconds"), how="right")
    found = joined(
        "SELECT * FROM TUMBLE(clicks, at, 10 SECONDS) JOIN TUMBLE(shown, seen, 10 SECONDS) USING (ad, window_start)"
    )
    assert found == in_python(within=None, window=ps.fixed("10 seconds"))


def test_queries_on_both_sides_and_expressions():
    found = joined(
        "SELECT * FROM (SELECT ad, user, at FROM clicks WHERE user <> 'x') AS c "
        "JOIN RETIME(shown, seen + INTERVAL 1 DAY) AS s ON c.ad % 10 = s.ad % 10 "
        "AND s.seen + INTERVAL 1 DAY BETWEEN c.at - INTERVAL 5 SECONDS AND c.at"
    )
    assert found.on == (("ad % 10", "ad % 10"),)
    assert (found.earliest, found.latest) == (-5_000_000, 0)


SCRIPT = f"""
CREATE STREAM matched (WATERMARK FOR at AS at - INTERVAL 2 HOURS) AS
  SELECT c.user, s.place, c.at FROM clicks AS c LEFT JOIN shown AS s ON c.ad = s.ad AND {HOUR};
CREATE STREAM lost AS SELECT user FROM matched WHERE place IS NULL;
CREATE CONTINUOUS VIEW by_place AS
  SELECT place, window_start, window_end, count(*) AS n FROM TUMBLE(matched, at, 1 HOUR)
  GROUP BY place, window_start, window_end EMIT FINAL;
CREATE CONTINUOUS VIEW of_lost AS SELECT user, count(*) AS n FROM lost GROUP BY user;
INSERT INTO shown VALUES (1, 'kitchen', '12:00:00');
INSERT INTO clicks VALUES (1, 'ann', '12:10:00'), (2, 'bob', '12:10:00');
ASSERT by_place (place, n) EQUALS ('kitchen', 1);
ASSERT of_lost IS EMPTY;
ADVANCE WATERMARK TO '14:00:00';
ASSERT by_place (place, n) EQUALS ('kitchen', 1), (NULL, 1);
ASSERT PANES OF by_place (place, n) CONTAINS (NULL, 1);
ASSERT of_lost (user, n) EQUALS ('bob', 1);
"""


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_script_joins_what_is_inserted(engine):
    play = Play(engine)
    for statement in parse(STREAMS + SCRIPT):
        play.do(statement)
    assert play.assertions == 5


def test_what_is_shown_of_a_join_makes_it_again():
    app = app_with(
        SCRIPT.split(";")[0],
        f"CREATE STREAM plain WITH (keep = 'all', max_ahead = NULL) AS SELECT * FROM clicks c JOIN shown s "
        f"ON upper(c.user) = s.place AND {HOUR}",
        "CREATE STREAM met AS SELECT * FROM TUMBLE(clicks, at, 1 MINUTE) FULL JOIN TUMBLE(shown, seen, 1 MINUTE) "
        "USING (ad, window_start)",
        "CREATE STREAM narrow AS SELECT * FROM matched AS m JOIN (SELECT ad, user, at FROM clicks WHERE ad > 1) AS c "
        "ON m.user = c.user AND c.at > m.at AND c.at <= m.at + INTERVAL 90 SECONDS",
        "CREATE STREAM lone WITH (event_time = 'at') AS SELECT * FROM clicks c ANTI JOIN shown s "
        f"ON c.ad = s.ad AND {HOUR}",
        *BUYS.split(";"),
        "CREATE STREAM" + CHAIN.split("CREATE STREAM")[2].split(";")[0],
    )
    again = app_with(*BUYS.split(";"))
    for name in ("matched", "plain", "met", "narrow", "lone", "chosen"):
        text = "\n".join(line for (line,) in answer(app, parse_one(f"SHOW CREATE {name}")).rows)
        define(again, parse_one(text))
        assert join_behind(again.streams[name]) == join_behind(app.streams[name]), text
        assert again.streams[name] == app.streams[name]


def test_a_stream_that_is_joined_is_not_dropped():
    app = app_with(f"CREATE STREAM matched AS SELECT * FROM clicks c JOIN shown s ON c.ad = s.ad AND {HOUR}")
    with pytest.raises(SqlError, match="'clicks' is read by matched"):
        define(app, parse_one("DROP STREAM clicks"))
    define(app, parse_one("DROP STREAM matched"))
    define(app, parse_one("DROP STREAM clicks"))


WRONG = {
    "clicks c JOIN shown s ON c.ad = s.ad": "how far apart its events",
    "clicks c JOIN shown s ON c.ad = s.ad AND s.seen >= c.at": "how far apart its events",
    f"clicks c JOIN shown s ON {HOUR}": "needs an equality between",
    f"clicks c JOIN shown s ON c.ad = s.ad AND {HOUR} AND c.user = 'x'": "is neither an equality between both streams",
    f"clicks c JOIN shown s ON ad = s.ad AND {HOUR}": "both streams have a column 'ad'",
    f"clicks c JOIN shown s ON c.add = s.ad AND {HOUR}": "unknown column",
    f"clicks c JOIN shown s ON c.user = s.ad AND {HOUR}": "'user' is string, and 'ad' is bigint",
    f"clicks c CROSS JOIN shown s ON c.ad = s.ad AND {HOUR}": "not joined by CROSS JOIN",
    f"clicks c JOIN shown s ON c.ad = s.ad AND {HOUR} WHERE add > 1": "unknown column",
    f"clicks c JOIN shown s ON c.ad = s.ad AND {HOUR} JOIN clicks d ON c.ad = d.ad": "how far apart its events",
    f"clicks c LEFT JOIN shown s ON c.ad = s.ad AND {HOUR} JOIN clicks d ON c.ad = d.ad AND d.at BETWEEN s.seen AND "
    "s.seen": "is neither an equality between both",  # it may be null
    f"clicks c LEFT SEMI JOIN shown s ON c.ad = s.ad AND {HOUR} WHERE s.ad > 1": "unknown column",
    "TUMBLE(clicks, at, 1 MINUTE) c JOIN TUMBLE(shown, seen, 1 MINUTE) s ON c.ad = s.ad AND c.window_start = "
    "s.window_start JOIN TUMBLE(shown, seen, 1 MINUTE) t ON c.ad = t.ad": "the same TUMBLE, or in none",
    "clicks c JOIN TUMBLE(shown, seen, 1 MINUTE) s ON c.ad = s.ad WHERE c.ad > 1": "in windows two streams are joined",
    "clicks c JOIN shown s ON c.ad = s.ad AND s.seen BETWEEN c.at AND c.at - INTERVAL 1 HOUR": "no times lie within",
    f"clicks c JOIN (SELECT ad FROM bare) s ON c.ad = s.ad AND {HOUR}": "unknown column",
    "clicks c JOIN bare s ON c.ad = s.ad AND c.at BETWEEN c.at AND c.at": "is neither an equality between both",
    "TUMBLE(clicks, at, 1 MINUTE) c JOIN shown s ON c.ad = s.ad": "the same TUMBLE",
    "TUMBLE(clicks, at, 1 MINUTE) c JOIN TUMBLE(shown, seen, 1 MINUTE) s ON c.ad = s.ad": "the windows are the same",
}


@pytest.mark.parametrize("text", WRONG)
def test_joins_that_cannot_be_are_refused(text):
    with pytest.raises(SqlError, match=WRONG[text]):
        app_with(f"CREATE STREAM matched AS SELECT * FROM {text}")


def test_the_hint_says_what_bounds_to_add():
    with pytest.raises(SqlError) as error:
        app_with("CREATE STREAM matched AS SELECT * FROM clicks c JOIN shown s ON c.ad = s.ad")
    assert "add AND s.seen BETWEEN c.at - INTERVAL 1 HOUR AND c.at" in str(error.value)
    with pytest.raises(SqlError, match="gives columns of the left only, and 'place' is of the right"):
        app_with(f"CREATE STREAM m AS SELECT s.place FROM clicks c LEFT SEMI JOIN shown s ON c.ad = s.ad AND {HOUR}")
    with pytest.raises(SqlError, match="has its time and its options"):
        app_with("CREATE STREAM x (WATERMARK FOR at AS at) AS SELECT * FROM clicks")
