"""How a task that runs a loop alone asks for what is kept of keys: the driver answers, from the store.

The rounds of a small epoch are so the work of one task, and of one job. Which keys a round reaches is known only when
the round before is done; a job for each would cost more than all that it does.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import polars as pl

from penstock.runtime.derived.loops.machine import Fetch
from penstock.runtime.epoch.wire import pack, unpack
from penstock.runtime.rpc import LOCAL, Address, RpcServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def fetching(address: Address) -> Iterator[Fetch]:
    """Asks for keys, for as long as the loop runs."""
    with address.asking() as ask:

        def fetch(keys: pl.Series) -> pl.DataFrame:
            return unpack(ask(pack(keys.alias("key").to_frame())))

        yield fetch


@contextmanager
def answering(spark: SparkSession, fetch: Fetch) -> Iterator[RpcServer]:
    """The driver answers tasks of this session, wherever they run, while an epoch runs."""
    host = bind = LOCAL
    if not str(spark.sparkContext.master).startswith("local"):
        host = spark.conf.get("spark.driver.host") or socket.gethostname()
        bind = spark.conf.get("spark.driver.bindAddress", host) or host
    made = RpcServer(lambda asked: pack(fetch(unpack(asked)["key"])), "loop-memory", host, bind)
    try:
        yield made
    finally:
        made.close()
