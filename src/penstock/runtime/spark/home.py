"""A home of Spark from which its Python processes start fast.

Java puts the zip file with PySpark's sources before everything else that a Python process of its own imports from. From
a zip no compiled code is kept, so each such process compiles PySpark again: half a second, and an app starts about
ten of them. In one process with its driver they have the installed package too; so Java is started from a home that is
the same but for the zip file.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from penstock.runtime.spark.jars import cache


@contextmanager
def fast_home() -> Iterator[None]:
    """While this lasts, Java starts from such a home; not if the user has chosen one, or none can be made."""
    home = None if "SPARK_HOME" in os.environ else spark_home()
    if home is None:
        yield
        return
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def spark_home() -> Path | None:
    """The home for the installed PySpark: links to what Java needs of it, kept for later starts."""
    module = find_spec("pyspark")
    if module is None or module.origin is None:
        return None
    package = Path(module.origin).parent
    if not (package / "python" / "lib" / "pyspark.zip").exists():
        return None
    place = cache() / f"spark-{hashlib.sha256(str(package).encode()).hexdigest()[:12]}"
    if not place.is_dir():
        try:
            _make(place, package)
        except OSError:
            return None
    return place


def _make(place: Path, package: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as hidden:
        new = Path(hidden) / "new"
        new.mkdir()
        for part in ("bin", "jars", "sbin"):
            (new / part).symlink_to(package / part)
        try:
            new.rename(place)
        except OSError:  # another process was faster
            if not place.is_dir():
                raise
