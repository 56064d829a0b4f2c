"""Starts an app from Python, as `penstock run` does: with batch runs, audits, back-fills, shells, and an HTTP server.

`App.start` returns a run; `App.run` blocks until it ends.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from penstock.app import App
from penstock.control import Live, copied
from penstock.control.ending import end_check, stop_signals
from penstock.control.live import with_new_names
from penstock.control.starting import Apply
from penstock.errors import PenstockError, in_quotes, unknown
from penstock.model.time import SECOND, Instant, positive
from penstock.plans.plan import Plan
from penstock.runtime.queries.admission import Bounds
from penstock.runtime.reading import TableSizes
from penstock.runtime.run import Run
from penstock.store import Keep, Standby

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_log = logging.getLogger("penstock")


class RunOptions(TypedDict, total=False):
    """The options of `app.run` and `app.start`. docs/configuration.md says what each means."""

    spark: SparkSession | None
    master: str
    conf: Mapping[str, str] | None
    executor_python: str | None
    code: Sequence[Path]
    kafka: bool
    checkpoints: str | Path | None
    store: str | None
    group: str | None
    keep: Keep
    history_at: str | Path | None
    grace: str | timedelta
    standby: bool | Standby
    tick: float | str | timedelta
    epoch_every: str | timedelta
    target: str | timedelta | None
    bounds: Sequence[Bounds]
    clock: Callable[[], Instant] | None
    patience: float | str | timedelta
    long_calls: float | str | timedelta
    table_sizes: TableSizes
    apply: bool


def start(app: App, directory: str | Path, serve: bool | int, options: RunOptions) -> Run:
    """A run of an app that has begun to read."""
    return _live(app, directory, serve, options).start().run


def run(
    app: App,
    directory: str | Path,
    serve: bool | int | None,
    stop_after: str | timedelta | None,
    until_caught_up: bool,
    drain: bool,
    options: RunOptions,
) -> None:
    """Runs an app until it is to end, and stops at an epoch boundary. `serve=None`: where the parts for that are."""
    if drain and not until_caught_up:
        raise PenstockError("drain=True closes the windows when all is read", hint="set until_caught_up=True too")
    seconds = None if stop_after is None else positive(stop_after, "stop_after") / SECOND
    if serve is None:
        serve = _can_serve()
    stopping = threading.Event()
    live = _live(app, directory, serve, options)
    with stop_signals(stopping, _tell):
        live.start()
        try:
            served = "" if live.run.url is None else f", served at {live.run.url}"
            _tell(f"running '{app.name}' in {directory}{served}. Ctrl-C stops it")
            until = (lambda: None) if until_caught_up else None
            is_done = end_check(live, seconds, until=until, drain=drain)
            while not stopping.is_set() and not is_done():
                live.wait(0.1)
            live.wait(0)  # raises what has ended it
        finally:
            live.stop()


def _live(app: App, directory: str | Path, serve: bool | int, options: RunOptions) -> Live:
    known = RunOptions.__annotations__.keys()
    settings = with_new_names(options)
    for name in settings.keys() - known:
        raise unknown("option of app.run and app.start", name, known)
    port = _port(serve)
    if port and not settings.get("standby"):  # the app that runs may be served there until it ends
        from penstock.serve.listen import check_free

        check_free("127.0.0.1", port)
    apply = Apply(_check_lossless) if settings.pop("apply", False) else None
    live = Live(copied(app), directory, server=None if port is None else _server(port), apply=apply, **settings)
    for warning in live.warnings:
        _log.warning(warning)
    return live


def _check_lossless(plan: Plan) -> None:
    """Refuses to lose state where nobody was asked."""
    if plan.lossy:
        names = in_quotes(change.name for change in plan.lossy)
        raise PenstockError(f"state would be lost: {names}", hint="penstock apply shows what, and asks")


def _port(serve: bool | int) -> int | None:
    """Where to listen, if at all. 0 is any free port."""
    if serve is False:
        return None
    if not _can_serve():
        raise PenstockError("the packages of the server are not installed", hint="pip install 'penstock[serve]'")
    from penstock.serve.settings import PORT

    return PORT if serve is True else serve


def _server(port: int) -> Callable[[Live], AbstractContextManager[str]]:
    """A server for a run, at a port of this machine."""

    @contextmanager
    def served(live: Live) -> Iterator[str]:
        from penstock.serve.server import Server
        from penstock.serve.service import Host
        from penstock.serve.settings import Settings

        host = Host(live.index, live.failures, live.failed, live.retry)
        with Server(live.directory, Settings(port=port), host) as server:
            yield server.url

    return served


def _can_serve() -> bool:
    """Whether what the server needs is installed."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        return False
    return True


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
