"""The process of a command ends as Python would end it: with its code, and after threads and what is registered."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SCRIPT = """
import atexit, threading
from penstock.cli.ending import end_process

ends = threading.Event()

def thread():
    ends.wait()
    print("thread")

atexit.register(print, "registered")
threading.Thread(target=thread).start()
print("printed")
ends.set()
end_process({code!r})
"""


@pytest.mark.parametrize(("code", "exit_code", "error"), [(None, 0, ""), (2, 2, ""), ("it failed", 1, "it failed\n")])
def test_a_process_ends_with_its_code_after_its_threads_and_what_is_registered(
    code: str | int | None, exit_code: int, error: str
):
    result = subprocess.run([sys.executable, "-c", SCRIPT.format(code=code)], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (exit_code, error)
    assert result.stdout.splitlines() == ["printed", "thread", "registered"]


def test_output_that_nobody_reads_is_a_failure():
    script = "from penstock.cli.ending import end_process\nimport sys\nsys.stdin.read()\nprint('x')\nend_process(0)"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=buffered
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    process.stdin.close()
    assert process.wait() == 120
