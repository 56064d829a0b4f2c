"""Starts an app's Spark without its chatter: what Java says goes into a file of the app's directory."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from penstock.app import App
from penstock.control import Live
from penstock.errors import PenstockError

#: Spark's log, in the app's directory.
LOG = "spark.log"


def start(app: App, directory: Path, console: Console, *, master: str, debug: bool, kafka: bool = False) -> Live:
    """The app, ready to read. Java starts in here, and inherits where its errors go."""
    _pickled_by_value()
    if debug:
        return Live(app, directory, master=master, kafka=kafka)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    try:
        with _spinner(console), _errors_into(directory / LOG):
            return Live(app, directory, master=master, kafka=kafka)
    except KeyboardInterrupt:
        raise PenstockError("stopped before anything was read") from None


@contextmanager
def _spinner(console: Console) -> Iterator[None]:
    if console.is_terminal:
        with console.status("starting Spark …"):
            yield
    else:
        console.print("starting Spark …")
        yield


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """Until the end of the block, what this process and those that it starts write as errors goes into a file.

    Java keeps the file for all its life; this process gets its own errors back.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise PenstockError(
            f"cannot write into the directory «{path.parent}»: {error.strerror}", hint="choose another one: --dir"
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
    for name, module in list(sys.modules.items()):
        if name.startswith("__penstock_app_"):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
