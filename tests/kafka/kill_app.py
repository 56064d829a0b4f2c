"""The process that the kill test kills: delivers what a store holds into a topic.

    python tests/kafka/kill_app.py DIRECTORY SERVERS TOPIC [STEP PASSES]

With a step it ends itself there, at that pass. It says 'done' when the topic has everything.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka

from penstock.sinks import kafka, to_kafka
from tests.sinks.support import deliver_with_faults

STEPS = (
    "before the transaction", "after a message", "before the position", "before the commit", "after the commit",
    "before the store", "after the store",
)  # fmt: skip


def main() -> None:
    root, servers, topic = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    step, left = (sys.argv[4], [int(sys.argv[5])]) if len(sys.argv) > 4 else ("", [0])

    def at(when: str) -> None:
        if when == step:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    class Producer(confluent_kafka.Producer):
        def begin_transaction(self) -> None:
            at("before the transaction")
            super().begin_transaction()

        def produce(self, name: str, **message: Any) -> None:
            if name != topic:
                at("before the position")
            super().produce(name, **message)
            if name == topic:
                self.flush()
                at("after a message")

        def commit_transaction(self) -> None:
            at("before the commit")
            super().commit_transaction()
            at("after the commit")

    module = SimpleNamespace(**vars(confluent_kafka))
    module.Producer = Producer
    kafka.load = lambda: module
    deliver_with_faults(root, at, {"panes": to_kafka(topic, servers=servers, rows_per_transaction=5)}, app=topic)


if __name__ == "__main__":
    main()
