"""Stopped as a terminal or a service manager does it: a signal to the whole process group ends the app cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from penstock.store import Reader, StoreError

COMMAND = (sys.executable, "-m", "penstock.cli", "demo", "--no-serve", "--master", "local[1]", "--dir")
LONGEST = 180.0


def test_a_signal_to_the_process_group_stops_the_app_at_an_epoch_boundary_without_noise(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with subprocess.Popen(
        [*COMMAND, str(directory)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as running:  # fmt: skip
        try:
            end = time.monotonic() + LONGEST
            while commits(directory) < 2:
                assert running.poll() is None, running.communicate()
                assert time.monotonic() < end, "it took too long"
                time.sleep(0.1)
            os.killpg(running.pid, signal.SIGTERM)
            said, errors = running.communicate(timeout=LONGEST)
        finally:
            running.kill()
    assert (running.returncode, errors) == (0, "")
    assert "stopping at the end of this epoch" in said
    assert "stopped after commit" in said


def commits(directory: Path) -> int:
    try:
        last = Reader(directory).last()
    except StoreError:
        return 0
    return 0 if last is None else last.number
