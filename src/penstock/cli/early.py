"""Starts Java, and Spark in it, before Penstock and the app are loaded, so that they start meanwhile."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.private import is_shared, private_umask, protect
from penstock.runtime.phases import Phases
from penstock.runtime.spark.java import Java, JavaSettings
from penstock.runtime.spark.starting import SparkStart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark's log, in the app's directory.
LOG: Final = "spark.log"
#: Seconds after which a thread of Python lets others go on, while one loads code and another one talks to Java.
_TURN: Final = 0.0005
#: What stands in the file of an app that makes a session of Spark itself.
_OWN_SESSION: Final = re.compile(rb"SparkSession|SparkContext|spark_session")


@dataclass(frozen=True)
class EarlyJava:
    """What decides whether Java can start this early, and where its messages go."""

    directory: Path
    master: str
    conf: Mapping[str, str]
    group: str | None = None
    debug: bool = False

    @contextmanager
    def begun(self, file: Path | None, python: str | None = None) -> Iterator[Java | None]:
        """Java, while it starts; None where it cannot start yet. If nothing was read, no directory is left behind."""
        settings = JavaSettings.of(self.master, self.conf, os.environ)
        has_python, has_file = python is not None or "spark.pyspark.python" in self.conf, file is None or file.is_file()
        is_new, java = not self.directory.exists(), None
        if settings is not None and not has_python and has_file and self._is_private():
            with suppress(OSError):  # `start` reports what is wrong with the directory
                java = self._begin(settings)
        try:
            yield java
        except BaseException:
            if java is not None:
                if not java.is_used:
                    java.close()
                if is_new and {path.name for path in self.directory.iterdir()} <= {LOG}:
                    shutil.rmtree(self.directory, ignore_errors=True)
            raise

    def session(self, java: Java, file: Path | None, name: str | None, phases: Phases) -> SparkStart | None:
        """The session, which begins to be made while the app of a file is loaded.

        None where the app must be known first: it may make a session itself, or, where Java has started without the
        Kafka connector, need another Java.
        """
        if not java.has_kafka or (file is not None and _OWN_SESSION.search(file.read_bytes())):
            return None
        shown = name or (file.stem if file else "penstock")
        return SparkStart(lambda: self._session(java, shown, phases))

    def _session(self, java: Java, name: str, phases: Phases) -> SparkSession:
        turn = sys.getswitchinterval()
        sys.setswitchinterval(_TURN)
        try:
            with phases.span("starting Spark"):
                from penstock.runtime.spark.session import spark_session

                return spark_session(name, master=self.master, options=self.conf, java=java)
        finally:
            sys.setswitchinterval(turn)

    def _is_private(self) -> bool:
        """Whether the directory need not be closed to others first, or opened to a group."""
        if not self.directory.is_dir():
            return self.group is None and not self.directory.exists()
        return is_shared(self.directory) or (self.group is None and not self.directory.stat().st_mode & 0o077)

    def _begin(self, settings: JavaSettings) -> Java | None:
        protect(self.directory)
        if is_shared(self.directory):
            private_umask(group=True)
        if self.debug:
            return Java.begin(settings)
        file = os.open(self.directory / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        try:
            return Java.begin(settings, file)
        finally:
            os.close(file)
