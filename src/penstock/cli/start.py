"""Starts an app's Spark without its chatter: what Java says goes into a file of the app's directory."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from penstock.app import App
from penstock.control import Live
from penstock.errors import PenstockError
from penstock.private import is_shared, private_umask, protect
from penstock.runtime.queries.standby import taken
from penstock.store import Keep, Standby

#: Spark's log, in the app's directory.
LOG = "spark.log"


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
    **options: Any,
) -> Live:
    """The app, ready to read. Java starts in here, and inherits where its errors go. `options` are those of `Run`."""
    note = protect(directory, group)
    if note is not None:
        console.print(f"note: {note}", markup=False)
    if directory.is_dir() and is_shared(directory):
        private_umask(group=True)
    try:
        locked = taken(directory, Keep(), standby, store, app.name)
    except KeyboardInterrupt:
        raise PenstockError("stopped before it could take over") from None
    options |= {"master": master, "store": locked, "code": _folders()}
    with quietly(directory, console, debug):
        return Live(app, directory, **options)


@contextmanager
def quietly(directory: Path, console: Console, debug: bool) -> Iterator[None]:
    """In here Java may start; unless one debugs, what it says goes into a file."""
    _pickled_by_value()
    if debug:
        yield
        return
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger("pyspark").setLevel(logging.CRITICAL)
    try:
        with _spinner(console), _errors_into(directory / LOG):
            yield
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
