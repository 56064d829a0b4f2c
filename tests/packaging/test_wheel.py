"""The wheel, as a user installs it: into an empty environment, with and without the extras."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
SQL = """
CREATE STREAM orders (item STRING, price INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS)
  FROM FILES 'orders';
CREATE CONTINUOUS VIEW totals AS SELECT item, sum(price) AS total FROM orders WHERE price > 1 GROUP BY item;
"""
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

    def run(self, *command: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        environment["PENSTOCK_CLASS_ARCHIVE"] = "0"  # of an environment that is gone in a minute
        finished = subprocess.run(
            [self.bin / command[0], *command[1:]], capture_output=True, text=True, cwd=self.folder, env=environment
        )
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--wheel", "--out-dir", directory)
    (built,) = directory.glob("*.whl")
    return built


def test_the_core_needs_no_extra(wheel: Path, tmp_path: Path):
    core = Environment(tmp_path, wheel, "", "--constraint", "requirements.lock")
    assert core.run("penstock", "--version").startswith("penstock ")
    hints = core.run("python", "-c", CORE)
    assert "penstock[client]" in hints
    assert "penstock[postgres]" in hints


@pytest.fixture(scope="module")
def everything(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with all extras, and apps in Python and SQL over a file of orders."""
    made = Environment(tmp_path_factory.mktemp("all"), wheel, "[all]", "--constraint", "requirements.lock")
    (made.folder / "orders").mkdir()
    rows = [{"item": "tea", "price": price, "at": "2024-05-01T12:00:00Z"} for price in (1, 2, 3)]
    (made.folder / "orders" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (made.folder / "app.py").write_text(APP)
    (made.folder / "app.sql").write_text(SQL)
    return made


def test_an_app_runs_from_the_wheel(everything: Environment):
    everything.run("penstock", "run", "app.py", "--until-caught-up", "--port", "0")
    question = ("query", "SELECT item, total FROM totals", "--format", "json")
    assert json.loads(everything.run("penstock", *question)) == [{"item": "tea", "total": 5}]
    assert "totals" in everything.run("penstock", "explain", "app.sql")


@pytest.mark.deep
def test_an_app_of_a_user_passes_strict_checks_of_types(everything: Environment, tmp_path: Path):
    checked = subprocess.run(
        [Path(sys.executable).with_name("mypy"), "--strict", "--python-executable", everything.bin / "python",
         "--cache-dir", tmp_path, "app.py"],
        cwd=everything.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
