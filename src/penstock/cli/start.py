"""Starts an app's Spark without its chatter: what Java says goes into a file of the app's directory."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from penstock.app import App
from penstock.cli.early import LOG
from penstock.cli.load import LoadedFile
from penstock.control import Live
from penstock.errors import PenstockError
from penstock.private import is_shared, private_umask, protect
from penstock.runtime.phases import Phases
from penstock.runtime.queries.standby import taken
from penstock.runtime.spark.jars import cached_connector
from penstock.runtime.spark.java import Java
from penstock.runtime.spark.masters import is_local
from penstock.runtime.spark.session import spark_session
from penstock.runtime.spark.starting import IsNeeded, SparkStart
from penstock.runtime.state_follower import StateFollower
from penstock.runtime.warm_up import warm_up
from penstock.runtime.workspace import reads_kafka
from penstock.store import Keep, Standby
from penstock.store.database import FILE, NOTE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def start(
    app: App,
    directory: Path,
    console: Console,
    *,
    master: str,
    debug: bool,
    standby: bool | Standby = False,
    store: str | None = None,
    group: str | None = None,
    java: Java | None = None,
    spark: SparkStart | None = None,
    phases: Phases | None = None,
    file: LoadedFile | None = None,
    **options: Any,
) -> Live:
    """The app, ready to read. Spark starts while the store is opened, in `java` where that is starting already.

    A standby waits with Spark warm. `options` are those of `Run`.
    """
    note = protect(directory, group)
    if note is not None:
        console.print(f"note: {note}", markup=False)
    if directory.is_dir() and is_shared(directory):
        private_umask(group=True)
    phases = phases or Phases()
    with quietly(directory, console, debug, phases):
        spark = spark or _spark_start(app, directory, master, java, phases, standby, options)
        try:
            with phases.span("waiting to take over" if standby else "opening the store"):
                locked = taken(directory, Keep(), standby, store, app.name)
        except KeyboardInterrupt:
            raise PenstockError("stopped before it could take over") from None
        if standby and file is not None and file.has_changed:
            app = file.load()  # it was applied to the app that ran until now
        options |= {"master": master, "store": locked, "code": _folders(), "spark": spark, "phases": phases}
        with phases.span("preparing the dataflow"):
            return Live(app, directory, file=file, **options)


def _spark_start(
    app: App,
    directory: Path,
    master: str,
    java: Java | None,
    phases: Phases,
    standby: bool | Standby,
    options: dict[str, Any],
) -> SparkStart | None:
    """Begins to make the session; None if that has to wait until the store is this app's.

    On a cluster it has to: a session takes executors. And where the Kafka connector is not there yet, streams that the
    store remembers may need it.
    """
    kafka = bool(options.get("kafka")) or reads_kafka(app.streams)
    has_store = any((directory / name).exists() for name in (FILE, NOTE))
    if not is_local(master) or (cached_connector() is None and (kafka or has_store)):
        if java is not None:
            java.close()
        return None

    def make() -> SparkSession:
        with phases.span("starting Spark"):
            return spark_session(
                app.name, master=master, kafka=kafka, options=options.get("conf"),
                executor_python=options.get("executor_python"), java=java,
            )  # fmt: skip

    def warm(session: SparkSession, is_needed: IsNeeded) -> None:
        if warm_up(session, is_needed) and isinstance(standby, Standby):
            standby.tell("standby: Spark is warm")
        StateFollower(directory).follow(is_needed)

    return SparkStart(make, warm if standby else None)


@contextmanager
def quietly(directory: Path, console: Console, debug: bool, phases: Phases | None = None) -> Iterator[None]:
    """In here Java may start; unless one debugs, what it says goes into a file."""
    _pickled_by_value()
    if debug:
        yield
        return
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    try:
        with _spinner(console, phases), _errors_into(directory / LOG):
            yield
    except KeyboardInterrupt:
        raise PenstockError("stopped before anything was read") from None


@contextmanager
def _spinner(console: Console, phases: Phases | None) -> Iterator[None]:
    """Shows what the app is waiting for."""
    if not console.is_terminal:
        console.print("starting Spark …")
        yield
        return
    done = threading.Event()
    with console.status("starting Spark …") as status:

        def show() -> None:
            while not done.wait(0.1):
                if phases is not None and (current := phases.current) is not None:
                    status.update(f"{current} …")

        thread = threading.Thread(target=show, name="penstock-spinner", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """Until the end of the block, what this process and those that it starts write as errors goes into a file.

    Java keeps the file for all its life; this process gets its own errors back.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    except OSError as error:
        raise PenstockError(
            f"cannot write into the directory '{path.parent}': {error.strerror}", hint="choose another one: --dir"
        ) from error
    sys.stderr.flush()
    own = os.dup(2)
    os.dup2(file, 2)
    os.close(file)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(own, 2)
        os.close(own)


def _pickled_by_value() -> None:
    """Functions of the app's file travel to Spark's tasks whole: no task could import that file."""
    try:
        from pyspark import cloudpickle
    except ImportError:
        return  # the engine says what to install
    for module in _app_modules():
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _folders() -> list[Path]:
    """Where the app's file lies: what it imports from there goes along to a cluster."""
    return [Path(module.__file__).resolve().parent for module in _app_modules() if module.__file__]


def _app_modules() -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.startswith("__penstock_app_")]
