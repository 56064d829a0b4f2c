"""The commands `serve` and `token`."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from penstock.cli import cli
from penstock.cli import serve as served
from penstock.errors import PenstockError

RUN = CliRunner()


def penstock(*arguments: str) -> tuple[int, str]:
    done = RUN.invoke(cli, arguments)
    return done.exit_code, done.output


@pytest.fixture
def process(filled) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "penstock.cli", "serve", "--dir", str(filled.directory), "--port", "0"]
    started = subprocess.Popen(
        [*command, "--log-format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield started
    started.kill()
    started.wait()


def test_a_process_of_its_own_serves_a_directory_until_it_is_asked_to_stop(process: subprocess.Popen[str], filled):
    assert process.stdout is not None
    url = re.search(r"http://[^/]+", process.stdout.readline())
    assert url is not None
    rows = httpx.get(f"{url[0]}/api/v1/views/trending", params={"key.tag": "x"}, timeout=60).json()["rows"]
    assert [row["posts"] for row in rows] == [1, 2]
    filled.commit(("x", 1, 13))
    rows = httpx.get(f"{url[0]}/api/v1/views/trending", params={"key.tag": "x"}, timeout=60).json()["rows"]
    assert [row["posts"] for row in rows] == [2, 2]
    process.send_signal(signal.SIGTERM)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "stopped" in out
    lines = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert [line["status"] for line in lines if line["logger"] == "penstock.access"] == [200, 200]


def test_others_are_not_let_in_without_a_token(filled):
    code, said = penstock("serve", "--dir", str(filled.directory), "--host", "0.0.0.0", "--port", "0")
    assert code == 1
    assert "penstock token create" in said


@pytest.mark.parametrize("command", ["run", "demo", "serve"])
def test_a_port_that_is_in_use_is_an_error_and_not_another_port(filled, tmp_path: Path, command: str):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (tmp_path / "app.sql").write_text("CREATE STREAM s (n INT) FROM HTTP 's'; CREATE CONTINUOUS VIEW v AS "
                                          "SELECT count(*) AS n FROM s;")  # fmt: skip
        app = [str(tmp_path / "app.sql")] if command == "run" else []
        directory = filled.directory if command == "serve" else tmp_path / "other"
        code, said = penstock(command, *app, "--dir", str(directory), "--port", str(port))
    assert code == 1
    assert f"cannot listen at 127.0.0.1:{port}" in said
    assert "--port 0" in said
    assert not (tmp_path / "other").exists()  # nothing was started


def test_the_usual_port_is_not_replaced_by_another_one_either(tmp_path: Path):
    with socket.socket() as taken, pytest.MonkeyPatch.context() as patched:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        patched.setattr(served, "PORT", taken.getsockname()[1])
        with pytest.raises(PenstockError, match="cannot listen"):
            served.Serve().check()
        served.Serve(off=True).check()
        served.Serve(port=0).check()


def test_tokens_come_and_go(tmp_path: Path):
    scopes = ("--scope", "read", "--scope", "write")
    code, said = penstock("token", "create", *scopes, "--name", "me", "--dir", str(tmp_path))
    assert code == 0
    token = said.strip()
    assert token.startswith("ps_")
    code, said = penstock("token", "list", "--dir", str(tmp_path))
    assert "me" in said
    assert "read, write" in said
    assert token not in said
    assert penstock("token", "create", "--scope", "read", "--name", "me", "--dir", str(tmp_path))[0] == 1
    assert "did you mean 'read'" in penstock("token", "create", "--scope", "raed", "--dir", str(tmp_path))[1]
    assert penstock("token", "remove", "me", "--dir", str(tmp_path))[0] == 0
    assert penstock("token", "remove", "me", "--dir", str(tmp_path))[0] == 1
