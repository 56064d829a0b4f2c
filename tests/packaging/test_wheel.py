"""The wheel, as a user installs it: into an empty environment, with and without the extras."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.browser.conftest import FLAGS, chromium
from tests.conftest import without

ROOT = Path(__file__).parents[2]
APP = """
import penstock as ps

app: ps.App = ps.App("shop")
orders: ps.Stream = app.stream(
    "orders", ps.files("orders"), schema="item string, price int, at timestamp", event_time="at",
    watermark=ps.bounded("10 seconds"),
)
totals: ps.View = app.view("totals", orders.where(orders["price"] > 1).group_by("item").agg(total=ps.sum("price")))
"""
#: What an app and its tests use, as a type checker sees it.
TYPED = """
from datetime import timedelta

import penstock as ps
from app import app, orders, totals
from penstock.testing import TestStream, run

shown: ps.Stream = app.stream(
    "shown", ps.kafka("shown"), schema="item string, at timestamp", event_time="at", watermark=ps.bounded("1 second")
)
pairs: ps.Stream = app.join("pairs", orders, shown, on="item", within=timedelta(hours=1), prefix="s_", event_time="at")
dear: ps.Expression = (ps.col("price") > 1) & pairs["item"].is_not_null()
app.view("dear", pairs.where(dear).window(ps.fixed("1 minute")).agg(n=ps.count(), top=ps.max("price")))
app.sink(totals, ps.to_jsonl("panes"))


def read() -> int:
    with app.start("state", tick="1 second", target=timedelta(seconds=2), serve=0) as running:
        running.catch_up()
        frame = running.view("totals").to_polars()
        rows: int = running.query("SELECT * FROM totals WHERE total > :least", {"least": 1}).height
        return frame.height + rows


def test_totals() -> None:
    result = run(totals, TestStream(orders).add(("tea", 3, "12:00:00")).clock(timedelta(seconds=1)))
    assert [row["total"] for row in result.table] == [3]
"""
SQL = """
CREATE STREAM orders (item STRING, price INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS)
  FROM FILES 'orders';
CREATE CONTINUOUS VIEW totals AS SELECT item, sum(price) AS total FROM orders WHERE price > 1 GROUP BY item;
"""
#: What is added to the app that `penstock init` writes: a view of rows that a function of another file makes.
DEAR = """
from prices import cents

prices = orders.map(cents, schema="item string, cents bigint, at timestamp")
app.view("dear", prices.group_by("item").agg(cents=ps.max("cents")))
"""
PRICES = """
def cents(row):
    return {"item": row.item, "cents": int(row.price * 100), "at": row.at}
"""
RUN = ("penstock", "run", "app.py", "--until-caught-up", "--no-serve")
#: Without any extra, a definition can be made and tried, and what is missing is named with the extra that has it.
CORE = """
import sys
import penstock as ps
from penstock.testing import TestStream, run
orders = ps.stream("orders", schema="item string, price int")
script = TestStream(orders).add(("tea", 3), ("tea", 4))
assert [row["total"] for row in run(orders.group_by("item").agg(total=ps.sum("price")), script).table] == [7]
assert not {"pyspark", "pandas", "fastapi", "confluent_kafka", "adbc_driver_postgresql"} & set(sys.modules)
for use in (lambda: ps.connect("http://localhost:1"), lambda: ps.App("a").start("state", store="postgresql://h/d")):
    try:
        use()
    except ps.PenstockError as error:
        print(error.hint)
"""


def uv(*arguments: object) -> None:
    """Runs uv, which is among the tools for development."""
    command = [Path(sys.executable).with_name("uv"), *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert finished.returncode == 0, finished.stderr


class Environment:
    """A virtual environment with the wheel and some extras, and the folder that its commands run in."""

    def __init__(self, directory: Path, wheel: Path, extras: str, *options: str) -> None:
        self.folder = directory / "work"
        self.folder.mkdir(parents=True)
        self.bin = directory / "venv" / "bin"
        uv("venv", "--quiet", "--python", sys.executable, directory / "venv")
        target = f"penstock{extras} @ {wheel.as_uri()}"
        uv("pip", "install", "--quiet", "--python", self.bin / "python", *options, target)

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its commands."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        return {**kept, "PENSTOCK_CLASS_ARCHIVE": "0"}  # of an environment that is gone in a minute

    def run(self, *command: str, folder: str = ".") -> str:
        finished = self.finished(*command, folder=folder)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def finished(self, *command: str, folder: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            capture_output=True, text=True, cwd=self.folder / folder, env=self.variables,
        )  # fmt: skip

    def ask(self, sql: str, folder: str) -> list[dict[str, object]]:
        """The rows of an answer; none while there is no answer."""
        asked = self.finished("penstock", "query", sql, "--format", "json", folder=folder)
        return json.loads(asked.stdout) if asked.returncode == 0 else []

    @contextmanager
    def running(self, *command: str, folder: str) -> Iterator[str]:
        """Runs or serves the app in a folder until the end of the block; yields the URL."""
        process = subprocess.Popen(
            [self.bin / "penstock", *command, "--port", "0"],
            stdout=subprocess.PIPE, text=True, cwd=self.folder / folder, env=self.variables,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            addresses = (re.search(r"http://[^/\s]+", line) for line in process.stdout)
            address = next((one for one in addresses if one is not None), None)
            assert address is not None
            yield address[0]
        finally:
            process.terminate()
            process.communicate()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", directory)
    (built,) = directory.glob("*.whl")
    return built


def test_the_core_needs_no_extra_and_runs_with_the_oldest_dependencies(wheel: Path, tmp_path: Path):
    core = Environment(tmp_path, wheel, "", "--resolution", "lowest-direct", "--requirements", "pyproject.toml")
    assert core.run("penstock", "--version").startswith("penstock ")
    hints = core.run("python", "-c", CORE)
    assert "penstock[client]" in hints
    assert "penstock[postgres]" in hints


@pytest.fixture(scope="module")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all extras and pandas 3, and apps in Python and SQL."""
    directory = tmp_path_factory.mktemp("all")
    lock = directory / "constraints.txt"
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    lock.write_text("\n".join("pandas>=3,<4" if line.startswith("pandas==") else line for line in lines))
    made = Environment(directory, wheel, "[all]", "--constraint", str(lock))
    (made.folder / "app.py").write_text(APP)
    (made.folder / "typed.py").write_text(TYPED)
    (made.folder / "app.sql").write_text(SQL)
    return made


def test_the_way_of_a_new_user(everything: Environment, tmp_path: Path):
    """Installed from the wheel: a new app, a run, a question, a change while it runs, another one, the dashboard."""
    everything.run("penstock", "init", "shop")
    app, picture = everything.folder / "shop" / "app.py", tmp_path / "dashboard.png"
    sold = [{"item": item, "orders": 6} for item in ("cup", "pot", "tea")]
    with everything.running("run", "app.py", folder="shop") as url:
        question = "SELECT item, sum(orders) AS orders FROM sales GROUP BY item ORDER BY item"
        wait_until(lambda: everything.ask(question, "shop") == sold)
        text = app.read_text()
        app.write_text(text.replace('"1 minute"', '"2 minutes"') + DEAR)
        (app.parent / "prices.py").write_text(PRICES)
        plan = everything.run("penstock", "plan", "app.py", folder="shop")
        assert "2 changes" in plan
        assert "penstock apply pauses it" in plan
        assert "goes on with the file" in everything.run("penstock", "apply", "app.py", folder="shop")
        assert everything.ask("SELECT count(*) AS n FROM sales", "shop") == [{"n": 6}]
        assert everything.ask("SELECT max(cents) AS n FROM dear", "shop") == [{"n": 550}]
        assert "running" in dashboard(url, picture)
        assert picture.read_bytes().startswith(b"\x89PNG")
    app.write_text(text)
    assert "state would be lost" in everything.finished(*RUN, "--apply", folder="shop").stderr
    assert "sales" in everything.run(*RUN, "--apply", "--yes", folder="shop")
    assert everything.ask("SELECT count(*) AS n FROM sales", "shop") == [{"n": 9}]
    with everything.running("serve", folder="shop") as url:
        assert "sales" in dashboard(url, picture)
    assert "totals" in everything.run("penstock", "explain", "app.sql")


def wait_until(what: Callable[[], bool], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.2)


def dashboard(url: str, picture: Path) -> str:
    """The text of the dashboard's page of views; a picture of it goes to a file."""
    program = chromium()
    if program is None:
        without("there is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            page = browser.new_page()
            page.goto(f"{url}/?panel=views")
            page.get_by_text("sales").first.wait_for()
            page.screenshot(path=picture)
            return page.inner_text("body")
        finally:
            browser.close()


@pytest.mark.deep
def test_an_app_of_a_user_passes_strict_checks_of_types(everything: Environment, tmp_path: Path):
    checked = subprocess.run(
        [Path(sys.executable).with_name("mypy"), "--strict", "--python-executable", everything.bin / "python",
         "--cache-dir", tmp_path, "app.py", "typed.py"],
        cwd=everything.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
