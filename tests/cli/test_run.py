"""`run` in a process of its own, on Spark, asked by another one while it runs; stopped, and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.runtime.phases import COMPUTING, last_start
from penstock.runtime.spark.class_archive import OFF
from penstock.store import Reader, StoreError
from tests.cli.conftest import LONGEST, wait_for
from tests.conftest import need_spark

COMMAND = (sys.executable, "-m", "penstock.cli")


@pytest.fixture(autouse=True)
def _spark() -> None:
    need_spark()


def visit(page: str, second: int) -> str:
    return json.dumps({"page": page, "at": f"2024-05-01T12:00:{second:02}Z"})


def put(folder: Path, name: str, *lines: object) -> None:
    """A file that appears whole: rows, or raw text."""
    folder.mkdir(exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / f".{name}").write_text("\n".join(texts) + "\n")
    (folder / f".{name}").rename(folder / f"{name}.json")


def ask(folder: Path, sql: str) -> list[list[object]]:
    """The rows that another process gets; none while there is no answer."""
    done = subprocess.run(
        [*COMMAND, "query", sql, "--format", "json"], cwd=folder, capture_output=True, text=True, check=False
    )
    return [list(row.values()) for row in json.loads(done.stdout)] if done.returncode == 0 else []


def counted(folder: Path) -> int:
    """How many events are committed."""
    reader = Reader(folder / ".penstock")
    try:
        return reader.counters().get("visits.events", 0)
    except StoreError:  # it is not made yet
        return 0
    finally:
        reader.close()


def test_an_app_runs_is_asked_meanwhile_stops_at_ctrl_c_and_goes_on(
    app_file: Callable[..., Path], tmp_path: Path
) -> None:
    file, counts = app_file(), "SELECT page, n FROM by_page ORDER BY window_start, page"
    put(
        tmp_path / "in", "1", {"page": "/a", "at": "2024-05-01T12:00:01Z"}, {"page": "/a", "at": "2024-05-01T12:00:02Z"}
    )
    arguments = [*COMMAND, "run", str(file), "--for", "10m", "--no-serve", "--master", "local[1]"]
    with subprocess.Popen(
        arguments, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            wait_for(lambda: counted(tmp_path) == 2, running)
            assert ask(tmp_path, counts) == [["/a", 2]]
            put(tmp_path / "in", "2", visit("/b", 3), "{")
            wait_for(lambda: counted(tmp_path) == 4, running)
            assert ask(tmp_path, counts) == [["/a", 2], ["/b", 1]]
            running.send_signal(signal.SIGINT)
            output, errors = running.communicate(timeout=LONGEST)
        finally:
            running.kill()
    assert running.returncode == 0, errors
    assert errors == ""
    assert "stopping at the end of this epoch" in output
    assert output.endswith("4 events (0 late, 0 duplicate, 1 dead)\n")

    put(
        tmp_path / "in", "3", {"page": "/b", "at": "2024-05-01T12:00:30Z"}, {"page": "/b", "at": "2024-05-01T12:00:31Z"}
    )
    # Java is started as users have it, not by the script that tests use.
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"} | {OFF: "0"}
    again = subprocess.run(
        [*COMMAND, "run", str(file), "--until-caught-up", "--no-serve", "--master", "local[1]"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST, check=False, env=environment,
    )  # fmt: skip
    assert (again.returncode, again.stderr) == (0, "")
    parts = [span.name for span in last_start(tmp_path / ".penstock")]
    assert parts[0] == "loading the app"
    assert {"starting Spark", "opening the store", "starting the queries", COMPUTING} <= set(parts)
    assert ask(tmp_path, counts) == [["/a", 2], ["/b", 1], ["/b", 2]]
    assert ask(tmp_path, "SELECT kind, row FROM __refused") == [["dead", "{"]]
