"""What is restored is what was saved, or nothing is: sums, locks, definitions and sinks are looked at first."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import penstock as ps
from penstock.cli import cli
from penstock.errors import PenstockError
from penstock.history.savepoints import SavepointError, compare, create, find, restore
from penstock.runtime.run import Run
from penstock.sinks.directory import files_of
from penstock.store import Reader, StoreError
from penstock.testing import TestStream
from tests.history.savepoints.support import BY_PAGE, VISITS, Written
from tests.sinks.support import LIVE, STREAM, Fed, steady

APP = """
import penstock as ps

app = ps.App("shop")
visits = app.stream(
    "visits", ps.files("in"), schema="page string, at timestamp", event_time="at", watermark=ps.bounded("1 second"),
    max_ahead=None,
)
app.view("by_page", visits.group_by("page").window(ps.fixed("10 seconds")).agg(n=ps.count()))
"""


def penstock(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def state(directory: Path) -> dict[str, bytes]:
    """The files of an app's checkpoints, and what its store has counted."""
    reader = Reader(directory)
    counted = json.dumps([reader.counters(), reader.views()]).encode()
    reader.close()
    checkpoints = directory / "checkpoints"
    files = [path for path in checkpoints.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files} | {"counted": counted}


def test_a_savepoint_is_restored_elsewhere(written, tmp_path):
    app: Written = written(25)
    point = create(app.directory, "a")
    before = state(point.path)
    assert before["counted"] == state(app.directory)["counted"]
    app.run(3)
    assert restore(point, tmp_path / "other" / "state") is None
    assert state(tmp_path / "other" / "state") == before
    assert sorted(path.name for path in (tmp_path / "other" / "state").iterdir() if path.suffix == "") == [
        "checkpoints", "lock",
    ]  # fmt: skip


@pytest.mark.parametrize("file", ["store.db", "checkpoints/visits/offsets/2", "checkpoints/visits/sources/0/0"])
@pytest.mark.parametrize("harm", ["changed", "cut off", "gone"])
def test_a_damaged_file_is_noticed_and_nothing_is_restored(written, tmp_path, file, harm):
    app: Written = written(3)
    path = create(app.directory, "a").path / file
    whole = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] + (b"" if harm == "cut off" else bytes([whole[-1] ^ 1])))
    with pytest.raises(SavepointError, match="is damaged") as told:
        restore(find("a", app.directory), tmp_path / "other")
    assert file in str(told.value)
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["lock"]


def test_a_manifest_that_leads_elsewhere_is_refused(written, tmp_path):
    point = create(written(1).directory, "a")
    manifest = point.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"store.db"', '"../../store.db"'))
    with pytest.raises(SavepointError, match="damaged"):
        find("a", point.path.parents[1])


def test_a_running_app_is_not_restored_over(written):
    app: Written = written(2)
    point = create(app.directory, "a")
    for force in (False, True):
        with pytest.raises(StoreError, match="is in use"):
            restore(point, app.directory, force=force)


def test_a_state_that_is_there_is_moved_aside_only_if_asked(written):
    app: Written = written(2)
    before = state(app.directory)
    point = create(app.directory, "a")
    app.run(2)
    app.store.close()
    after = state(app.directory)
    with pytest.raises(SavepointError, match="holds the state of an app"):
        restore(point, app.directory)
    assert state(app.directory) == after
    aside = restore(point, app.directory, force=True)
    assert aside is not None
    assert state(app.directory) == before
    assert state(aside) == after


def test_a_restore_that_was_killed_is_noticed_and_can_be_done_again(written, tmp_path, monkeypatch):
    app: Written = written(2)
    before = state(app.directory)
    point = create(app.directory, "a")
    app.store.close()

    class Dies(BaseException):
        """Stands for the end of the process."""

    rename, left = os.rename, [0]

    def renames(source: object, target: object) -> None:
        if left[0] == 0:
            raise Dies
        left[0] -= 1
        rename(source, target)  # type: ignore[arg-type]

    for moves in range(5):  # the copy, two of the old state, two of the new one
        shutil.copytree(app.directory, tmp_path / str(moves))
        left[0] = moves
        with monkeypatch.context() as patched:
            patched.setattr(os, "rename", renames)
            with pytest.raises(Dies):
                restore(point, tmp_path / str(moves), force=True)
        if moves:
            with pytest.raises(SavepointError, match="not finished"):
                Run("shop", {}, {}, tmp_path / str(moves))
        restore(point, tmp_path / str(moves), force=True)
        assert state(tmp_path / str(moves)) == before
        assert not (tmp_path / str(moves) / ".restored").exists()


# definitions


def test_verdicts_on_changed_definitions(written):
    point = create(written(1).directory, "a")

    def said(view: ps.View, name: str = "by_page") -> dict[str, tuple[bool, str]]:
        return {verdict.view: (verdict.goes_on, verdict.explanation) for verdict in compare(point, {name: view})}

    counted = VISITS.group_by("page").window(ps.fixed("20 seconds")).agg(n=ps.count())
    assert said(BY_PAGE) == {"by_page": (True, "goes on")}
    assert said(BY_PAGE.retracting()) == {"by_page": (True, "nothing → retracting()")}
    assert said(counted) == {"by_page": (False, "window(ps.fixed('10 seconds')) → window(ps.fixed('20 seconds'))")}
    assert said(counted, "other") == {
        "by_page": (True, "is not the app's: its table stays"),
        "other": (True, "starts empty, with the events after the savepoint"),
    }


def test_a_changed_definition_is_named_and_refused_with_the_way_out(written, tmp_path):
    app: Written = written(2)
    create(app.directory, "a")
    file = tmp_path / "shop.py"
    file.write_text(APP.replace("10 seconds", "20 seconds"))
    arguments = ("savepoint", "restore", "a", "--from", app.directory, "--dir", tmp_path / "new", "--app", file)
    refused = penstock(*arguments)
    assert refused.exit_code == 1
    assert "window(ps.fixed('10 seconds')) → window(ps.fixed('20 seconds'))" in refused.output
    assert "--drop by_page" in refused.output
    assert not (tmp_path / "new").exists()
    done = penstock(*arguments, "--drop", "by_page")
    assert done.exit_code == 0, done.output
    reader = Reader(tmp_path / "new")
    assert reader.views() == {}
    assert reader.counters() == {"visits.events": 20}
    reader.close()
    assert {path.name for path in (tmp_path / "new").iterdir()} <= {
        "store.db", "store.db-wal", "store.db-shm", "checkpoints", "lock", "signing.key",
    }  # fmt: skip


def test_a_view_that_is_not_there_cannot_be_dropped(written, tmp_path):
    with pytest.raises(PenstockError, match="did you mean 'by_page'"):
        restore(create(written(1).directory, "a"), tmp_path / "new", drop=["by_pages"])


# the command line


def test_the_commands(written, tmp_path):
    app: Written = written(3)
    assert "no savepoints" in penstock("savepoint", "list", "--dir", app.directory).output
    made = penstock("savepoint", "create", "first", "--dir", app.directory)
    assert "savepoint 'first' of commit 3" in made.output, made.output
    lines = penstock("savepoint", "list", "--dir", app.directory).output.splitlines()
    assert lines[0].split() == ["name", "when", "commit", "size", "watermark"]
    assert lines[2].split()[0] == "first"
    assert lines[2].split()[-1] == "2024-05-01T12:00:00Z"
    file = tmp_path / "shop.py"
    file.write_text(APP)
    there = ("--from", app.directory, "--dir", tmp_path / "new")
    done = penstock("savepoint", "restore", "first", *there, "--app", file)
    assert done.exit_code == 0, done.output
    assert "fits" in done.output
    assert "restored 'first'" in done.output
    again = penstock("savepoint", "restore", "first", *there)
    assert (again.exit_code, "--force" in again.output) == (1, True)
    unknown = penstock("savepoint", "restore", "fist", *there)
    assert "did you mean 'first'?" in unknown.output
    assert penstock("savepoint", "drop", "first", "--dir", app.directory).exit_code == 0
    assert "no savepoints" in penstock("savepoint", "list", "--dir", app.directory).output


# sinks


def panes_in(directory: Path) -> list[int]:
    return [json.loads(line)["pane"] for _, _, path in files_of(directory) for line in path.open()]


def restored(script: TestStream, directory: Path, commits: int) -> Fed:
    """The app in a restored directory: the rest of the script comes."""
    fed = Fed(LIVE, directory, script)
    for _ in range(commits):
        next(fed.commits)
    return fed


@pytest.mark.parametrize("delivered_at", [4, 2])
def test_a_sink_that_is_not_ahead_goes_on_where_it_was(tmp_path, delivered_at):
    fed, out = Fed(LIVE, tmp_path / "state", steady(12)), ps.to_jsonl(tmp_path / "out", rows_per_file=3)
    for number in range(4):
        fed.step()
        if number < delivered_at:
            fed.deliver(out=out)
    point = create(tmp_path / "state", "a")
    fed.store.close()
    restore(point, tmp_path / "other")
    fed = restored(steady(12), tmp_path / "other", 4)
    fed.all()
    fed.deliver(out=out)
    assert panes_in(tmp_path / "out") == list(range(1, fed.store.query("SELECT max(last) FROM __outbox").item() + 1))
    fed.store.close()


def test_a_sink_that_is_ahead_is_refused_and_can_be_taken_back(tmp_path):
    fed, out = Fed(LIVE, tmp_path / "state", steady(12)), ps.to_jsonl(tmp_path / "out")
    fed.step(2)
    fed.deliver(out=out)
    fed.step(2)  # panes of before the savepoint, in a file with some of after it
    point = create(tmp_path / "state", "a")
    fed.step(2)
    fed.deliver(out=out)
    fed.step(2)
    fed.deliver(out=out)
    fed.store.close()
    restore(point, tmp_path / "other")
    ahead = restored(steady(12), tmp_path / "other", 4)
    with pytest.raises(PenstockError, match="restored from an older copy"):
        ahead.deliver(out=out)
    ahead.store.close()
    app = tmp_path / "app.py"
    app.write_text(
        f"import penstock as ps\nfrom tests.sinks.support import LIVE, STREAM\napp = ps.App('a')\n"
        f"app.streams['s'] = STREAM\napp.view('v', LIVE)\n"
        f"app.sink('v', ps.to_jsonl({str(tmp_path / 'out')!r}), name='out')\n"
    )
    assert STREAM.name == "s"
    arguments = (
        "savepoint", "restore", "a", "--from", point.path, "--dir", tmp_path / "other", "--force", "--app", app,
    )  # fmt: skip
    refused = penstock(*arguments)
    assert refused.exit_code == 1
    assert "sinks are ahead of the savepoint 'a': 'out'" in refused.output, refused.output
    done = penstock(*arguments, "--rewind-sinks")
    assert done.exit_code == 0, done.output
    assert "the sink 'out': 2 files moved away" in done.output
    back = restored(steady(12), tmp_path / "other", 4)
    back.all()
    back.deliver(out=out)
    assert panes_in(tmp_path / "out") == list(range(1, back.store.query("SELECT max(last) FROM __outbox").item() + 1))
    back.store.close()
