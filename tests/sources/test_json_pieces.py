"""A file of JSON gives the same rows in however small pieces it is read."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from penstock.model.types import Schema
from penstock.sources.formats import json_lines

VALUES: dict[str, list[object]] = {
    "string": ["a", "é", ""], "bigint": [1, -5], "int": [7], "smallint": [3], "tinyint": [1], "double": [1.5, 2],
    "boolean": [True, False], "timestamp": ["2024-05-01T12:00:00Z", "2024-05-01 12:00:00.5"], "date": ["2024-05-01"],
}  # fmt: skip
SCHEMA = Schema.parse(", ".join(f"{kind}_value {kind}" for kind in VALUES))
BAD = ['{"int_value": "seven"}', "{", '{"int_value": 1, "int_value": 2}', "[]", '{"date_value": "May"}']


def written(path: Path, chance: Random, bad: float) -> Path:
    """Stretches of lines, each with values in some of the columns only."""
    lines = []
    for _ in range(12):
        names = chance.sample(list(VALUES), chance.randint(0, len(VALUES)))
        for _ in range(chance.randint(1, 12)):
            line = json.dumps({f"{name}_value": chance.choice(VALUES[name]) for name in names})
            lines.append(chance.choice(BAD) if chance.random() < bad else line)
    path.write_text("\n".join(lines) + "\n" * chance.randint(0, 1))
    return path


def read(path: Path) -> pl.DataFrame:
    frames = list(json_lines.read_file(str(path), SCHEMA, 1 << 20))
    return pl.concat(frames, how="diagonal").select(*SCHEMA.names, json_lines.AT, json_lines.MALFORMED)


@pytest.mark.parametrize("bad", [0.0, 0.05, 0.5])
@pytest.mark.parametrize("seed", range(8))
def test_small_pieces_give_the_rows_of_a_whole_file(
    seed: int, bad: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "events.json", Random(seed), bad)
    whole = read(path)
    for size in (100, 700, 5000):
        for name in ("READ", "PIECE", "BLOCK"):
            monkeypatch.setattr(json_lines, name, size * (3 if name == "BLOCK" else 1))
        assert_frame_equal(read(path), whole)
    assert whole.height > 0
