"""How large an epoch may be that the driver reduces alone: a job would take longer to be planned than to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.process_state import process
from penstock.runtime.spark.session import active_session
from penstock.runtime.spark.workers import WorkerStart

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

#: The setting of Spark's with the size of epochs that the driver reduces without a job; 0 leaves all to tasks.
SMALL_EPOCH: Final = "spark.penstock.smallEpochBytes"
SMALL_EPOCH_BYTES: Final = 2 << 20
#: The size where nothing is set and Spark's Python workers are still being started.
EARLY_EPOCH_BYTES: Final = 16 << 20


def small_epoch_bytes(session: SparkSession) -> int:
    """Up to how many bytes the driver reduces an epoch now."""
    usual = EARLY_EPOCH_BYTES if process.of(WorkerStart).goes_on else SMALL_EPOCH_BYTES
    return int(session.conf.get(SMALL_EPOCH, str(usual)) or 0)


def for_tasks(rows: pa.Table) -> DataFrame:
    """Rows of the driver that are too many for it, for Spark's tasks."""
    return active_session().createDataFrame(rows)
