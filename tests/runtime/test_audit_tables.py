"""Audits of views that are joined with tables: each commit is computed again with the version that it had."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import penstock as ps
from penstock.app import App
from penstock.history.batch.audit import Audit, AuditResult
from penstock.history.batch.runs import batch
from penstock.runtime.run import Run
from penstock.store import Keep


def define(root: Path, *, with_shops: bool = True) -> App:
    app = App("shop")
    clicks = app.stream(
        "clicks", ps.files(root / "clicks", files_per_epoch=1), schema="user int, at timestamp", event_time="at",
        watermark=ps.bounded("10 seconds", idle=None), max_ahead=None,
    )  # fmt: skip
    said = {"schema": "id bigint, tier string", "key": "id", "reload": "on change"}
    small = app.table("users", ps.files(root / "users"), **said)
    window = ps.fixed("1 minute")
    app.view(
        "by_tier", clicks.join(small, on="user = id", how="left").group_by("tier").window(window).agg(n=ps.count())
    )
    if with_shops:
        large = app.table("shops", ps.files(root / "users"), broadcast=False, **said)
        app.view("by_shop", clicks.join(large, on="user = id").group_by("tier").window(window).agg(n=ps.count()))
    return app


def put(root: Path, name: str, number: int, rows: list[dict]) -> None:
    hidden = root / f".{name}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(root / name / f"{number}.json")


def turn(root: Path, run: Run, version: int) -> None:
    """The users have other tiers, and the app has read them."""
    known = {name: noted(run, name) for name in run.tables.snapshots}
    put(root, "users", 0, [{"id": user, "tier": f"t{version + user % 2}"} for user in range(4)])
    for name, versions in known.items():
        while noted(run, name) == versions:
            run.wait(0.1)


def noted(run: Run, table: str) -> set[str]:
    return {note.name for note in (run.directory / "tables" / table).glob("*.json")}


def click(root: Path, run: Run, number: int) -> None:
    put(root, "clicks", number, [{"user": u, "at": f"2000-01-01T12:0{number}:0{u}Z"} for u in range(6)])
    run.catch_up()


def audit(run: Run, app: App, name: str) -> AuditResult:
    return Audit(run.spark, run.store, app.streams, app.views, run.history).run(name)


@pytest.mark.deep
def test_an_audit_joins_with_the_versions_that_the_commits_had(spark, tmp_path):
    for name in ("clicks", "users"):
        (tmp_path / name).mkdir()
    put(tmp_path, "users", 0, [{"id": user, "tier": "t0"} for user in range(4)])
    app = define(tmp_path)
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0)
    try:
        for number in range(3):
            click(tmp_path, run, number)
            turn(tmp_path, run, number + 1)
        click(tmp_path, run, 3)
        for name in ("by_tier", "by_shop"):
            found = audit(run, app, name)
            assert (found.unable, found.is_right, found.rows > 4) == (None, True, True), found
        with run.store._transaction() as connection:  # as when they are old
            connection.run("DELETE FROM __commits WHERE number < (SELECT max(number) FROM __commits)")
        found = audit(run, app, "by_tier")
        assert (found.unable, found.is_right) == (None, True), found
        tiers = set(run.store.query("SELECT DISTINCT tier FROM by_tier").to_series())
        assert {"t0", "t1", "t4"} <= tiers, "the versions differ"
        # What a run from the past has made, it has joined with the version of then.
        assert [outcome.rows for outcome in batch(run, ["by_tier"], whole=True)] == [24]
        turn(tmp_path, run, 7)
        click(tmp_path, run, 4)
        found = audit(run, app, "by_tier")
        assert (found.unable, found.is_right, found.events) == (None, True, 30), found
        shutil.rmtree(tmp_path / "state" / "tables" / "users" / "1")
        (tmp_path / "state" / "tables" / "users" / "1.json").unlink()
        shutil.rmtree(tmp_path / "state" / "tables" / "shops" / "2")
        (tmp_path / "state" / "tables" / "shops" / "2.json").unlink()
        assert audit(run, app, "by_tier").is_right, "that version is not needed any more"
        found = audit(run, app, "by_shop")
        assert found.unable is not None
        assert "version 2 of the table 'shops', which commits read, has been deleted" in found.unable
    finally:
        run.stop()


@pytest.mark.deep
def test_an_audit_of_a_view_with_a_table_is_right_after_more_commits_than_are_kept(spark, tmp_path):
    for name in ("clicks", "users"):
        (tmp_path / name).mkdir()
    put(tmp_path, "users", 0, [{"id": user, "tier": "t0"} for user in range(4)])
    app = define(tmp_path, with_shops=False)
    run = app.start(tmp_path / "state", spark=spark, tick=3600.0, keep=Keep(commits=1, every=1))
    try:
        for number in range(2):
            click(tmp_path, run, number)
        turn(tmp_path, run, 1)
        for number in range(2, 4):
            click(tmp_path, run, number)
        assert run.store.query("SELECT count(*) FROM __commits").item() == 1
        assert set(run.store.query("SELECT DISTINCT tier FROM by_tier").to_series()) == {None, "t0", "t1", "t2"}
        audited = audit(run, app, "by_tier")
        assert (audited.unable, audited.is_right, audited.events) == (None, True, 24), audited
        with run.store._transaction() as connection:  # the audit would notice another version
            connection.run("UPDATE __versions SET version = 1")
        assert not audit(run, app, "by_tier").is_right
    finally:
        run.stop()
