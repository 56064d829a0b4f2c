"""The Spark session that an app runs in, and the Java that it needs."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.descriptors import raise_limit
from penstock.errors import PenstockError
from penstock.process_state import process
from penstock.runtime.errors import essence
from penstock.runtime.spark.home import fast_home
from penstock.runtime.spark.jars import connector
from penstock.runtime.spark.java import Java, JavaSettings, ensure_java
from penstock.runtime.spark.local_files import spare_processes
from penstock.runtime.spark.masters import HEAPS, LOOPBACK, cluster_settings, is_local, reach
from penstock.runtime.spark.secure import SECRET, SECRET_FILE, security
from penstock.runtime.spark.shipping import beside_main, packed
from penstock.runtime.spark.workers import WorkerStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: In one process a shuffle needs no more tasks than there are cores; on a cluster Spark's own choice stands. And there
#: Spark's logs lie on a local disk: the way that it writes them starts some sixty processes (chmod, readlink) an epoch,
#: for a rename that fails if another process was faster. Here there is no other: the directory is locked.
_ALONE = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
}  # fmt: skip
#: Spark's Python processes are forked from one that has loaded the kernel.
_DAEMON = {"spark.python.use.daemon": "true", "spark.python.daemon.module": "penstock.runtime.spark.daemon"}


def spark_session(
    app: str,
    *,
    master: str = "local[*]",
    memory: str = "2g",
    kafka: bool = False,
    options: Mapping[str, str] | None = None,
    executor_python: str | None = None,
    code: Sequence[Path] = (),
    java: Java | None = None,
) -> SparkSession:
    """A session in UTC, and Java where it can be found.

    With `kafka` it can read Kafka. What that needs is fetched on first use, and must be there when Java starts.
    On a cluster Penstock's own code goes along, and the modules of the folders in `code`: without any, of the one from
    which Python was started. Its executors use `executor_python`; without one, that of PYSPARK_PYTHON or ours.
    `java` is one that is starting already.
    """
    # Penstock uses nothing of PySpark that works otherwise with pandas 3: `tests/packaging` runs an app with it.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    ensure_java()
    raise_limit()
    user_options, alone = dict(options or {}), is_local(master)
    java = _fitting(java, kafka) or _begun(master, memory, user_options, executor_python, kafka)
    outside = None if alone else os.environ.get("PYSPARK_PYTHON")
    asked = executor_python or user_options.get("spark.pyspark.python") or outside
    os.environ["PYSPARK_PYTHON"], os.environ["PYSPARK_DRIVER_PYTHON"] = asked or sys.executable, sys.executable
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise PenstockError("PySpark is not installed", hint="pip install 'penstock[spark]'") from error
    if not alone:
        reach(master)
    settings = {
        "spark.hadoop.fs.permissions.umask-mode": f"{_umask():03o}",  # Hadoop sets modes by its own rules otherwise
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": memory,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.pollingDelay": "50ms",  # at 10 ms, a stream with nothing new takes a tenth of a core
        "spark.python.worker.reuse": "true",
        "spark.scheduler.mode": "FAIR",  # batch runs have a pool of their own, beside the epochs
        **(_ALONE | LOOPBACK | _daemon(asked) if alone else cluster_settings(master)),
        **security(master, user_options),
        **{name: value for name, value in user_options.items() if name != SECRET_FILE},
    }
    if java is not None:
        _use_java(java)
    else:
        if kafka:
            settings["spark.jars"] = ",".join(filter(None, (user_options.get("spark.jars"), *map(str, connector()))))
        with fast_home() if alone and asked in (None, sys.executable) else nullcontext():
            # Everybody sees the command of a process: the secret reaches Java by another way.
            public = {name: value for name, value in settings.items() if name != SECRET}
            _launch_java({"spark.app.name": app, "spark.master": master, **public})
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        if alone:
            raise
        raise PenstockError(
            f"Spark at '{master}' could not be used: {essence(error)}",
            hint="look at the master's log; --debug shows Spark's own",
        ) from error
    session.sparkContext.setLogLevel("ERROR")
    if _daemon(asked) and alone:
        process.of(WorkerStart).begin(session)
    if alone:
        spare_processes(session.sparkContext)
    else:
        there = {Path(file).name for file in session.sparkContext.listFiles}
        for archive in packed(code or beside_main()):
            if archive.name not in there:
                session.sparkContext.addPyFile(str(archive))
    return session


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _daemon(python: str | None) -> dict[str, str]:
    """How tasks get their Python processes, where these are of this Python."""
    return _DAEMON if python in (None, sys.executable) else {}


def _fitting(java: Java | None, kafka: bool) -> Java | None:
    """A Java that is starting, if it can do what is needed and none runs yet. Any other is ended."""
    if java is None or ((java.has_kafka or not kafka) and not _has_java()):
        return java
    java.close()
    return None


def _has_java() -> bool:
    """Whether PySpark has a Java."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _begun(master: str, memory: str, conf: Mapping[str, str], python: str | None, kafka: bool) -> Java | None:
    """Starts Java, while PySpark is loaded; None where one runs already, or PySpark has to start it."""
    if python is not None or "spark.pyspark.python" in conf or find_spec("pyspark") is None or _has_java():
        return None
    settings = JavaSettings.of(master, {"spark.driver.memory": memory, **conf}, os.environ)
    if settings is None:
        return None
    if kafka:
        connector()  # it must be there when Java starts
    return Java.begin(settings)


def _use_java(java: Java) -> None:
    """Lets PySpark use a Java that we have started."""
    from pyspark import SparkContext

    gateway = java.gateway()
    # What is registered last runs first: Java has ended when the archive is made, unless that has begun before.
    atexit.register(java.archive.make, os.getpid())
    atexit.register(_end_java, java.process, os.getpid())
    threading.Thread(target=java.archive.make_when_steady, args=(os.getpid(),), daemon=True).start()
    SparkContext._ensure_initialized(gateway=gateway)


def _launch_java(settings: dict[str, str]) -> None:
    """Starts Java in a session of its own, where none runs yet.

    A signal to the process group, as a service manager or a terminal sends it, would else end Java before the app has
    stopped at an epoch boundary. Java still ends with this process: it notices that its input is closed. If RocksDB is
    at work in that moment it may deadlock: so we end the process ourselves.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        with _environment(**HEAPS):
            gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        atexit.register(_end_java, gateway.proc, os.getpid())
        SparkContext._ensure_initialized(gateway=gateway)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Sets what nobody has set, for the processes that are started meanwhile."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _end_java(java: subprocess.Popen[bytes], starter: int, seconds: float = 10.0) -> None:
    """Ends Java with the process that has started it; whatever it still does, all that counts is committed."""
    if os.getpid() != starter or java.poll() is not None:
        return
    _expect_the_end()
    if java.stdin is not None:
        java.stdin.close()
    try:
        java.wait(seconds)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def _expect_the_end() -> None:
    """Threads that use Java would tell the user that it has gone: here it is meant to.

    One of PySpark waits for what tasks count; another one tells Java which of its objects nobody needs any more. One of
    ours may still start workers. Py4J logs a call without an answer with the root logger.
    """
    from pyspark import SparkContext

    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")
    client: Any = getattr(SparkContext._gateway, "_gateway_client", None)
    if client is not None:
        client.garbage_collect_object = lambda *_, **__: None
    server: Any = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def active_session() -> SparkSession:
    """The session that this process has."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise PenstockError("there is no Spark session to ask", hint="start one with spark_session(…)")
    return session
