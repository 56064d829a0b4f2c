"""A process that is killed while it takes or restores a savepoint leaves nothing that is taken for a whole one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.history.savepoints import Savepoint, SavepointError, create, find, listed, restore
from penstock.runtime.run import Run
from tests.history.savepoints.support import Written
from tests.history.savepoints.test_restore import state

#: In a deep run, each step; else some of them.
STEPS = range(1, 80) if os.environ.get("PENSTOCK_DEEP") == "1" else (1, 4, 9, 16, 25)
CHILD = Path(__file__).parent / "kill_at.py"


def is_killed(*arguments: object) -> bool:
    """Whether the process came as far as the step at which it ends itself."""
    root = Path(__file__).parents[3]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, str(CHILD), *map(str, arguments)], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode != 0


def test_a_savepoint_is_whole_or_not_there_wherever_its_taking_is_killed(written):
    app: Written = written(12)
    for step in STEPS:
        name, killed = f"at{step}", is_killed("create", app.directory, f"at{step}", step)
        found = [folder for folder, point in listed(app.directory) if isinstance(point, Savepoint)]
        assert len(found) == len(list(listed(app.directory))), "a half one is listed"
        if name not in found:
            create(app.directory, name)
        assert find(name, app.directory).streams["visits"].epoch == app.epoch
        app.run(1)
        if not killed:
            return
    left = [path.name for path in (app.directory / "savepoints").iterdir() if path.name.startswith(".")]
    assert left == [], "what a killed process left is cleared away by the next one"


def test_a_state_is_the_old_one_or_the_new_one_or_refused_wherever_its_restoring_is_killed(written, tmp_path):
    app: Written = written(12)
    point = create(app.directory, "a")
    wanted = state(point.path)
    for step in STEPS:
        there: Written = written(3, f"there-{step}")
        there.store.close()
        before = state(there.directory)
        killed = is_killed("restore", app.directory, "a", step, there.directory)
        if not killed:
            assert state(there.directory) == wanted
            return
        if (there.directory / ".restored").exists():
            with pytest.raises(SavepointError, match="not finished"):
                Run("shop", {}, {}, there.directory)
        else:
            assert state(there.directory) in (before, wanted)
        restore(point, there.directory, force=True)
        assert state(there.directory) == wanted
