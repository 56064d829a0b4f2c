"""Nexmark's events: people who put things up for auction and bid for them.

    python examples/nexmark/events.py DIRECTORY [--events 100000] [--disorder 200]

Each event depends on its number alone, so any part of the stream can be made again. Of fifty events one is a person,
three are auctions and the rest bids. `received` is when an event was sent, `at` when it happened: with a disorder of G
the events of each group of G come shuffled. Beside them lies a table, the side input: a value for each number, and
another one from the middle of the stream on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from penstock.sources.generator import Chance

PERSONS, AUCTIONS, ALL = 1, 3, 50
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
ACTIVE_PEOPLE, IN_FLIGHT, LEAD = 1000, 100, 10
SIDE_INPUT = 10_000
BASE_TIME = 1_436_918_400_000  # 2015-07-15 00:00:00 UTC, in milliseconds

FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"]
LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"]
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = [
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
]  # fmt: skip
HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
LETTERS = np.frombuffer(b" abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)

PERSON = "id bigint, name string, email string, card string, city string, state string, at timestamp, extra string"
AUCTION = (
    "id bigint, item string, description string, initial_bid bigint, reserve bigint, at timestamp, expires timestamp, "
    "seller bigint, category bigint, extra string"
)
BID = "auction bigint, bidder bigint, price bigint, channel string, url string, at timestamp, extra string"
RECEIVED = ", received timestamp"


@dataclass(frozen=True)
class Nexmark:
    """The stream: `rate` events a second, in groups of `disorder` that come shuffled."""

    rate: int = 10_000
    disorder: int = 1
    seed: int = 0

    def parts(self, first: int, count: int) -> dict[str, pl.DataFrame]:
        """The events with these numbers, in the order in which they are sent: persons, auctions and bids."""
        sent = np.arange(first, first + count, dtype=np.int64)
        group = self.disorder
        numbers = sent // group * group + sent * 953 % group
        kind = numbers % ALL
        made = {
            "persons": (kind < PERSONS, self._persons),
            "auctions": ((kind >= PERSONS) & (kind < PERSONS + AUCTIONS), self._auctions),
            "bids": (kind >= PERSONS + AUCTIONS, self._bids),
        }
        frames = {}
        for name, (selected, make) in made.items():
            chance = Chance(numbers[selected], self.seed)
            frame = make(numbers[selected], self.time(numbers[selected]), chance)
            received = pl.Series("received", self.time(sent[selected])).cast(pl.Datetime("ms", "UTC"))
            frames[name] = frame.with_columns(received)
        return frames

    def time(self, numbers: np.ndarray) -> np.ndarray:
        """When an event happens, in milliseconds."""
        return BASE_TIME + (numbers * 1_000_000 // self.rate) // 1000

    def _persons(self, numbers: np.ndarray, at: np.ndarray, chance: Chance) -> pl.DataFrame:
        ids = last_person(numbers) + FIRST_ID
        first, last = pick(FIRST_NAMES, chance), pick(LAST_NAMES, chance)
        cards = [
            " ".join(f"{part:04}" for part in row)
            for row in zip(*(draw(chance, 10_000) for _ in range(4)), strict=True)
        ]
        emails = [f"{a}@{b}.com" for a, b in zip(words(chance, numbers, 7), words(chance, numbers, 5), strict=True)]
        frame = pl.DataFrame(
            {
                "id": ids,
                "name": [f"{a} {b}" for a, b in zip(first, last, strict=True)],
                "email": emails,
                "card": cards,
                "city": pick(CITIES, chance),
                "state": pick(STATES, chance),
                "at": moment(at),
            }
        )
        return padded(frame, 200, chance, numbers)

    def _auctions(self, numbers: np.ndarray, at: np.ndarray, chance: Chance) -> pl.DataFrame:
        initial = price(chance)
        hot = chance.uniform() < 3 / 4
        seller = np.where(hot, last_person(numbers) // 100 * 100, next_person(numbers, chance)) + FIRST_ID
        span = self.time(numbers + IN_FLIGHT * ALL // AUCTIONS) - at
        length = 1 + (chance.uniform() * np.maximum(2 * span, 1)).astype(np.int64)
        frame = pl.DataFrame(
            {
                "id": last_auction(numbers) + FIRST_ID,
                "item": words(chance, numbers, 20),
                "description": words(chance, numbers, 100),
                "initial_bid": initial,
                "reserve": initial + price(chance),
                "at": moment(at),
                "expires": moment(at + length),
                "seller": seller,
                "category": FIRST_CATEGORY + draw(chance, CATEGORIES),
            }
        )
        return padded(frame, 500, chance, numbers)

    def _bids(self, numbers: np.ndarray, at: np.ndarray, chance: Chance) -> pl.DataFrame:
        hot = chance.uniform() < 1 / 2
        auction = np.where(hot, last_auction(numbers) // 100 * 100, next_auction(numbers, chance)) + FIRST_ID
        hot = chance.uniform() < 3 / 4
        bidder = np.where(hot, last_person(numbers) // 100 * 100 + 1, next_person(numbers, chance)) + FIRST_ID
        famous, which, other = chance.uniform() < 1 / 2, draw(chance, 4), draw(chance, 10_000)
        channel = [HOT_CHANNELS[w] if f else f"channel-{o}" for f, w, o in zip(famous, which, other, strict=True)]
        url = [fixed_url(-1 - w) if f else fixed_url(o) for f, w, o in zip(famous, which, other, strict=True)]
        frame = pl.DataFrame(
            {
                "auction": auction, "bidder": bidder, "price": price(chance), "channel": channel, "url": url,
                "at": moment(at),
            }
        )  # fmt: skip
        return padded(frame, 100, chance, numbers)

    def side_input(self, events: int) -> pl.DataFrame:
        """The table beside a stream of `events` events: its rows, and since when they are valid."""
        numbers = np.arange(SIDE_INPUT, dtype=np.int64)
        since = self.time(np.array([0, events // 2]))
        versions = [
            pl.DataFrame({"number": numbers, "value": [f"{number}{mark}" for number in numbers]}).with_columns(
                pl.lit(moment(since)[version]).alias("since")
            )
            for version, mark in enumerate(("", "!"))
        ]
        return pl.concat(versions)

    def write(self, directory: Path, events: int, files: int = 10) -> Iterator[int]:
        """Files of JSON lines in `persons`, `auctions` and `bids`; how many events are written, file by file.

        The table is there before them, in `side_input`.
        """
        for name in ("persons", "auctions", "bids", "side_input"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        written(self.side_input(events), directory / "side_input" / "00000.json")
        size = -(-events // files)
        for number, first in enumerate(range(0, events, size)):
            count = min(size, events - first)
            for name, frame in self.parts(first, count).items():
                written(frame, directory / name / f"{number:05}.json")
            yield first + count


def written(frame: pl.DataFrame, file: Path) -> None:
    """Rows as JSON lines; the file is there when it is whole."""
    hidden = file.with_name(f".{file.name}")
    frame.with_columns(pl.col(pl.Datetime).dt.strftime("%Y-%m-%dT%H:%M:%S%.3fZ")).write_ndjson(hidden)
    hidden.rename(file)


# Ids


def last_person(numbers: np.ndarray) -> np.ndarray:
    """The last person born at or before an event."""
    return numbers // ALL * PERSONS


def last_auction(numbers: np.ndarray) -> np.ndarray:
    epoch, off = numbers // ALL, numbers % ALL
    inside = np.where(off >= PERSONS + AUCTIONS, epoch * AUCTIONS + AUCTIONS - 1, epoch * AUCTIONS + off - PERSONS)
    return np.where(off < PERSONS, (epoch - 1) * AUCTIONS + AUCTIONS - 1, inside)


def next_person(numbers: np.ndarray, chance: Chance) -> np.ndarray:
    """An active person, or one who is not born yet: some foreign keys lead nowhere, on purpose."""
    people = last_person(numbers) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    return people - active + (chance.uniform() * (active + LEAD)).astype(np.int64)


def next_auction(numbers: np.ndarray, chance: Chance) -> np.ndarray:
    last = last_auction(numbers)
    low = np.maximum(last - IN_FLIGHT, 0)
    return low + (chance.uniform() * (last - low + 1 + LEAD)).astype(np.int64)


# Values


def price(chance: Chance) -> np.ndarray:
    """From 1 to a million dollars, in cents; small ones are as likely as large ones."""
    return np.round(10 ** (chance.uniform() * 6) * 100).astype(np.int64)


def draw(chance: Chance, below: int) -> np.ndarray:
    return (chance.uniform() * below).astype(np.int64)


def pick(words: list[str], chance: Chance) -> list[str]:
    return [words[i] for i in draw(chance, len(words))]


def moment(milliseconds: np.ndarray) -> pl.Series:
    return pl.Series(milliseconds).cast(pl.Datetime("ms", "UTC"))


def words(chance: Chance, numbers: np.ndarray, longest: int) -> list[str]:
    """Texts of 3 to `longest` letters, with some spaces."""
    lengths = 3 + draw(chance, longest - 3)
    return [text.strip() for text in letters(chance, lengths)]


def letters(chance: Chance, lengths: np.ndarray) -> list[str]:
    """Texts of these lengths. One number a text is drawn; its letters follow from it."""
    seeds = (chance.uniform() * 2**62).astype(np.uint64)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    places = np.arange(total, dtype=np.uint64) - np.repeat((ends - lengths).astype(np.uint64), lengths)
    mixed = np.repeat(seeds, lengths) + places * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    space = mixed % np.uint64(13) == 0
    text = np.where(space, LETTERS[0], LETTERS[1 + (mixed >> np.uint64(8)) % np.uint64(26)]).tobytes().decode()
    starts = ends - lengths
    return [text[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def fixed_url(channel: int) -> str:
    """Each channel has an address of its own; that of nine in ten tells the channel's number."""
    names = "".join(chr(97 + (channel * 7 + i * 11) % 26) for i in range(12))
    url = f"https://www.nexmark.com/{names[:4]}/{names[4:8]}/{names[8:]}/item.htm?query=1"
    if channel < 0 or channel % 10 == 0:
        return url
    turned = int(f"{channel:032b}"[::-1], 2)
    return f"{url}&channel_id={abs(turned - (1 << 32) if turned >= 1 << 31 else turned)}"


def padded(frame: pl.DataFrame, average: int, chance: Chance, numbers: np.ndarray) -> pl.DataFrame:
    """Rows with an `extra` that brings them to a size on average."""
    size = pl.sum_horizontal(
        pl.col(name).str.len_bytes() if kind == pl.String else pl.lit(8) for name, kind in frame.schema.items()
    )
    wanted = np.maximum(average - frame.select(size).to_series().to_numpy().astype(np.int64), 0)
    spread = np.round(0.2 * wanted).astype(np.int64)
    lengths = wanted - spread + (chance.uniform() * 2 * spread).astype(np.int64)
    return frame.with_columns(pl.Series("extra", letters(chance, lengths), dtype=pl.String))


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes Nexmark's events as files of JSON lines.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=10_000, help="events a second of event time")
    parser.add_argument("--disorder", type=int, default=1, help="events come shuffled in groups of this size")
    parser.add_argument("--files", type=int, default=10)
    options = parser.parse_args()
    for done in Nexmark(options.rate, options.disorder).write(options.directory, options.events, options.files):
        print(f"\r{done:,} of {options.events:,} events", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
