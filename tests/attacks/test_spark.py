"""Attacks on Spark: on what listens, and on the executor. Without Spark where that is possible."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest

from penstock.errors import PenstockError
from penstock.runtime.spark.secure import SECRET, keep_secret, known_secret, security
from tests.cluster.support import until
from tests.conftest import need_spark, without
from tests.faults.java import quick_options

ROOT = Path(__file__).parents[2]
#: The message StopExecutor as Java writes it.
STOP = bytes.fromhex(
    "aced0005737200267363616c612e72756e74696d652e4d6f64756c6553657269616c697a6174696f6e50726f78790000000000000001"
    "0200014c000b6d6f64756c65436c6173737400114c6a6176612f6c616e672f436c6173733b78707672002e6f72672e6170616368652e"
    "737061726b2e7363686564756c65722e6c6f63616c2e53746f704578656375746f72246679915b415816fa0200007870"
)
ENDPOINT = b"LocalSchedulerBackendEndpoint"


class App:
    """A process of `penstock run` with Spark on this machine."""

    def __init__(self, root: Path, *options: str) -> None:
        self.sign, self._out = root / "sign", root / "out"
        os.mkfifo(self.sign)
        quick = ("--conf", "spark.driver.memory=512m", "--conf", f"spark.driver.extraJavaOptions={quick_options()}")
        command = [sys.executable, "-m", "penstock.cli", "run", str(ROOT / "tests/attacks/stopping_app.py")]
        with self._out.open("w") as out:
            self.process = subprocess.Popen(
                [*command, "--dir", str(root / "state"), "--master", "local[1]", "--port", "0", *quick, *options],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PENSTOCK_TEST_SIGN": str(self.sign)},
            )  # fmt: skip
        until(lambda: "serving at" in self.said() or self.process.poll() is not None, "the server")
        self.url = re.search(r"serving at (http://[^/\s]+)", self.said())[1]  # type: ignore[index]

    def said(self) -> str:
        return self._out.read_text()

    def counts(self) -> int:
        """Sends an event; how many are counted once it is in."""
        with httpx.Client(base_url=self.url, timeout=120) as client:
            answers: list[httpx.Response] = []

            def is_sent() -> bool:
                """The server may answer before the app's streams are registered."""
                header = {"Content-Type": "application/x-ndjson"}
                answers.append(client.post("/api/v1/streams/posts", content=b'{"tag":"x"}', headers=header))
                return answers[-1].status_code == 200

            until(is_sent, "the answer to the event")
            token = answers[-1].json()["token"]

            def is_in() -> bool:
                answers.append(client.get("/api/v1/views/totals", params={"after": token}))
                return answers[-1].status_code == 200

            until(is_in, "the event")
            return int(answers[-1].json()["rows"][0]["n"])

    def listening(self) -> set[tuple[str, int]]:
        """Where the app and all that it started listen."""
        family, grown = {self.process.pid}, True
        while grown:
            children = {pid for pid, parent in parents().items() if parent in family}
            grown, family = not children <= family, family | children
        sockets = {inode for pid in family for inode in inodes(pid)}
        return {(host, port) for host, port, inode in listeners() if inode in sockets}

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def parents() -> dict[int, int]:
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            found[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    return found


def inodes(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                yield from re.findall(r"socket:\[(\d+)\]", os.readlink(descriptor))


def listeners() -> Iterator[tuple[str, int, str]]:
    """All listening TCP sockets of the machine: address, port and inode."""
    for table, size in (("tcp", 4), ("tcp6", 16)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, port = fields[1].split(":")
            words = struct.unpack(f">{size // 4}I", bytes.fromhex(address))
            if fields[3] == "0A":
                yield str(ip_address(struct.pack(f"<{size // 4}I", *words))), int(port, 16), fields[9]


def is_loopback(host: str) -> bool:
    address = ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def stop_executor(port: int) -> bool:
    """Sends StopExecutor to a port, as a stranger who has no secret; whether it was answered with True."""
    address = b"\1" + struct.pack(">H", 9) + b"127.0.0.1" + struct.pack(">i", port)
    body = b"\0" + address + struct.pack(">H", len(ENDPOINT)) + ENDPOINT + STOP
    frame = struct.pack(">QBqi", 8 + 13 + len(body), 3, 4711, len(body)) + body
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as made:
        made.sendall(frame)
        answer = made.recv(4096)
        return len(answer) > 8 and answer[8] == 4  # an answer, not a failure
    return False


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., App]]:
    need_spark()
    if sys.platform != "linux":
        without("the addresses that an app listens on are read from /proc")
    started: list[App] = []

    def start(*options: str) -> App:
        started.append(App(tmp_path, *options))
        return started[-1]

    yield start
    for app in started:
        app.close()


def test_strangers_reach_no_executor_and_a_lost_one_is_noticed(running: Callable[..., App]):
    """Stops the executor of a local app: only loopback is listened to, Spark rejects it, and a loss ends the run."""
    app = running()
    assert app.counts() == 1
    addresses = app.listening()
    assert len(addresses) > 3, addresses
    assert [address for address in addresses if not is_loopback(address[0])] == []
    own = int(app.url.rpartition(":")[2])
    assert [port for _, port in addresses if port != own and stop_executor(port)] == []
    assert app.counts() == 2
    assert httpx.get(app.url + "/ready").status_code == 200
    state = app.sign.parent / "state"
    assert [path for path in (state, *state.rglob("*")) if path.lstat().st_mode & 0o077] == []
    app.sign.write_bytes(b"")  # now it is stopped from inside
    assert app.process.wait(60) == 1
    assert "executor was stopped" in app.said()
    with pytest.raises(httpx.ConnectError):
        httpx.get(app.url + "/ready")


@pytest.mark.deep
def test_without_authentication_the_message_arrives(running: Callable[..., App]):
    """Sends StopExecutor to an app that runs with spark.authenticate=false: it ends, and says why."""
    app = running("--conf", "spark.authenticate=false")
    assert any(map(stop_executor, [port for _, port in app.listening()]))
    assert app.process.wait(60) == 1
    assert "executor was stopped" in app.said()


def test_a_cluster_without_a_secret_is_refused(tmp_path: Path):
    """Waits for an app that joins a cluster without a secret: the app refuses, unless --insecure-cluster is set."""
    with pytest.raises(PenstockError, match="has no secret") as raised:
        security("spark://elsewhere.example:7077", {})
    assert "--insecure-cluster" in str(raised.value)
    assert security("spark://elsewhere.example:7077", {"spark.authenticate": "false"}) == {}
    file = tmp_path / "secret"
    file.write_text("hush\n")
    settings = security("spark://elsewhere.example:7077", {"spark.authenticate.secret.file": str(file)})
    assert settings[SECRET] == "hush"
    for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
        assert settings[name] == "true"


def test_the_secret_of_a_cluster_on_this_machine_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Reads or plants the secret of a cluster as another user: its folder is private, and refused where it is not."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    secret = keep_secret("spark://127.0.0.1:7077")
    path = known_secret("spark://127.0.0.1:7077")
    assert (path.stat().st_mode | path.parent.stat().st_mode) & 0o077 == 0
    assert security("spark://127.0.0.1:7077", {})[SECRET] == secret
    path.parent.chmod(0o777)
    with pytest.raises(PenstockError, match="others can write"):
        security("spark://127.0.0.1:7077", {})
