"""An app in one process, shells in others, files arriving all the time: nothing is lost, also if the app is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.control import Client, ask
from penstock.store import Reader
from tests.cli.conftest import LONGEST, wait_for
from tests.cli.terminal import Terminal
from tests.conftest import need_spark
from tests.query.asking import rows_of

COMMAND = (sys.executable, "-m", "penstock.cli")
#: Then the app is also killed meanwhile, and started again.
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"
VISITS = [(f"/{n % 3}", f"u{n % 7}", n) for n in range(3000)]

APP = """
CREATE STREAM visits (page STRING, user STRING, ms INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS)
  FROM FILES 'in';
CREATE CONTINUOUS VIEW by_page AS SELECT page, count(*) AS n, sum(ms) AS ms FROM visits GROUP BY page EMIT CHANGES;
"""


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


class Writer(threading.Thread):
    """Writes files of ten visits one after the other, until it is stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self._stopped, self.written = folder, threading.Event(), 0

    def run(self) -> None:
        while not self._stopped.wait(0.15) and self.written < len(VISITS):
            some = VISITS[self.written : self.written + 10]
            name = f"{self.written:06}"
            lines = [json.dumps({"page": p, "user": u, "ms": ms, "at": "2024-05-01T12:00:00Z"}) for p, u, ms in some]
            (self._folder / f".{name}").write_text("\n".join(lines) + "\n")
            (self._folder / f".{name}").rename(self._folder / f"{name}.json")
            self.written += 10

    def stop(self) -> None:
        self._stopped.set()
        if self.ident is not None:
            self.join()


def sql(root: Path, *arguments: str) -> Any:
    """What a shell of its own answers, as JSON; its error, if it has one."""
    done = subprocess.run(
        [*COMMAND, "sql", "--format", "json", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout or "[]") if done.returncode == 0 else done.stderr


def start(root: Path) -> subprocess.Popen[str]:
    """`penstock run` without a file, once it listens."""
    running = subprocess.Popen(
        [*COMMAND, "run", "--no-serve", "--master", "local[1]"],
        cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for(lambda: Client(root / ".penstock").is_there, running)
    return running


def test_a_running_app_is_made_asked_followed_and_changed_from_other_processes(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "app.sql").write_text(APP)
    writer, running = Writer(tmp_path / "in"), start(tmp_path)
    try:
        assert sql(tmp_path, "-f", "app.sql") == []
        assert "app.sql:2:15: the app has a stream 'visits' already" in sql(tmp_path, "-f", "app.sql")
        writer.start()
        with Terminal("sql", cwd=tmp_path) as shell:
            shell.expect("an app runs")
            shell.send("CREATE CONTINUOUS VIEW by_user WITH (backfill = false) AS\r")
            shell.send(" SELECT user, count(*) AS n FROM visits GROUP BY user;\r")
            shell.expect("'by_user' takes events from the next epoch on")
            shell.send("SUBSCRIBE TO by_page WHERE n > 1 WITH (SNAPSHOT);\r")
            for _ in range(4):
                shell.expect("insert")
            shell.interrupt()
            shell.expect("ended after")
            shell.send("CREATE CONTINUOUS VIEW gone AS SELECT max(ms) AS ms FROM visits;\r")
            shell.expect("'gone' begins with all of history")
            shell.send("SELECT ms FROM gone;\r")
            shell.expect("row")
            shell.send("DROP VIEW gone;\r")
            shell.expect("'gone' dropped")
            shell.send("DROP VIEW gone;\r")
            shell.expect("unknown view 'gone'")
            if DEEP:
                running.kill()  # and the shell stays
                running.communicate()
                shell.send("SHOW SINKS;\r")
                shell.expect("ended without cleaning up")
                running = start(tmp_path)
            shell.send("CREATE CONTINUOUS VIEW later AS SELECT count(*) AS n FROM visits;\r")
            shell.expect("'later' begins with all of history")
            shell.send("\\q\r")
            assert shell.process.wait(30) == 0
        reader = Reader(tmp_path / ".penstock")
        wait_for(lambda: ask(reader, "SELECT n FROM later WHERE n > 50").table.num_rows == 1, running)
        writer.stop()
        wait_for(lambda: rows_of(ask(reader, "SELECT sum(n) AS n FROM by_page").table) == [(writer.written,)], running)
        reader.close()
        running.send_signal(signal.SIGINT)
        output, errors = running.communicate(timeout=LONGEST)
    finally:
        running.kill()
        writer.stop()
    assert (running.returncode, errors) == (0, "")
    assert ("by_page, by_user" if DEEP else "nothing yet") in output
    assert not (tmp_path / ".penstock" / "control.json").exists()
    check(tmp_path, VISITS[: writer.written])


def check(root: Path, visits: list[tuple[str, str, int]]) -> None:
    """Every view is what all events give, and one that was to begin with the next epoch what came since then."""
    store = Reader(root / ".penstock")
    since = {entry.name: entry.since for entry in store.catalog()}
    sizes = store.query("SELECT number, coalesce(rows, 0) FROM __commits").rows()
    begun = {name: sum(count for number, count in sizes if number <= commit) for name, commit in since.items()}
    assert begun["by_page"] == 0
    pages, users = Counter(page for page, _, _ in visits), Counter(user for _, user, _ in visits[begun["by_user"] :])
    assert dict(rows_of(ask(store, "SELECT page, n FROM by_page").table)) == pages
    assert dict(rows_of(ask(store, "SELECT user, n FROM by_user").table)) == users
    assert rows_of(ask(store, "SELECT n FROM later").table) == [(len(visits),)]
    assert sql(root, "-c", "SELECT sum(ms) AS ms FROM by_page") == [{"ms": sum(ms for _, _, ms in visits)}]
