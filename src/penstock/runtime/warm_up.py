"""Warms Spark up for a standby: a small app runs in the session until it has committed, in a directory of its own.

After that Java has loaded and compiled what an epoch uses, and Spark's Python processes run.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.model.aggregates import count
from penstock.model.stream import stream
from penstock.model.watermarks import bounded
from penstock.model.windows import fixed
from penstock.runtime.run import Run
from penstock.sources.files import files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("penstock.runtime")
#: Epochs of this size are computed by Spark's tasks, not on the driver.
_EVENTS: Final = 40_000
_LOOK: Final = 0.05


def warm_up(spark: SparkSession, is_needed: Callable[[], bool]) -> bool:
    """Runs the small app to its end, or until the session is needed; whether Spark is warm.

    It fails without consequences: the standby then takes over with a Spark that is not warm.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-warm-up-", ignore_cleanup_errors=True) as scratch:
            return _run(spark, Path(scratch), is_needed)
    except Exception as error:
        _log.warning("the standby could not warm Spark up: %s", error)
        return False


def _run(spark: SparkSession, root: Path, is_needed: Callable[[], bool]) -> bool:
    folder = root / "in"
    folder.mkdir()
    for name, size in (("1-small", 10), ("2-large", _EVENTS)):
        row = json.dumps({"key": name, "at": "2026-01-01T00:00:00Z"})
        (folder / f"{name}.json").write_text(f"{row}\n" * size)
    events = stream(
        "events", files(folder, files_per_epoch=1), schema="key string, at timestamp", event_time="at",
        watermark=bounded("1 second"),
    )  # fmt: skip
    view = events.group_by("key").window(fixed("1 minute")).agg(n=count())
    run = Run("warm-up", {"events": events}, {"by_key": view}, root / "state", spark=spark).start()
    try:
        while not is_needed():
            run.wait(_LOOK)
            if run.is_caught_up("events"):
                return True
        return False
    finally:
        run.stop()
