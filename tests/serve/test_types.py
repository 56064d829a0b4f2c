"""Each type of column, as it leaves: JSON of a lookup, JSON and Arrow of a question, values of Python."""

from __future__ import annotations

import itertools
import os
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

import penstock
import penstock as ps
from penstock.client import Client
from penstock.client.wire import turn_of
from penstock.query.ask import Questions
from penstock.serve.server import Server
from penstock.serve.settings import Settings
from penstock.store import Reader
from penstock.store.scan import scanning
from penstock.testing import TestStream
from tests.store.engine import StoreEngine

AT = datetime(2024, 5, 1, 12, 0, 0, 250_000, UTC)
#: The type of a column, a value of it in Python, and the same in JSON.
VALUES: dict[str, tuple[Any, Any]] = {
    "tinyint": (-7, -7),
    "smallint": (300, 300),
    "int": (70_000, 70_000),
    "bigint": (9_007_199_254_740_993, 9_007_199_254_740_993),
    "float": (1.5, 1.5),
    "double": (-0.0, -0.0),
    "decimal(10,2)": (Decimal("9.50"), "9.50"),
    "decimal(38,10)": (Decimal("12345678901234567890.5000000000"), "12345678901234567890.5000000000"),
    "string": ('größer "x"', 'größer "x"'),
    "boolean": (True, True),
    "date": (date(2024, 2, 29), "2024-02-29"),
    "timestamp": (AT, "2024-05-01T12:00:00.250000Z"),
    "binary": (b"\x00\xff", b64encode(b"\x00\xff").decode()),
    "array<string>": (["a", None], ["a", None]),
    "array<boolean>": ([True, False], [True, False]),
    "array<timestamp>": ([AT], ["2024-05-01T12:00:00.250000Z"]),
    "array<decimal(4,2)>": ([Decimal("1.50")], ["1.50"]),
}
NAMES = {kind: f"c{number}" for number, kind in enumerate(VALUES)}
STREAM = ps.stream("s", schema=", ".join(["k string", *(f"{name} {kind}" for kind, name in NAMES.items())]))
VIEW = STREAM.group_by("k").agg(
    **{name: ps.last(name) for name in NAMES.values()}, top=ps.heavy_hitters("c2", limit=1), low=ps.min("c5")
)
#: What aggregates give, too.
TYPES = {**{name: kind for kind, name in NAMES.items()}, "top": "array<struct<item:int,estimate:bigint>>"}
PYTHON = {**{NAMES[kind]: value for kind, (value, _) in VALUES.items()}, "top": [{"item": 70_000, "estimate": 1}]}
JSON = {**{NAMES[kind]: value for kind, (_, value) in VALUES.items()}, "top": [{"item": 70_000, "estimate": 1}]}
_NUMBERS = itertools.count(1)


def fill(view: ps.View, directory: Path, *rows: tuple[Any, ...], url: str | None = None) -> StoreEngine:
    """A store with a view of these rows."""
    engine = StoreEngine(view, directory, url=url)
    (commit,) = TestStream(view.input.sources[0]).add(*rows).commits()
    assert commit is not None
    engine.commit(commit)
    return engine


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a store with one row of the view; its second key has nulls only."""
    store = None
    if request.param == "postgresql":
        store = f"{request.getfixturevalue('postgres').url}?schema=types{os.getpid()}_{next(_NUMBERS)}"
    directory = tmp_path_factory.mktemp("types")
    row = tuple(value for value, _ in VALUES.values())
    engine = fill(VIEW, directory, ("a", *row), ("b", *[None] * len(row)), url=store)
    server = Server(directory, Settings(port=0)).start()
    yield server.url
    server.stop()
    engine.store.close()


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with penstock.connect(url) as found:
        yield found


def exact(value: Any) -> str:
    """A value with its type and its sign."""
    return repr(value)


def test_a_lookup_gives_the_type_and_the_json_form_of_each_column(url: str):
    answer = httpx.get(f"{url}/api/v1/views/v", params={"key.k": "a"}, timeout=60).json()
    (row,) = answer["rows"]
    assert {name: exact(row[name]) for name in JSON} == {name: exact(value) for name, value in JSON.items()}
    types = {column["name"]: column["type"] for column in answer["columns"]}
    assert {name: types[name] for name in TYPES} == TYPES
    (nulls,) = httpx.get(f"{url}/api/v1/views/v", params={"key.k": "b"}, timeout=60).json()["rows"]
    assert all(nulls[name] is None for name in NAMES.values())


def test_a_question_gives_the_same_types_and_forms(url: str):
    question = {"sql": f"SELECT {', '.join(JSON)} FROM v WHERE k = 'a'"}
    answer = httpx.post(f"{url}/api/v1/query", json=question, timeout=60).json()
    (row,) = answer["rows"]
    assert {name: exact(row[name]) for name in JSON} == {name: exact(value) for name, value in JSON.items()}
    assert {column["name"]: column["type"] for column in answer["columns"]} == TYPES


def test_the_client_gives_values_of_python(client: Client):
    row = client.view("v").get(k="a") or {}
    assert {name: exact(row[name]) for name in PYTHON} == {name: exact(value) for name, value in PYTHON.items()}
    frame = client.query(f"SELECT {', '.join(PYTHON)} FROM v WHERE k = 'a'")
    values = frame.row(0, named=True)
    utc = {name: value.astimezone(UTC) if isinstance(value, datetime) else value for name, value in values.items()}
    utc[NAMES["array<timestamp>"]] = [at.astimezone(UTC) for at in values[NAMES["array<timestamp>"]]]
    assert {name: exact(value) for name, value in utc.items()} == {name: exact(value) for name, value in PYTHON.items()}


@pytest.mark.parametrize(
    ("kind", "items", "expected"),
    [
        ("map<bigint,string>", {"7": "a"}, {7: "a"}),
        ("map<boolean,decimal(4,2)>", {"true": "1.50", "false": None}, {True: Decimal("1.50"), False: None}),
        ("map<string,array<date>>", {"a": ["2024-05-01"]}, {"a": [date(2024, 5, 1)]}),
        ("map<timestamp,int>", {"2024-05-01T12:00:00.250000Z": 1}, {AT: 1}),
    ],
)
def test_the_keys_of_a_map_have_their_type(kind, items, expected):
    turn = turn_of(kind)
    assert turn is not None
    assert turn(items) == expected


def test_the_sign_of_zero_is_kept_by_scans_and_lost_where_values_are_compared(client: Client):
    assert exact(client.query("SELECT c5, low FROM v WHERE k = 'a'").row(0)) == "(-0.0, 0.0)"
    assert client.query("SELECT count(*) AS n FROM v WHERE c5 = 0").item() == 1
    assert exact((client.view("v").get(k="a") or {})["low"]) == "0.0"


def test_a_plan_is_not_used_for_views_that_have_changed(tmp_path: Path):
    question = "SELECT v FROM v WHERE k = 'a'"
    rows = ps.stream("s", schema="k string, x int").group_by("k")
    directories: list[Path] = []
    for number, view in enumerate((rows.agg(v=ps.last("x")), rows.agg(v=ps.avg("x"), n=ps.count()))):
        directories.append(tmp_path / str(number))
        fill(view, directories[-1], ("a", 7)).store.close()
    questions = Questions(Reader(directories[0]))
    before = questions.ask(question)
    with scanning(questions.reader) as snapshot:
        tables = {name: view.schema for name, view in snapshot.views.items()}
    assert questions.plan(question, tables) is questions.plan(question, tables)
    questions.reader = Reader(directories[1])  # as if the view had been replaced
    after = questions.ask(question)
    assert (before.table.to_pylist(), after.table.to_pylist()) == ([{"v": 7}], [{"v": 7.0}])
    assert (str(before.schema.type_of("v")), str(after.schema.type_of("v"))) == ("int", "double")
