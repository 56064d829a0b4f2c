"""Sends the Yahoo benchmark's events into a topic at a rate that changes by stages, in a process of its own.

    python bench/peers/sender.py SERVERS TOPIC TABLE '[[10000, 20], [20000, 20]]' [SECONDS]

It begins with the next window, or with the one after a time in seconds.
An event has the time at which it is due, not the one at which it is sent, so that a sender that is late hides no delay.
It prints the views of each campaign and window that it sent, and how late it was at most in each stage, in seconds.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from random import Random

from confluent_kafka import Producer

WINDOW = 10_000
#: Events that are sent with the same time, in milliseconds; and the different events that take turns.
TICK, POOL = 10, 20_000
PARTITIONS = 4


class Events:
    """Events but for their time, each with the campaign for which it counts."""

    def __init__(self, table: Path) -> None:
        ads = [line.split(",") for line in table.read_text().splitlines()]
        chance = Random(3)
        self.before, self.campaigns = list[bytes](), list[str | None]()
        for _ in range(POOL):
            ad, campaign = chance.choice(ads)
            kind = chance.choice(("view", "click", "purchase"))
            user, page = (f"{chance.getrandbits(128):032x}" for _ in range(2))
            text = (
                f'{{"user_id": "{user}", "page_id": "{page}", "ad_id": "{ad}", "ad_type": "banner", '
                f'"event_type": "{kind}", "ip_address": "1.2.3.4", "event_time": "'
            )
            self.before.append(text.encode())
            self.campaigns.append(campaign if kind == "view" else None)


def producer_of(servers: str) -> Producer:
    return Producer({
        "bootstrap.servers": servers, "linger.ms": 5, "batch.size": 500_000, "queue.buffering.max.messages": 2_000_000,
        "queue.buffering.max.kbytes": 2_000_000,
    })  # fmt: skip


def send(
    producer: Producer, topic: str, table: Path, stages: list[tuple[float, float]], now: float
) -> dict[str, object]:
    """Sends the stages from the next window on, and says what it sent."""
    events = Events(table)
    counts: dict[int, dict[str, int]] = {}
    late: list[float] = []
    begin = (int(now * 1000) // WINDOW + 1) * WINDOW
    sent, moment = 0, begin
    for rate, seconds in stages:
        end, due, before = moment + int(seconds * 1000), sent, sent
        since, most = moment, 0.0
        while moment < end:
            wait = moment / 1000 - time.time()
            if wait > 0:
                time.sleep(wait)
            most = max(most, -wait)
            due = before + int((moment + TICK - since) * rate / 1000)
            tail = f'{moment}"}}'.encode()
            places = [number % POOL for number in range(sent, due)]
            window = counts.setdefault(moment // WINDOW * WINDOW, {})
            batches: list[list[dict[str, bytes]]] = [[] for _ in range(PARTITIONS)]
            for place in places:
                batches[place % PARTITIONS].append({"value": events.before[place] + tail})
                campaign = events.campaigns[place]
                if campaign is not None:
                    window[campaign] = window.get(campaign, 0) + 1
            for partition, batch in enumerate(batches):
                producer.produce_batch(topic, batch, partition=partition)
            producer.poll(0)
            sent, moment = due, moment + TICK
        late.append(most)
    producer.flush()
    return {"begin": begin, "counts": counts, "late": late}


if __name__ == "__main__":
    servers, topic, table, stages, *after = sys.argv[1:]
    begin = float(after[0]) if after else time.time()
    pairs = [(rate, seconds) for rate, seconds in json.loads(stages)]
    print(json.dumps(send(producer_of(servers), topic, Path(table), pairs, begin)))
