"""The command `serve`, and the server that `run` and `demo` have beside them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from penstock.cli.options import DIRECTORY, HOST, PORT, Debug, Directory, NoTokens, errors_shown, output
from penstock.control import Client, Live
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.serve.server import Server
    from penstock.serve.settings import Settings


class LogFormat(StrEnum):
    """How logs are written."""

    text = "text"
    json = "json"


def serve(
    directory: Directory = DIRECTORY,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. Any other than this machine needs tokens.")
    ] = HOST,
    port: Annotated[int, typer.Option("--port", help="Port; 0 picks a free one.", min=0, max=65535)] = PORT,
    cert: Annotated[Path | None, typer.Option("--cert", help="TLS certificate.", metavar="FILE")] = None,
    key: Annotated[Path | None, typer.Option("--key", help="TLS key.", metavar="FILE")] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Accept requests from other machines without tokens.")
    ] = False,
    no_tokens: NoTokens = False,
    rate: Annotated[float, typer.Option("--rate", help="Requests per second and client.", min=0.1)] = 1000.0,
    log_format: Annotated[LogFormat, typer.Option("--log-format", help="Log format of requests.")] = LogFormat.text,
    debug: Debug = False,
) -> None:
    """Serve the views of an app over HTTP, from its directory, also while the app is stopped. Ctrl-C stops it."""
    console = output()
    with errors_shown(debug):
        _need()
        from penstock.serve.logging import set_up
        from penstock.serve.settings import Limits, Settings

        settings = Settings(host, port, cert, key, insecure, Limits(rate=rate, burst=2 * rate), no_tokens)
        stopping = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stopping.set())
        with _server(directory, settings, Remote(directory)) as server:
            set_up(log_format.value, access=True)
            console.print(f"serving {directory} at {server.url}/api/v1. Ctrl-C stops it", markup=False)
            stopping.wait()
        console.print("stopped")


class Remote:
    """The app of another process, as far as it can be asked for something."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def index(self, view: str, columns: Sequence[str]) -> None:
        client = Client(self._directory)
        with suppress(PenstockError):  # no app runs, or it is of an older version
            client.do("index", view=view, columns=list(columns))
        client.close()

    def retry(self, name: str, where: str | None = None) -> tuple[int, int, int]:
        """Has the app retry dead letters: how many, how many failed again, and how many are late by now."""
        client = Client(self._directory)
        try:
            ((rows, dead, late),) = client.do("retry", of=name, where=where).rows
        finally:
            client.close()
        return int(str(rows)), int(str(dead)), int(str(late))


@dataclass(frozen=True)
class Serve:
    """Whether an app that runs is served, and where: by default at the usual port."""

    port: int | None = None
    off: bool = False
    no_tokens: bool = False

    def check(self) -> None:
        """Refuses a port that is in use, before Spark is started."""
        if not self.off:
            from penstock.serve.listen import check_free

            check_free(HOST, PORT if self.port is None else self.port)


def preload(serve: Serve) -> None:
    """Loads what serving needs in a thread, while the app waits for Spark."""
    if not serve.off:
        threading.Thread(target=_load, name="penstock-load", daemon=True).start()


def _load() -> None:
    with suppress(Exception):  # `served` says what is missing
        for name in ("penstock.serve.server", "penstock.serve.service", "penstock.serve.settings"):
            import_module(name)


@contextmanager
def served(running: Live, serve: Serve, console: Console) -> Iterator[None]:
    """Serves an app over HTTP while it runs."""
    port = serve.port
    if serve.off:
        yield
        return
    try:
        _need()
    except PenstockError as error:
        if port is not None:
            raise
        console.print(f"note: not served over HTTP: {error.hint}", markup=False)
        yield
        return
    from penstock.serve.settings import Settings

    settings = Settings(port=PORT if port is None else port, no_tokens=serve.no_tokens)
    with _server(running.directory, settings, running) as server:
        console.print(f"serving at {server.url}/api/v1", markup=False)
        yield


@contextmanager
def _server(directory: Path, settings: Settings, app: Live | Remote) -> Iterator[Server]:
    from penstock.serve.server import Server
    from penstock.serve.service import Host

    if isinstance(app, Remote):
        host = Host(app.index, retry=app.retry)
    else:
        host = Host(app.index, app.failures, app.failed, app.retry)
    with Server(directory, settings, host) as server:
        yield server


def _need() -> None:
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise PenstockError(
            "the packages of the server are not installed", hint="pip install 'penstock[serve]'"
        ) from None
