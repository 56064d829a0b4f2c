"""The sinks into tables and web addresses as SQL says them: the same values as in Python, and no password kept."""

from __future__ import annotations

import pytest

import penstock as ps
from penstock import sql
from penstock.errors import PenstockError

GIVEN = """CREATE STREAM orders (item STRING, price INT) FROM FILES 'orders';
CREATE CONTINUOUS VIEW totals AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
"""


def sink_of(target: str) -> ps.sinks.Sink:
    app = ps.App("shop")
    for statement in sql.parse(f"{GIVEN} CREATE SINK out FROM totals INTO {target}"):
        sql.define(app, statement)
    return app.sinks["out"][2]


@pytest.mark.parametrize(
    ("target", "sink"),
    [
        ("POSTGRES 'public.totals'", ps.to_postgres("public.totals")),
        (
            "POSTGRES 't' WITH (url = 'postgresql://u@h/d', key = 'item', create_table = false, mode = 'upsert')",
            ps.to_postgres("t", url="postgresql://u@h/d", key=["item"], create=False),
        ),
        ("POSTGRES 't' WITH (mode = 'panes', rows_per_transaction = 5)",
         ps.to_postgres("t", mode="panes", rows_per_transaction=5)),
        ("JDBC 'jdbc:h2:x'", ps.to_jdbc("totals", url="jdbc:h2:x")),
        ("JDBC 'jdbc:x:y' WITH (table = 't', driver = 'd', jar = 'j', user = 'u', secret = 'S', create_table = false)",
         ps.to_jdbc("t", url="jdbc:x:y", driver="d", jar="j", user="u", secret="S", create=False)),
        ("HTTP 'https://example.com/x'", ps.to_http("https://example.com/x")),
        (
            "HTTP '${URL}' WITH (rows_per_request = 9, 'header.authorization' = 'Bearer ${T}', secret = 'S', "
            "timeout = 2.5, format = 'lines', on_refusal = 'set aside', refused = 'aside', mode = 'update')",
            ps.to_http("${URL}", batch=9, headers={"authorization": "Bearer ${T}"}, secret="S", timeout=2.5,
                       format="lines", on_refusal="set aside", refused="aside", mode="update"),
        ),
    ],
)  # fmt: skip
def test_a_sink_in_sql_is_the_one_in_python(target, sink):
    assert sink_of(target) == sink


def test_a_sink_in_real_time_mode_says_how_often_it_notes_how_far_it_is():
    app = ps.App("shop")
    text = """CREATE STREAM orders (item STRING, price INT) FROM KAFKA 'orders';
    CREATE STREAM dear AS SELECT item FROM orders WHERE price > 9;
    CREATE SINK out FROM dear INTO KAFKA 'dear' WITH (mode = 'realtime', checkpoint_every = '90 seconds');"""
    for statement in sql.parse(text):
        sql.define(app, statement)
    assert app.sinks["out"][2] == ps.to_kafka("dear", checkpoint_every="90 seconds", mode="realtime")


@pytest.mark.parametrize(
    "target",
    [
        "POSTGRES 't' WITH (url = 'postgresql://u:do-not-tell@h/d')",
        "POSTGRES 't' WITH (url = 'postgresql://h/d?password=do-not-tell')",
        "JDBC 'jdbc:postgresql://h/d?user=u&password=do-not-tell'",
    ],
)
def test_a_password_in_a_statement_is_refused_and_not_shown(target):
    with pytest.raises(PenstockError, match="has a password in it") as told:
        sink_of(target)
    assert "do-not-tell" not in str(told.value)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("POSTGRES 't' WITH (mode = 'complete')", "unknown mode of a sink 'complete'"),
        ("POSTGRES 't' WITH (kei = 'item')", "did you mean key?"),
        ("POSTGRES 't' WITH (create_table = 1)", "takes true or false"),
        ("HTTP 'nowhere'", "not a URL"),
        ("HTTP 'https://example.com' WITH (rows_per_request = 'many')", "takes a whole number"),
        ("JDBC 'h2:x'", "not an address for JDBC"),
    ],
)
def test_what_is_wrong_is_said(target, told):
    with pytest.raises(PenstockError) as error:
        sink_of(target)
    assert told in str(error.value)
