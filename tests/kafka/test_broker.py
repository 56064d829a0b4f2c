"""`make kafka`: the broker ends with the program that started it, however that is asked to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.dev.ports import free_port
from penstock.errors import PenstockError
from penstock.runtime.spark.jars import broker as broker_jars
from tests.conftest import without


def java_of(directory: Path) -> list[int]:
    """The processes of brokers with data in a directory."""
    found = subprocess.run(["pgrep", "-f", str(directory)], capture_output=True, text=True, check=False).stdout
    lines = {int(line): Path(f"/proc/{line}/cmdline") for line in found.split()}
    return [pid for pid, line in lines.items() if line.exists() and b"kafka.Kafka" in line.read_bytes()]


@pytest.mark.parametrize(
    ("number", "ignored"), [(signal.SIGINT, True), (signal.SIGTERM, False)], ids=["background job", "terminated"]
)
def test_the_broker_ends_with_the_program(tmp_path: Path, number: signal.Signals, ignored: bool):
    try:
        broker_jars()
    except PenstockError as error:
        without(str(error))
    command = [sys.executable, "-m", "penstock.dev.broker", "--port", str(free_port()), "--directory", str(tmp_path)]
    shell = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignored else []
    with subprocess.Popen([*shell, *command], stdout=subprocess.PIPE, text=True, start_new_session=True) as program:
        assert program.stdout is not None
        lines = iter(program.stdout.readline, "")
        assert any("listens on" in line for line in lines)
        assert len(java_of(tmp_path)) == 1
        os.killpg(program.pid, number)
        assert "stopping" in program.stdout.read()
    assert program.returncode == 0
    assert java_of(tmp_path) == []
