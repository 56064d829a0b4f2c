"""The processes around what `bench/latency.py` measures: a producer, consumers, and a client of lookups. Real clocks.

Each prints what it measured as JSON: the microseconds that events took, with how many events each stands for.
"""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).parent.parent))

KEYS = 100
#: POST requests a second, and how many of them are asked for. So many may wait for an answer.
POSTS, EVERY, WAITING = 20, 2, 40


def send(servers: str, topic: str, rate: float) -> None:
    """Sends events at a steady rate, for as long as it lives."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    begin = time.time()
    number = 0
    while True:
        due = int((time.time() - begin) * rate)
        while number < due:
            kind = "view" if number % 3 == 0 else "click"
            text = f'{{"k": {number % KEYS}, "kind": "{kind}", "sent": {time.time_ns() // 1000}}}'
            producer.produce(topic, value=text)
            number += 1
        producer.poll(0)
        time.sleep(0.001)


def _messages(servers: str, topic: str, seconds: float) -> Iterator[tuple[int, dict[str, Any]]]:
    """What comes into a topic from now on, each with the time at which it came."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "latency", "isolation.level": "read_committed"})
    _, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    consumer.assign([TopicPartition(topic, 0, high)])
    end = time.time() + seconds
    while time.time() < end:
        for message in consumer.consume(1000, timeout=0.001):
            if message.error() is None:
                yield time.time_ns() // 1000, json.loads(message.value())


def receive_rows(servers: str, topic: str, seconds: float) -> list[tuple[int, int]]:
    """Every message is an event."""
    return [(now - row["sent"], 1) for now, row in _messages(servers, topic, seconds)]


def receive_counts(servers: str, topic: str, seconds: float) -> list[tuple[int, int]]:
    """A message has the number of a key's events so far, and when the newest was sent.

    Events of a key are sent at equal distances, so those since the message before it are known too.
    """
    before: dict[int, tuple[int, int]] = {}
    taken = []
    for now, row in _messages(servers, topic, seconds):
        count, newest = int(row["n"]), int(row["newest"])
        if row["k"] in before and count > before[row["k"]][0]:
            known, since = before[row["k"]]
            step = (newest - since) / (count - known)
            taken += [(int(now - newest + step * place), 1) for place in range(count - known)]
        before[row["k"]] = count, newest
    return taken


def post(url: str, rate: float, warm: float, seconds: float) -> list[tuple[int, int]]:
    """Sends events by POST and asks for a row after them: from the request to the answer of the lookup."""
    from penstock.client import Client

    size, taken = max(1, int(rate / POSTS)), list[tuple[int, int]]()
    free = queue.SimpleQueue[Client]()
    for _ in range(WAITING):
        free.put(Client(url))
    sender = Client(url)

    def ask(begun: int, token: str) -> None:
        client = free.get()
        row = client.view("counts").get(k=1, after=token, timeout="60s")
        assert row is not None
        taken.append((time.time_ns() // 1000 - begun, size))
        free.put(client)

    begin, asked = time.time(), []
    with ThreadPoolExecutor(WAITING) as pool:
        for number in range(int((warm + seconds) * POSTS)):
            time.sleep(max(0.0, begin + number / POSTS - time.time()))
            now = time.time_ns() // 1000
            token = sender.stream("events").send([{"k": place % KEYS, "sent": now} for place in range(size)])
            if number % EVERY == 0 and number / POSTS >= warm:
                asked.append(pool.submit(ask, now, token))
        for one in asked:
            one.result()
    return taken


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "send":
        send(given[0], given[1], float(given[2]))
    elif what == "post":
        print(json.dumps(post(given[0], *map(float, given[1:]))))
    else:
        receive = receive_rows if what == "rows" else receive_counts
        print(json.dumps(receive(given[0], given[1], float(given[2]))))
