"""What requests of a server share: the processes that query the store, the catalog, and the subscriptions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from penstock.dataflow.graph import GRAPH, Graph, graph_from_json
from penstock.errors import PenstockError
from penstock.serve.askers import Askers, Question, ResultRows, Select, SelectAnswer
from penstock.serve.fresh import Fresh
from penstock.serve.ingest import Doors
from penstock.serve.metrics import Metrics
from penstock.serve.panes import Hub
from penstock.serve.pulse import Pulse
from penstock.serve.settings import Settings
from penstock.serve.tokens import Tokens
from penstock.serve.views import Catalog, ViewEntry
from penstock.store.lock import LOCK, is_held
from penstock.store.segment_lookup import SegmentQuestion

_log = logging.getLogger("penstock.access")


@dataclass(frozen=True)
class Host:
    """The server's connection to the app, where both are one process or can communicate.

    `index` makes questions by some columns of a view fast; `failures` are those of sinks; `failed` is why it stopped.
    `retry` retries dead letters of a name, all or those for which a condition holds: how many, how many of them failed
    again, and how many are late by now.
    """

    index: Callable[[str, Sequence[str]], object] | None = None
    failures: Callable[[], Mapping[str, int]] | None = None
    failed: Callable[[], str | None] = lambda: None
    retry: Callable[[str, str | None], tuple[int, int, int]] | None = None


class Service:
    """The shared part of a server for one app's directory."""

    def __init__(self, directory: Path, settings: Settings, host: Host) -> None:
        limits = settings.limits
        self.directory, self.settings, self.host = directory, settings, host
        self.tokens = Tokens(directory, settings.no_tokens)
        self.askers = Askers(
            directory, processes=limits.processes, largest=limits.answer, waiting=limits.requests, memory=limits.memory
        )
        self.catalog, self.doors, self.pulse = Catalog(self.askers), Doors(directory), Pulse(directory)
        self.fresh = Fresh(self.askers, self.pulse, self.doors)
        self.hub = Hub(self.askers, self.pulse, limits.panes)
        self._indexed: set[tuple[int, tuple[str, ...]]] = set()
        self.metrics = Metrics(self.askers, self.catalog, host.failures)

    async def ask(self, *questions: Question | SegmentQuestion) -> list[ResultRows]:
        """Asks for a user."""
        return await self.askers.ask(questions, self.settings.limits.statement_seconds)

    async def select(self, select: Select) -> SelectAnswer:
        """Answers a SELECT of a user."""
        return await self.askers.select(select, self.settings.limits.statement_seconds)

    def why_stopped(self) -> str | None:
        """Why the app does not run, if it does not."""
        failed = self.host.failed()
        if failed is not None:
            return f"failed: {failed}"
        return None if is_held(self.directory / LOCK) else "stopped"

    async def graph(self) -> Graph | None:
        """The graph that the app has noted of itself, if it has."""
        (answer,) = await self.askers.own(Question(GRAPH))
        return graph_from_json(answer.rows[0][0]) if answer.rows else None

    def make_faster(self, view: ViewEntry, keys: Sequence[str]) -> None:
        """Asks the app for an index, once; current requests do not wait for it."""
        index, wish = self.host.index, (view.id, tuple(keys))
        if index is not None and keys and not view.in_segments and wish not in self._indexed:
            self._indexed.add(wish)
            asyncio.get_running_loop().run_in_executor(None, index, view.name, keys)

    async def prepare(self) -> None:
        """Starts what the first queries would wait for. A store that does not exist yet needs nothing."""
        with suppress(PenstockError):
            if any(view.in_segments for view in (await self.catalog.known()).views.values()):
                await self.askers.prepare_segments()

    async def close(self) -> None:
        self.hub.closing.set()
        await self.catalog.close()
        await self.askers.close()

    def log_request(self, method: str, route: str, status: int, seconds: float, client: str, sent: int) -> None:
        """Counts and logs a finished request, without the content of its URL or body."""
        self.metrics.requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        more: dict[str, Any] = {
            "method": method[:20], "route": route, "status": status, "ms": round(seconds * 1000, 2),
            "client": client, "bytes": sent, "at": time.time(),
        }  # fmt: skip
        _log.info("%s %s %d", method[:20], route, status, extra={"fields": more})


_METHODS: Final = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
