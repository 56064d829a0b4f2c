"""A Java that starts fast, for tests that start it many times: the classes that Spark loads, parsed once and kept.

Loading them is what costs most when an app starts. Java can write them into an archive when it ends (CDS), and map that
when it starts again; without the archive, or with one that does not fit, it starts as ever.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from penstock.engine.session import ensure_java

_FAST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"


def fast_java(train: Callable[[dict[str, str]], None]) -> dict[str, str]:
    """The environment in which Java starts fast. `train` runs an app in an environment, the first time only."""
    ensure_java()
    java = os.environ.get("JAVA_HOME", "java").replace("/", "_")
    folder = Path(tempfile.gettempdir()) / f"penstock-tests-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    archive = folder / f"spark-{version('pyspark')}-{java}.jsa"
    with (folder / "lock").open("w") as lock:  # several test processes at once make it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            new = archive.with_suffix(".new")
            train(_with(f"-XX:ArchiveClassesAtExit={new}"))
            if new.exists():
                new.rename(archive)
    return _with(f"-XX:SharedArchiveFile={archive}" if archive.exists() else "")


def _with(option: str) -> dict[str, str]:
    return {**os.environ, "PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{_FAST} {option}" pyspark-shell'}
