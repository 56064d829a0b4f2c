"""The process that a test kills after the driver has read an epoch of Kafka, before its commit.

python -m tests.kafka.direct_app DIRECTORY SERVERS TOPIC
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.runtime.spark.session import spark_session
from penstock.sources.kafka.direct import DirectReader
from tests.kafka.support import counting, running


def main() -> None:
    state, servers, topic = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    read = DirectReader.read

    def read_and_die(self: DirectReader, *arguments: Any) -> Any:
        rows = read(self, *arguments)
        if rows is not None and rows.num_rows:
            print(f"{rows.num_rows} messages read", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    DirectReader.read = read_and_die  # type: ignore[method-assign]
    app, _ = counting(ps.kafka(topic, servers=servers))
    spark = spark_session("direct", master="local[2]", kafka=True)
    with running(app, state, spark):
        print("first epoch", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
