"""The one file that reaches into Spark's internals: its Java objects, and texts that are not part of its interface."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def is_waiting(query: StreamingQuery) -> bool | None:
    """Whether a query has looked at its source and waits for something new; None while Spark does not say."""
    status: dict[str, Any] = query.status
    if status["isDataAvailable"]:
        return False
    return True if "Waiting" in status["message"] else None


def last_progress(query: StreamingQuery) -> dict[str, Any] | None:
    """What Spark reports of a query's last epoch. As one text: PySpark asks Java for each number."""
    report = query._jsq.lastProgress()
    return None if report is None else dict(json.loads(report.json()))


#: A running query keeps the limits of its sources here, and asks them with these before each epoch.
_LIMITS: Final = "uniqueSources"
_SET_LIMITS: Final = f"{_LIMITS}_$eq"


def takes_limits(query: StreamingQuery) -> bool:
    """Whether `set_limit` works with this version of Spark."""
    members = dir(query._jsq.streamingQuery()) if "streamingQuery" in dir(query._jsq) else []
    return _LIMITS in members and _SET_LIMITS in members


def set_limit(query: StreamingQuery, unit: str, limit: int) -> None:
    """Sets how many events, or bytes of files, a query takes at most from each of its sources, from its next epoch on.

    To be called while the query runs an epoch or waits for events: before that it knows no sources.
    """
    from pyspark import SparkContext

    execution: Any = query._jsq.streamingQuery()
    jvm: Any = SparkContext._active_spark_context
    kinds = jvm._jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
    read_limit = kinds.maxRows(limit) if unit == "events" else kinds.maxBytes(limit)
    limits = getattr(execution, _LIMITS)()
    sources = limits.keysIterator()
    while sources.hasNext():
        limits = limits.updated(sources.next(), read_limit)
    getattr(execution, _SET_LIMITS)(limits)


def analyzed_plan(rows: DataFrame) -> str:
    """The analyzed plan of a frame, as text."""
    return str(rows._jdf.queryExecution().analyzed().toString())


def cloned_session(spark: SparkSession) -> SparkSession:
    """Another session with the same settings, temporary views and functions. What is set there, is set only there.

    `newSession` would have none of these.
    """
    session: Any = spark
    return type(spark)(spark.sparkContext, session._jsparkSession.cloneSession())


def make_active(spark: SparkSession) -> None:
    """Makes a session the one of this thread. Spark keeps that by thread, and another one may have made the session."""
    session: Any = spark
    type(session)._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)


def executor_count(context: SparkContext) -> int:
    """How many executors a cluster has given us."""
    java: Any = context
    return len(java._jsc.sc().statusTracker().getExecutorInfos()) - 1  # the first one is the driver


def job_scheduler(context: SparkContext) -> Any:
    """What numbers Spark's jobs: `numTotalJobs()` is the number of the next one."""
    java: Any = context
    return java._jsc.sc().dagScheduler()


def job_group(context: SparkContext) -> str | None:
    """The job group of this thread's jobs. Those of a streaming query have one of their own."""
    return context.getLocalProperty("spark.jobGroup.id")


def job_stages(context: SparkContext, number: int, group: str | None) -> int | None:
    """How many stages a job has; None where it is of another group, or Spark has no record of it."""
    from py4j.protocol import Py4JJavaError

    java: Any = context
    try:
        job = java._jsc.sc().statusStore().job(number)
    except Py4JJavaError:
        return None
    return int(job.stageIds().size()) if job.jobGroup().contains(group) else None


def task_threads(context: SparkContext) -> Any:
    """The threads that run tasks in the driver's own Java: a `ThreadPoolExecutor`."""
    java: Any = context
    source = java._jvm.org.apache.spark.executor.Executor.executorSourceLocalModeOnly()
    for field in source.getClass().getDeclaredFields():
        if field.getType().getName() == "java.util.concurrent.ThreadPoolExecutor":
            field.setAccessible(True)
            return field.get(source)
    raise LookupError("Spark's executor has no threads that can be watched")
