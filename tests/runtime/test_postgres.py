"""An app on Spark with its store in PostgreSQL: run, asked, changed, audited, stopped and started again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

import penstock as ps
from penstock.cli import cli
from penstock.control import Live
from penstock.history.batch.audit import Audit
from penstock.store import Reader
from penstock.store.address import Address
from penstock.store.database import FILE, NOTE
from tests.postgres import Postgres


def shop(root: Path) -> ps.App:
    app = ps.App("shop")
    visits = app.stream(
        "visits",
        ps.files(root / "in"),
        schema="page string, user string, at timestamp",
        event_time="at",
        watermark=ps.bounded("1 second"),
    )
    app.view("by_page", visits.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count()))
    app.sink("by_page", ps.to_jsonl(root / "out"))
    return app


def put(root: Path, number: int) -> None:
    rows = [
        {"page": f"/{place % 3}", "user": f"u{place}", "at": f"2024-05-01T12:{number:02}:{place % 60:02}Z"}
        for place in range(120)
    ]
    hidden = root / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(root / "in" / f"{number}.json")


def penstock(*arguments: Any) -> str:
    done = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


def test_an_app_lives_in_postgres(spark: Any, tmp_path: Path, postgres: Postgres) -> None:
    url, directory = f"{postgres.url}?schema=shop{os.getpid()}", tmp_path / "state"
    (tmp_path / "in").mkdir()
    live = Live(shop(tmp_path), directory, spark=spark, store=url, tick=0.1).start()
    try:
        put(tmp_path, 0)
        live.catch_up()
        put(tmp_path, 1)
        live.catch_up()
        assert live.store.query("SELECT sum(n) FROM by_page").item() == 240
        found = Audit(spark, live.store, live.run.streams, shop(tmp_path).views, live.run.history).run("by_page")
        assert (found.unable, found.problems, found.differences, found.rows) == (None, [], 0, 36)
        assert "240" in penstock("status", "--dir", directory)
        assert "by_page" in penstock("views", "--dir", directory)
        sql = "SELECT page, sum(n) AS n FROM by_page GROUP BY page ORDER BY page"
        answer = penstock("query", sql, "--dir", directory, "--format", "json")
        assert json.loads(answer) == [{"page": f"/{place}", "n": 80} for place in range(3)]
        live.execute("CREATE CONTINUOUS VIEW by_user AS SELECT user, count(*) AS n FROM visits GROUP BY user")
    finally:
        live.stop()
    assert not (directory / FILE).exists()
    assert (directory / NOTE).read_text().strip() == Address.read(url).shown
    again = Live(shop(tmp_path), directory, spark=spark, tick=0.1).start()
    try:
        put(tmp_path, 2)
        again.catch_up()
    finally:
        again.stop()
    reader = Reader(directory)
    assert reader.query("SELECT sum(n) FROM by_page").item() == 360
    assert reader.query("SELECT sum(n) FROM by_user").item() == 360
    people = Address.read(url).people
    assert postgres.rows(f"SELECT sum(n)::int FROM {people}.by_user") == [(360,)]
    reader.close()
