"""A Java that starts fast, for tests that start it many times: the classes that Spark loads, parsed once and kept.

Loading them is what costs most when an app starts. Java can write them into an archive when it ends (CDS), and map that
when it starts again; without the archive, or with one that does not fit, it starts as ever.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from penstock.runtime.spark.java import ensure_java

_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"


def fast_java(train: Callable[[dict[str, str]], None] = lambda environment: _run_an_app(environment)) -> dict[str, str]:
    """The environment in which Java starts fast. `train` runs an app in an environment, the first time only."""
    ensure_java()
    archive = archive_of_classes()
    with (archive.parent / "lock").open("w") as lock:  # several test processes at once make it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            new = archive.with_suffix(".new")
            train(_with(f"-XX:ArchiveClassesAtExit={new}"))
            if new.exists():
                new.rename(archive)
    return _with(f"-XX:SharedArchiveFile={archive}" if archive.exists() else "")


def archive_of_classes() -> Path:
    """Where the archive lies, for this Java and the jars of this Spark: those of another place do not fit."""
    found = find_spec("pyspark")
    place = f"{os.environ.get('JAVA_HOME', 'java')} {'' if found is None else found.origin}"
    folder = Path(tempfile.gettempdir()) / f"penstock-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"spark-{hashlib.sha256(place.encode()).hexdigest()[:12]}.jsa"


def make_ready() -> None:
    """Makes the archive while the first tests run, where there is none yet."""
    if not archive_of_classes().exists():
        subprocess.Popen(
            [sys.executable, "-m", "tests.faults.java"], cwd=Path(__file__).parents[2],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip


def _run_an_app(environment: dict[str, str]) -> None:
    code = """
import json, pathlib, sys, tempfile
import penstock as ps
with tempfile.TemporaryDirectory() as work:
    root = pathlib.Path(work)
    (root / "in").mkdir()
    (root / "in" / "a.json").write_text(json.dumps({"k": "a", "at": "2024-01-01T00:00:00Z"}))
    app = ps.App("training")
    stream = app.stream("events", ps.files(root / "in"), schema="k string, at timestamp", event_time="at",
                        watermark=ps.bounded("1 second"))
    app.view("by_k", stream.group_by("k").window(ps.fixed("1 minute")).agg(n=ps.count()))
    run = app.start(root / "state", master="local[2]")
    run.catch_up()
    run.stop()
    java = run.spark.sparkContext._gateway.proc
    run.spark.stop()
    java.stdin.close()
    java.wait(120)  # it writes the archive when it ends
"""
    subprocess.run([sys.executable, "-c", code], env=environment, check=False)


def quick_java() -> None:
    """Lets every Java that a test starts begin quickly, with the archive once there is one.

    They are many and small, on few cores: compiling their code to the last is work that never pays.
    """
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", f'--driver-java-options "{quick_options()}" pyspark-shell')


def quick_options() -> str:
    """What such a Java is started with."""
    return f"{_FAST} -XX:SharedArchiveFile={archive_of_classes()}"


def _with(option: str) -> dict[str, str]:
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{_FAST} {option}" pyspark-shell'}


if __name__ == "__main__":
    fast_java()
