"""Tables and joins in SQL: scripts with tables, what SHOW tells of them, DROP, and joins of views in a question."""

from __future__ import annotations

import pytest

from penstock.app import App
from penstock.scripts.play import Play
from penstock.sql import answer, define
from penstock.sql.errors import SqlError
from penstock.sql.read import parse, parse_one

SCRIPT = """
CREATE STREAM clicks (user INT, page STRING, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE TABLE users (id BIGINT, tier STRING, page STRING, since TIMESTAMP)
  FROM FILES 'users' WITH (key = 'id', reload = '10 minutes', valid_from = 'since');
CREATE CONTINUOUS VIEW by_tier AS
  SELECT u.tier, u.page AS home, window_start, window_end, count(*) AS n, max(c.page) AS last
  FROM TUMBLE(clicks, at, 1 MINUTE) AS c LEFT JOIN users FOR SYSTEM_TIME AS OF c.at AS u ON c.user = u.id
  WHERE c.page <> 'z' GROUP BY u.tier, u.page, window_start, window_end;
CREATE STREAM rich AS SELECT clicks.page, users.tier FROM clicks JOIN users ON clicks.user = users.id;
CREATE CONTINUOUS VIEW pages AS SELECT page, tier, count(*) AS n FROM rich GROUP BY page, tier;
INSERT INTO users VALUES (1, 'gold', '/home', '2000-01-01 11:00:00'), (1, 'iron', '/h', '2000-01-01 12:00:30');
INSERT INTO clicks VALUES (1, 'a', '2000-01-01 12:00:00'), (1, 'b', '2000-01-01 12:00:40'),
  (2, 'a', '2000-01-01 12:00:00'), (2, 'z', '2000-01-01 12:00:00');
INSERT INTO users VALUES (2, 'new', '/', '2000-01-01 12:00:00');
INSERT INTO clicks VALUES (2, 'a', '2000-01-01 12:00:00');
"""


def played(engine: str) -> Play:
    play = Play(engine)  # type: ignore[arg-type]
    for statement in parse(SCRIPT):
        play.do(statement)
    return play


@pytest.mark.parametrize("engine", ["reference", "kernel"])
def test_a_script_gives_tables_rows_and_views_join_them(engine):
    play = played(engine)
    columns = "tier, home, n, last"
    told = play.do(parse_one(f"SELECT {columns} FROM by_tier ORDER BY tier"))
    assert told.rows == ((None, None, 1, "a"), ("gold", "/home", 1, "a"), ("iron", "/h", 1, "b"), ("new", "/", 1, "a"))
    told = play.do(parse_one("SELECT page, tier, n FROM pages ORDER BY page, tier"))
    assert told.rows == (("a", "gold", 1), ("a", "new", 1), ("b", "iron", 1))


def test_a_question_joins_views():
    asked = "SELECT p.page, t.home FROM pages p JOIN by_tier t ON p.tier = t.tier WHERE t.tier <> 'new' ORDER BY 1"
    assert played("kernel").do(parse_one(asked)).rows == (("a", "/home"), ("b", "/h"))
    asked = "SELECT t.tier, p.page FROM by_tier t LEFT JOIN pages p ON p.tier = t.tier AND p.page = 'b' ORDER BY 1"
    assert len(played("kernel").do(parse_one(asked)).rows) == 4


def test_what_is_shown_of_a_table_makes_it_again():
    app = played("kernel").app
    again = App("again")
    for name in ("clicks", "users", "rich", "by_tier", "pages"):
        text = "\n".join(line for (line,) in answer(app, parse_one(f"SHOW CREATE {name}")).rows)
        define(again, parse_one(text), without_log=True)
    assert again.tables == app.tables
    assert again.views == app.views
    assert answer(app, parse_one("SHOW TABLES")).rows[0][:4] == (
        "users", "id bigint, tier string, page string, since timestamp", "id", "10 minutes",
    )  # fmt: skip
    assert answer(app, parse_one("DESCRIBE users")).rows[0] == ("id", "bigint", "key")


def test_a_table_that_is_read_is_not_dropped():
    app = played("kernel").app
    with pytest.raises(SqlError, match="'users' is read by rich, by_tier, pages"):
        define(app, parse_one("DROP TABLE users"))
    for name in ("VIEW pages", "VIEW by_tier", "STREAM rich", "TABLE users"):
        define(app, parse_one(f"DROP {name}"))
    assert not app.tables
