"""Exactly once in files when the process is really killed: at each step, and at random moments, again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sinks.kill_app import STEPS
from tests.sinks.support import LIVE, Fed, steady
from tests.sinks.test_files import ids_in

APP = Path(__file__).parent / "kill_app.py"
ROOT = Path(__file__).parent.parent.parent
KILLS = 60 if os.environ.get("PENSTOCK_DEEP") == "1" else 3


@pytest.fixture
def fired(tmp_path: Path) -> list[int]:
    """A store with panes that nobody has; their ids."""
    fed = Fed(LIVE, tmp_path / "state", steady(40))
    fed.all()
    ids = fed.ids()
    fed.store.close()
    return ids


def start(root: Path, *step: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.Popen(
        [sys.executable, str(APP), str(root), *step],
        stdout=subprocess.PIPE, stderr=(root / "stderr").open("a"), text=True, env=environment,
    )  # fmt: skip


def finish(root: Path, fired: list[int]) -> None:
    process = start(root)
    said, _ = process.communicate()
    assert said == "done\n", (root / "stderr").read_text()[-3000:]
    assert ids_in(root / "lines") == fired
    assert ids_in(root / "columns") == fired


def test_killed_at_each_step_of_a_delivery(tmp_path, fired):
    for passes, step in enumerate(STEPS, start=3):
        process = start(tmp_path, step, str(passes))
        process.communicate()
        assert process.returncode == -signal.SIGKILL, (tmp_path / "stderr").read_text()[-3000:]
    finish(tmp_path, fired)


def test_killed_at_random_moments(tmp_path, fired):
    chance = random.Random(7)

    def files() -> int:
        return len(list(tmp_path.glob("lines/*.jsonl"))) + len(list(tmp_path.glob("columns/*.parquet")))

    for _ in range(KILLS):
        process = start(tmp_path)
        goal = files() + chance.randrange(1, 25)
        while process.poll() is None and files() < goal:
            pass
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finish(tmp_path, fired)
