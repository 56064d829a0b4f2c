"""A command that is kept running: killed, failing, stopped; and a real app that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from penstock.cli.restart import Rules, keep_running
from tests.cli.conftest import LONGEST, wait_for
from tests.cli.test_run import COMMAND, counted, put, visit
from tests.conftest import need_spark

QUICK = Rules(pause=0.01, longest=0.01)
#: Runs a command as `penstock run --restart` does.
KEEPER = (
    "import sys; from penstock.cli.restart import *; end_like(keep_running(sys.argv[1:], lambda text: print(text)))"
)


def command(folder: Path, *ends: str) -> list[str]:
    """A command that ends another way each time it is started."""
    code = (
        "import os, signal, sys; from pathlib import Path; log = Path(sys.argv[1]); "
        "log.open('a').write('x'); exec(sys.argv[2:][min(len(log.read_text()), len(sys.argv) - 2) - 1])"
    )
    return [sys.executable, "-c", code, str(folder / "starts"), *ends]


def starts(folder: Path) -> int:
    log = folder / "starts"
    return len(log.read_text()) if log.exists() else 0


KILLED, FAILED, DONE = "os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(1)", "sys.exit(0)"
#: Waits for signals: as Python does by itself, or with a note of SIGTERM in a file.
WAITING = "signal.pause()"
NOTING = (
    "signal.signal(signal.SIGTERM, lambda *_: log.with_name('stopped').touch() or sys.exit(0)); "
    "log.with_name('ready').touch(); signal.pause()"
)


@contextmanager
def kept(folder: Path, *ends: str) -> Iterator[subprocess.Popen[str]]:
    """A process that keeps such a command running, once that has been started."""
    arguments = [sys.executable, "-c", KEEPER, *command(folder, *ends)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as keeper:
        try:
            wait_for(lambda: starts(folder) > 0, keeper)
            yield keeper
        finally:
            keeper.kill()


def wait_for_file(path: Path) -> None:
    end = time.monotonic() + LONGEST
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} has not come"
        time.sleep(0.01)


def test_a_killed_command_is_started_again_until_it_ends(tmp_path: Path):
    lines: list[str] = []
    assert keep_running(command(tmp_path, KILLED, KILLED, DONE), lines.append, QUICK) == 0
    assert starts(tmp_path) == 3
    assert lines[0] == "the app was ended by SIGKILL, and is started again"


def test_a_command_that_is_killed_at_each_start_is_given_up(tmp_path: Path):
    lines: list[str] = []
    assert keep_running(command(tmp_path, KILLED), lines.append, QUICK) == -signal.SIGKILL
    assert starts(tmp_path) == QUICK.attempts + 1
    assert lines[-1] == (
        "the app was ended by SIGKILL. It has ended 6 times in a row within 60 s of its start, and is not started again"
    )


@pytest.mark.parametrize("code", [0, 1, 2, 130])
def test_an_error_at_the_first_start_stands(tmp_path: Path, code: int):
    assert keep_running(command(tmp_path, f"sys.exit({code})"), print, QUICK) == code
    assert starts(tmp_path) == 1


def test_an_error_of_a_command_that_has_run_does_not_stand(tmp_path: Path):
    steady = Rules(steady=0.0, pause=0.01, longest=0.01)
    assert keep_running(command(tmp_path, FAILED, FAILED, "sys.exit(2)"), print, steady) == 2
    assert starts(tmp_path) == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_before_the_command_is_ready_ends_both(tmp_path: Path, number: signal.Signals):
    with kept(tmp_path, WAITING) as keeper:
        keeper.send_signal(number)
        output, _ = keeper.communicate(timeout=LONGEST)  # both have closed it
    assert keeper.returncode == -number
    assert (output, starts(tmp_path)) == ("", 1)


def test_a_command_that_stops_by_itself_gives_its_exit_code(tmp_path: Path):
    with kept(tmp_path, NOTING) as keeper:
        wait_for_file(tmp_path / "ready")
        keeper.send_signal(signal.SIGTERM)
        keeper.communicate(timeout=LONGEST)
    assert (keeper.returncode, starts(tmp_path)) == (0, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no process that its parent has ended")
def test_a_command_is_asked_to_stop_when_the_process_that_keeps_it_running_is_killed(tmp_path: Path):
    with kept(tmp_path, NOTING) as keeper:
        wait_for_file(tmp_path / "ready")
        keeper.kill()
        wait_for_file(tmp_path / "stopped")


def test_an_app_with_an_error_is_not_started_again(app_file: Callable[..., Path], tmp_path: Path):
    arguments = [*COMMAND, "run", str(app_file("import penstock as ps\nps.App('shop').no_such()\n")), "--restart"]
    ended = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True, timeout=LONGEST, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.count("no_such") == 1


def test_an_app_that_is_killed_comes_back_and_stops_when_it_is_asked_to(app_file: Callable[..., Path], tmp_path: Path):
    need_spark()
    put(tmp_path / "in", "1", visit("/a", 1))
    arguments = [*COMMAND, "run", str(app_file()), "--restart", "--no-serve", "--master", "local[1]"]
    # Into a file: a pipe would end with the Java of the killed driver only.
    with (tmp_path / "output").open("w") as output, subprocess.Popen(arguments, cwd=tmp_path, stdout=output) as running:
        try:
            wait_for(lambda: counted(tmp_path) == 1, running)
            [driver] = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
            os.kill(int(driver), signal.SIGKILL)
            put(tmp_path / "in", "2", visit("/b", 2))
            wait_for(lambda: counted(tmp_path) == 2, running)
            running.send_signal(signal.SIGTERM)
            assert running.wait(LONGEST) == 0
        finally:
            running.kill()
    text = (tmp_path / "output").read_text()
    assert "the app was ended by SIGKILL, and is started again" in text
    assert "stopped after commit" in text
