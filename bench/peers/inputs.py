"""The events of each workload, as files of JSON lines that are the same on every machine.

A file holds 250,000 events, and file n is the same however many are written: a longer input begins with a shorter one.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random
from string import ascii_lowercase

import numpy as np
import polars as pl

from examples.nexmark.events import Nexmark

PER_FILE = 250_000
#: The time of the first event, in microseconds, and the time between two events.
START, EACH = 1_714_521_600_000_000, 20
DISORDER = 2_000_000
WORDS = 20_000

#: Writes file number n into a folder.
Writer = Callable[[Path, int, int], None]


def folder_of(root: Path, name: str, write: Writer, files: int, events: int = PER_FILE, last: str = "") -> Path:
    """A folder with exactly these files; files that exist are linked, not written again.

    `last` is one more line, in a file of its own.
    """
    known, folder = root / f"{name}-{events}", root / f"{name}-{events}-{files}"
    if folder.is_dir():
        return folder
    scratch = root / f".{folder.name}"
    for part in (known, scratch):
        part.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = known / f"{number:04}.json"
        if not path.exists():
            write(known, number, events)
            # Readers of a folder take files in the order of their times.
            os.utime(path, (START // 1_000_000 + number,) * 2)
        if not (scratch / path.name).exists():
            os.link(path, scratch / path.name)
    if last:
        path = scratch / f"{files:04}.json"
        path.write_text(f"{last}\n")
        os.utime(path, (START // 1_000_000 + files,) * 2)
    scratch.rename(folder)
    return folder


def table_of(root: Path) -> Path:
    """The campaign of each ad of the Yahoo benchmark, in a folder of its own."""
    return root / "ads" / "ads.csv"


def keyed(keys: int, skewed: bool, each: int = EACH) -> Writer:
    """A key, a number and a time, up to two seconds out of order. There are `each` microseconds from event to event."""

    def write(folder: Path, number: int, events: int) -> None:
        chance = np.random.default_rng([7, keys, number])
        drawn = chance.zipf(1.3, events) % keys if skewed else chance.integers(0, keys, events)
        frame = pl.DataFrame(
            {
                "key": np.char.add("k", drawn.astype(str)),
                "v": chance.integers(0, 1000, events),
                "at": _text(_times(number, events, PER_FILE * each / events) - chance.integers(0, DISORDER, events)),
            }
        )
        frame.write_ndjson(folder / f"{number:04}.json")

    return write


def brief(folder: Path, number: int, events: int) -> None:
    """Half a minute of events of keys that no other file has, up to two seconds out of order."""
    chance, keys = np.random.default_rng([11, number]), max(1, events // 25)
    frame = pl.DataFrame(
        {
            "key": np.char.add("k", (number * keys + chance.integers(0, keys, events)).astype(str)),
            "v": chance.integers(0, 1000, events),
            "at": _text(_times(number, events, 30_000_000 / events) - chance.integers(0, DISORDER, events)),
        }
    )
    frame.write_ndjson(folder / f"{number:04}.json")


def bids(folder: Path, number: int, events: int) -> None:
    """Nexmark's bids, 50,000 of its events a second, groups of 200 of them shuffled."""
    count = events * 50 // 46 + 100
    frame = Nexmark(50_000 * events // PER_FILE or 1, disorder=200).parts(number * count, count)["bids"].head(events)
    texts = pl.col(pl.Datetime).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    frame.drop("received").with_columns(texts).write_ndjson(folder / f"{number:04}.json")


def persons_auctions_bids(folder: Path, number: int, events: int) -> None:
    """All of Nexmark's events in one stream, at the same rate; a line has only the columns of its kind."""
    kinds = Nexmark(50_000 * events // PER_FILE or 1, disorder=200).parts(number * events, events)
    texts = pl.col(pl.Datetime).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    parts = []
    for kind, frame in kinds.items():
        columns = pl.struct(pl.lit(kind.removesuffix("s")).alias("kind"), pl.exclude("received"))
        parts.append(frame.with_columns(texts).select("received", line=columns.struct.json_encode()))
    lines = pl.concat(parts).sort("received", maintain_order=True)["line"]
    (folder / f"{number:04}.json").write_text("\n".join([*lines, ""]))


def side_input(root: Path) -> None:
    """Writes the table of Nexmark's q13, a text for each number below 10,000, into a folder of its own."""
    table = root / "side_input" / "side_input.csv"
    if not table.exists():
        table.parent.mkdir(parents=True, exist_ok=True)
        table.write_text("".join(f"{number},value {number}\n" for number in range(10_000)))


def ads(folder: Path, number: int, events: int) -> None:
    """The Yahoo benchmark's events, all values texts: 100 campaigns with ten ads each, a third of the events views."""
    names = Random(1)
    campaigns = [_uuid(names) for _ in range(100)]
    ids = np.array([_uuid(names) for _ in range(1000)])
    users, pages = (np.array([_uuid(names) for _ in range(100)]) for _ in range(2))
    table = table_of(folder.parent)
    if not table.exists():
        table.parent.mkdir()
        table.write_text("".join(f"{ad},{campaigns[place // 10]}\n" for place, ad in enumerate(ids)))
    chance = np.random.default_rng([8, number])
    kinds = np.array(["banner", "modal", "sponsored-search", "mail", "mobile"])
    frame = pl.DataFrame(
        {
            "user_id": users[chance.integers(0, 100, events)],
            "page_id": pages[chance.integers(0, 100, events)],
            "ad_id": ids[chance.integers(0, 1000, events)],
            "ad_type": kinds[chance.integers(0, 5, events)],
            "event_type": np.array(["view", "click", "purchase"])[chance.integers(0, 3, events)],
            "event_time": pl.Series(_times(number, events, PER_FILE * EACH / events) // 1000).cast(pl.String),
            "ip_address": ["1.2.3.4"] * events,
        }
    )
    frame.write_ndjson(folder / f"{number:04}.json")


def later_ads(table: Path) -> list[str]:
    """A view of each campaign two hours after all events, as lines: it closes the windows before it."""
    campaigns = {campaign: ad for ad, campaign in (line.split(",") for line in table.read_text().splitlines())}
    time = str((START + 7_200_000_000) // 1000)
    names = {"user_id": "", "page_id": "", "ad_type": "mail", "ip_address": "1.2.3.4"}
    return [json.dumps(names | {"ad_id": ad, "event_type": "view", "event_time": time}) for ad in campaigns.values()]


def lines(folder: Path, number: int, events: int) -> None:
    """Lines of eight words, a few of which are frequent."""
    chance = np.random.default_rng([9, number])
    letters = Random(2)
    words = np.array(["".join(letters.choices(ascii_lowercase, k=letters.randint(2, 9))) for _ in range(WORDS)])
    drawn = words[chance.zipf(1.2, (events, 8)) % WORDS]
    frame = pl.DataFrame({f"word{place}": drawn[:, place] for place in range(8)})
    text = frame.select(line=pl.concat_str(pl.all(), separator=" ")).with_columns(
        at=_text(_times(number, events, PER_FILE * EACH / events))
    )
    text.write_ndjson(folder / f"{number:04}.json")


def shown_and_clicked(folder: Path, number: int, events: int) -> None:
    """Impressions and clicks in one file: of ten events one is a click, on an impression of the seconds before it.

    The first clicks are on what was shown before the input begins, and find nothing.
    """
    chance = np.random.default_rng([10, number])
    place = number * events + np.arange(events)
    clicked = place % 10 == 9
    shown = place - np.where(clicked, chance.integers(1, 200_000, events), 0)
    ids = np.where(shown % 10 == 9, shown - 1, shown)
    frame = pl.DataFrame(
        {
            "kind": np.where(clicked, "click", "shown"),
            "ad": ids,
            "place": (ids * 7919 + 3) % 50,
            "at": _text(_times(number, events, PER_FILE * EACH / events)),
        }
    )
    frame.write_ndjson(folder / f"{number:04}.json")


def _times(number: int, events: int, each: float) -> np.ndarray:
    return START + ((number * events + np.arange(events)) * each).astype(np.int64)


def _text(times: np.ndarray) -> pl.Series:
    return pl.Series(times).cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")


def _uuid(names: Random) -> str:
    return str(uuid.UUID(int=names.getrandbits(128), version=4))
