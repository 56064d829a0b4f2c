"""On a standalone cluster of separate processes: workers and executors come, go and die; every event counts once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from penstock.dev.cluster import Cluster
from penstock.store import Reader, StoreError
from tests.cluster.support import APP, FILE, ROOT, Driver, Scene, until
from tests.conftest import need_spark

pytestmark = pytest.mark.xdist_group("cluster")
STATE = APP.with_name("state.py")
DEEP = os.environ.get("PENSTOCK_DEEP") == "1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_spark()
    with Cluster(tmp_path_factory.mktemp("spark"), workers=1) as made:
        yield made


def python(folder: Path, lacks: str) -> Path:
    """A Python that has all that ours has, but for a module: as on a worker where it was not installed."""
    (folder / "sitecustomize.py").write_text(
        textwrap.dedent(f"""
        import os, sys

        sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "penstock"))]
        sys.meta_path[:] = [finder for finder in sys.meta_path if "penstock" not in repr(finder)]

        class Lacking:
            def find_spec(self, name, path=None, target=None):
                if name == {lacks!r}:
                    raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

        sys.meta_path.insert(0, Lacking())
        """)
    )
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    return script


def test_workers_and_executors_come_and_go_and_every_event_counts_once(
    cluster: Cluster, scene: Callable[[int], Scene], tmp_path: Path
):
    made = scene(22)
    bare = python(tmp_path, lacks="no module")
    for module in ("penstock", "beside"):
        has = subprocess.run([bare, "-c", f"import {module}"], capture_output=True, check=False, cwd="/")
        assert has.returncode, f"the executors have {module} only from the driver"
    made.write(6)
    driver = Driver(
        made, "--master", cluster.master, "--executor-python", str(bare), "--checkpoints", f"file://{tmp_path}/elsewhere",
        "--conf", "spark.speculation.task.duration.threshold=2s",
    )  # fmt: skip
    made.commits(FILE)
    second = cluster.add()
    until(lambda: second.executors() or not driver.runs, "an executor on the second worker")
    assert driver.runs, driver.said()
    made.write(4)
    made.commits(6 * FILE)
    straggler = cluster.workers[0].executors()[0]
    os.kill(straggler, signal.SIGSTOP)  # its tasks are started once more, elsewhere
    made.commits(10 * FILE)
    os.kill(straggler, signal.SIGCONT)
    made.write(4)
    os.kill(straggler, signal.SIGKILL)
    made.commits(14 * FILE)
    made.write(4)
    cluster.workers[0].kill()
    made.commits(18 * FILE)
    assert second.executors(), "the second worker goes on alone"
    driver.signal(signal.SIGTERM)
    assert driver.ends() == 0, driver.said()
    assert (tmp_path / "elsewhere" / "events" / "metadata").exists()
    assert not (made.root / "state" / "checkpoints").exists()

    made.write(4)
    alone = Driver(made, "--master", "local[2]", "--until-caught-up")
    assert alone.ends() == 0, alone.said()
    made.check()


@pytest.mark.deep
def test_an_app_without_executors_is_not_ready_until_one_comes(cluster: Cluster, scene: Callable[[int], Scene]):
    made = scene(2)
    made.write(1)
    if not any(worker.is_alive for worker in cluster.workers):
        cluster.add()
    driver = Driver(made, "--master", cluster.master, "--port", "0")
    made.commits(FILE)
    found = re.search(r"serving at (http://[^/\s]+)", driver.said())
    assert found is not None, driver.said()
    assert httpx.get(f"{found[1]}/ready").status_code == 200
    for worker in cluster.workers:
        if worker.is_alive:
            worker.kill()
    until(lambda: httpx.get(f"{found[1]}/ready").status_code == 503 or not driver.runs, "that it is not ready")
    assert "Spark has no executor" in httpx.get(f"{found[1]}/ready").text
    cluster.add()
    until(lambda: httpx.get(f"{found[1]}/ready").status_code == 200 or not driver.runs, "that it is ready")
    made.write(1)
    made.commits(2 * FILE)
    driver.signal(signal.SIGTERM)
    assert driver.ends() == 0, driver.said()


def write_events(made: Scene, files: int) -> list[tuple[int, str]]:
    """Files of events with two keys; their ids and keys."""
    rows = [(n, "ab"[n // 2 % 2]) for n in range(files * 8)]
    for number in range(files):
        some = rows[number * 8 : number * 8 + 8]
        lines = [json.dumps({"id": n, "k": k, "at": f"2026-05-01T12:{n % 60:02}:00Z"}) for n, k in some]
        hidden = made.root / f".{number}"
        hidden.write_text("\n".join(lines))
        hidden.rename(made.root / "in" / f"{number}.json")
    return rows


@pytest.mark.deep
@pytest.mark.parametrize("is_shared", [True, False], ids=["checkpoints apart", "only the history together"])
def test_joins_and_processors_commit_on_a_cluster_whose_workers_do_not_share_directories(
    cluster: Cluster, scene: Callable[[int], Scene], is_shared: bool
):
    made = scene(1)
    rows = write_events(made, 4)
    if not any(worker.is_alive for worker in cluster.workers):
        cluster.add()
    # Each process has another directory there, as each machine has: the driver's own, and the executors'.
    here = "/proc/self/cwd"
    places = ["--checkpoints", f"file://{here}/checkpoints"]
    if not is_shared:
        places = ["--dir", f"{here}/state", "--history", str(made.root / "history")]
    driver = Driver(made, "--master", cluster.master, *places, app=STATE)
    pairs = {(a, b) for a, k in rows for b, other in rows if k == other and a % 2 == 0 and b % 2 == 1}
    numbers = {(k, n + 1) for key in "ab" for n, (_, k) in enumerate(row for row in rows if row[1] == key)}

    def shown() -> tuple[dict, dict]:
        with suppress(StoreError):
            reader = Reader(made.root / "state")
            try:
                return (
                    {(a, b): n for a, b, n in reader.query("SELECT id, other, n FROM by_pair").rows()},
                    {(k, n): times for k, n, times in reader.query("SELECT k, n, times FROM by_number").rows()},
                )
            finally:
                reader.close()
        return {}, {}

    want = dict.fromkeys(pairs, 1), dict.fromkeys(numbers, 1)
    until(lambda: shown() == want or not driver.runs, "all pairs and numbers")
    assert driver.runs, driver.said() + made.log()
    assert shown() == want
    driver.signal(signal.SIGTERM)
    assert driver.ends() == 0, driver.said()


@pytest.mark.skipif(not DEEP, reason="deep: another start of Spark, for a message")
def test_an_executor_that_lacks_a_library_is_named(cluster: Cluster, scene: Callable[[int], Scene], tmp_path: Path):
    made = scene(1)
    made.write(1)
    if not any(worker.is_alive for worker in cluster.workers):
        cluster.add()
    lacking = python(tmp_path, lacks="polars")
    driver = Driver(made, "--master", cluster.master, "--executor-python", str(lacking))
    assert driver.ends() == 1
    assert "the Python of Spark's tasks has no module 'polars'" in driver.said()
    assert "hint: install it there" in driver.said()


def test_a_master_that_is_not_there_is_told_at_once(tmp_path: Path):
    from penstock.dev.ports import free_port

    command = [sys.executable, "-m", "penstock.cli", "run", str(APP), "--port", "0", "--dir", str(tmp_path / "state")]
    (tmp_path / "in").mkdir()
    done = subprocess.run(
        [*command, "--master", f"spark://127.0.0.1:{free_port()}"], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PENSTOCK_TEST_ROOT": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "there is no Spark master at 'spark://127.0.0.1:" in done.stderr
