"""The channel itself, without an app behind it: what travels, who may connect, and what a killed process leaves."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.control import Client, NoApp, RemoteError, Reply, address
from penstock.control.protocol import LONGEST
from penstock.control.server import Server
from penstock.errors import PenstockError


def execute(sql: str, file: str | None) -> Reply:
    if sql == "wrong":
        raise PenstockError("no", detail="because", hint="do this")
    if sql == "bug":
        raise KeyError("x")
    return Reply(("sql", "file"), ((sql, file),), "done")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    made = Server("shop", tmp_path, execute)
    yield made
    made.close()


def raw(directory: Path, *lines: bytes) -> list[dict[str, object]]:
    """What comes back for lines as they are."""
    found = address.read(directory)
    assert found is not None
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(found.socket)
        with connection.makefile("rwb") as file:
            answers = []
            for line in lines:
                file.write(line)
                file.flush()
                answers.append(json.loads(file.readline()))
    return answers


@pytest.mark.usefixtures("server")
def test_answers_and_errors_come_back_as_they_were(tmp_path: Path) -> None:
    client = Client(tmp_path)
    assert client.ask("SELECT '\n ü'", "a.sql") == Reply(("sql", "file"), (("SELECT '\n ü'", "a.sql"),), "done")
    with pytest.raises(RemoteError) as refused:
        client.ask("wrong")
    assert (refused.value.message, refused.value.detail, refused.value.hint) == ("no", "because", "do this")
    with pytest.raises(RemoteError, match="KeyError"):
        client.ask("bug")
    assert client.ask("again").message == "done"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "line", [b"x\n", b"[]\n", b"{}\n", b'{"sql": 1}\n', b'{"sql": "a", "file": 2}\n', b"\xff\n", b'{"python": "1"}\n']
)
def test_what_is_no_request_is_refused_and_the_next_one_answered(tmp_path: Path, line: bytes) -> None:
    wrong, right = raw(tmp_path, line, b'{"sql": "a"}\n')
    assert wrong["error"]["message"] == "not a request"  # type: ignore[index]
    assert right["rows"] == [["a", None]]


@pytest.mark.usefixtures("server")
def test_a_statement_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    (answer,) = raw(tmp_path, b'{"sql": "' + b"x" * LONGEST)
    assert "longer than" in answer["error"]["message"]  # type: ignore[index]


@pytest.mark.usefixtures("server")
def test_several_shells_are_answered_at_a_time(tmp_path: Path) -> None:
    waiting = raw, threading.Thread(target=lambda: raw(tmp_path, b'{"sql": "a"}\n'))
    clients = [Client(tmp_path) for _ in range(20)]
    waiting[1].start()
    assert all(client.ask(str(n)).rows == ((str(n), None),) for n, client in enumerate(clients))
    waiting[1].join()
    for client in clients:
        client.close()


def test_only_its_own_user_can_reach_the_socket(tmp_path: Path, server: Server) -> None:
    found = address.read(tmp_path)
    assert found is not None
    assert found.pid == os.getpid()
    assert stat.S_IMODE(Path(found.socket).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "control.json").stat().st_mode) == 0o600


def test_a_clean_end_leaves_nothing_and_is_noticed_by_those_connected(tmp_path: Path) -> None:
    server, client = Server("shop", tmp_path, execute), Client(tmp_path)
    assert client.is_there
    folder = Path(address.read(tmp_path).socket).parent  # type: ignore[union-attr]
    server.close()
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []
    assert not client.is_there
    with pytest.raises(NoApp) as refused:
        client.ask("SHOW VIEWS")
    assert "penstock run" in (refused.value.hint or "")
    again = Server("shop", tmp_path, execute)
    assert client.ask("a").message == "done"  # the shell goes on with the app that was started anew
    again.close()


def test_what_a_killed_process_left_is_recognised_and_replaced(tmp_path: Path) -> None:
    path = address.place()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    address.write(tmp_path, address.Address("shop", 4_000_000, str(path)))
    with pytest.raises(NoApp) as refused:
        Client(tmp_path).ask("SHOW VIEWS")
    assert "process 4000000, ended without cleaning up" in (refused.value.detail or "")
    server = Server("shop", tmp_path, execute)
    assert not path.parent.exists()
    assert Client(tmp_path).ask("a").message == "done"
    server.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"app": "a"}', '{"app": "a", "pid": "x", "socket": "s"}'])
def test_a_damaged_file_names_no_app(tmp_path: Path, text: str) -> None:
    (tmp_path / "control.json").write_text(text)
    with pytest.raises(NoApp):
        Client(tmp_path).ask("SHOW VIEWS")


def test_nothing_but_its_own_is_removed(tmp_path: Path) -> None:
    other = tmp_path / "letters"
    other.touch()
    address.write(tmp_path, address.Address("shop", 1, str(other)))
    address.clear(tmp_path)
    assert other.exists()


def test_the_path_of_the_socket_is_short_wherever_temporary_files_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    server = Server("shop", tmp_path, execute)
    assert Client(tmp_path).ask("a").message == "done"
    server.close()
