"""Executors are watched: a cluster without one is reported after a while, and is all right again when one comes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx

from penstock.runtime.spark.executors import ExecutorWatch
from penstock.serve.server import Server
from penstock.serve.service import Host
from penstock.serve.settings import Settings
from penstock.store import open_store


class Cluster:
    """A Spark that says how many executors it has, look by look; the watch ends with the last one."""

    def __init__(self, *counts: int, patience: float) -> None:
        self._counts, self.reports = iter(counts), list[str | None]()
        self.master = "spark://somewhere:7077"
        self.sparkContext = self
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: self))
        self.watch: Any = ExecutorWatch(self, lambda error: None, pause=0.0, patience=patience)  # type: ignore[arg-type]

    def getExecutorInfos(self) -> list[str]:
        self.reports.append(self.watch.missing)
        count = next(self._counts, None)
        if count is None:
            self.watch._over.set()
        return ["driver", *["executor"] * (count or 0)]


def test_a_cluster_without_executors_is_missing_them_until_one_comes():
    cluster = Cluster(1, 0, 0, 1, 1, patience=0.0)
    cluster.watch.start()
    cluster.watch._thread.join(60)
    lacks = "Spark has no executor at spark://somewhere:7077"
    assert cluster.reports == [None, None, lacks, lacks, None, None]


def test_a_short_lack_is_not_reported():
    cluster = Cluster(1, 0, 0, 1, patience=3600.0)
    cluster.watch.start()
    cluster.watch._thread.join(60)
    assert set(cluster.reports) == {None}


def test_an_app_that_lacks_executors_is_not_ready(tmp_path):
    store = open_store(tmp_path)
    store.lock()
    store.prepare({})
    missing: list[str | None] = [None]
    server = Server(tmp_path, Settings(port=0), Host(failed=lambda: missing[0])).start()
    try:
        with httpx.Client(base_url=server.url, timeout=60) as client:
            assert client.get("/ready").status_code == 200
            missing[0] = "Spark has no executor"
            assert (client.get("/ready").status_code, client.get("/health").status_code) == (503, 200)
            assert client.get("/ready").json()["detail"] == "Spark has no executor"
            missing[0] = None
            assert client.get("/ready").status_code == 200
    finally:
        server.stop()
        store.close()
