"""A standalone Spark cluster on this machine, to try things and to test: `make cluster`.

    with Cluster(directory, workers=2) as cluster:
        app.run("state", master=cluster.master)

One master and several workers, each a process of its own, from the jars that PySpark brings along. Workers come and go
while an app runs: `add`, `kill`, `pause`; so do their executors.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from penstock.dev.ports import free_port
from penstock.dev.server_process import ServerProcess
from penstock.errors import PenstockError
from penstock.runtime.spark.java import found_java
from penstock.runtime.spark.secure import SECRET, keep_secret, known_secret, security

_HOST: Final = "127.0.0.1"
_SECONDS: Final = 60.0
_SETTINGS: Final = "spark.properties"
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"
#: What Spark's classes need to be allowed by Java, as its own launcher asks for it.
_OPENED: Final = ("java.lang", "java.lang.invoke", "java.net", "java.nio", "java.util", "java.util.concurrent",
                  "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar")  # fmt: skip


class Process(ServerProcess):
    """A master or a worker."""

    def __init__(self, name: str, directory: Path, main: str, *arguments: str, host: str = _HOST) -> None:
        self.name, self.directory = name, directory
        super().__init__(directory / f"{name}.log")
        where = ["--host", host, "--webui-port", "0", "--properties-file", str(directory / _SETTINGS)]
        self.run([*_java(), f"org.apache.spark.deploy.{main}", *where, *arguments], _environment(directory, host))

    def wait(self, sign: str) -> None:
        """Waits until it says something."""
        _until(lambda: not self.is_alive or bool(re.search(sign, self.output())))
        if not re.search(sign, self.output()):
            self.kill()
            raise PenstockError(f"Spark's {self.name} did not start", detail=self.output()[-2000:])


class Worker(Process):
    """A worker, which starts an executor for each app."""

    def __init__(self, number: int, directory: Path, master: str, cores: int, memory: str) -> None:
        self._seen: set[int] = set()
        # Spark starts no second copy of a task on the same host: so each worker is one of its own, where it can be.
        host = f"127.0.0.{1 + number % 250}" if sys.platform == "linux" else _HOST
        super().__init__(
            f"worker-{number}", directory, "worker.Worker", "--cores", str(cores), "--memory", memory,
            "--work-dir", str(directory / f"work-{number}"), master, host=host,
        )  # fmt: skip

    def executors(self) -> list[int]:
        """The processes of its executors."""
        pids = [pid for pid, parent, command in _processes() if parent == self.pid and _EXECUTOR in command]
        self._seen.update(pids)
        return pids

    def kill(self) -> None:
        """Ends it at once. Its executors, which would notice sooner or later, end with it as with a machine."""
        if self.is_alive:
            self.executors()
        super().kill()
        for pid, _, command in _processes():
            if pid in self._seen and _EXECUTOR in command:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Cluster:
    """A master and its workers. `cores` and `memory` are what each worker gives away."""

    def __init__(
        self, directory: Path | str, *, workers: int = 2, cores: int = 1, memory: str = "1g", port: int | None = None
    ) -> None:
        self.directory, self._cores, self._memory = Path(directory), cores, memory
        self._count, self._port, self._numbers = workers, port, 0
        self._master: Process | None = None
        self.workers: list[Worker] = []

    @property
    def master(self) -> str:
        """What apps connect to."""
        return f"spark://{_HOST}:{self._port}"

    def start(self) -> Cluster:
        """Starts all, and waits until the workers are registered."""
        self._port = self._port or free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._share_secret()
        self._master = Process("master", self.directory, "master.Master", "--port", str(self._port))
        try:
            self._master.wait("I have been elected leader")
            started = [self._started() for _ in range(self._count)]
            for worker in started:
                worker.wait("Successfully registered")
        except BaseException:
            self.stop()
            raise
        return self

    def _share_secret(self) -> None:
        """Masters, workers and apps show each other that they have a secret, made for this cluster."""
        settings = {**security("local", {}), SECRET: keep_secret(self.master)}
        path = self.directory / _SETTINGS
        path.unlink(missing_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.writelines(f"{name} {value}\n" for name, value in settings.items())

    def add(self) -> Worker:
        """One more worker, registered."""
        worker = self._started()
        worker.wait("Successfully registered")
        return worker

    def _started(self) -> Worker:
        self._numbers += 1
        worker = Worker(self._numbers, self.directory, self.master, self._cores, self._memory)
        self.workers.append(worker)
        return worker

    def executors(self) -> list[int]:
        """The processes of all executors."""
        return [pid for worker in self.workers if worker.is_alive for pid in worker.executors()]

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        if self._master is not None:
            self._master.stop()
        known_secret(self.master).unlink(missing_ok=True)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()


def _java() -> list[str]:
    java = found_java()
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    return [java, *small, "-Dspark.master.rest.enabled=false", *opened, "-cp", str(_spark_home() / "jars" / "*")]


def _environment(directory: Path, host: str) -> dict[str, str]:
    """Java's own options, as people set them for apps, are not for these processes."""
    own = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    places = {"SPARK_HOME": str(_spark_home()), "SPARK_LOCAL_DIRS": str(directory / "local")}
    (core,) = (_spark_home() / "jars").glob("spark-core_*.jar")
    scala = core.name.removeprefix("spark-core_").partition("-")[0]  # workers ask for it when they start an executor
    return {**own, **places, "SPARK_LOCAL_IP": host, "SPARK_SCALA_VERSION": scala}


def _spark_home() -> Path:
    try:
        import pyspark
    except ImportError as error:
        raise PenstockError("PySpark is not installed", hint="pip install 'penstock[spark]'") from error
    return Path(pyspark.__file__).parent


def _processes() -> list[tuple[int, int, str]]:
    """All processes: their numbers, those of their parents, and their commands."""
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    rows = (line.split(None, 2) for line in listing.stdout.splitlines())
    return [(int(row[0]), int(row[1]), row[2]) for row in rows if len(row) == 3]


def _until(is_so: Callable[[], bool], seconds: float = _SECONDS) -> None:
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make cluster", description="Spark on this machine, until Ctrl-C")
    parser.add_argument("--port", type=int, default=7077, help="of the master")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=1, help="of each worker")
    parser.add_argument("--memory", default="2g", help="of each worker")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-cluster-") as scratch:
        print("starting Spark …", flush=True)
        sizes = {"cores": arguments.cores, "memory": arguments.memory, "port": arguments.port}
        with Cluster(scratch, workers=arguments.workers, **sizes) as cluster:
            print(
                f"{arguments.workers} workers: penstock run APP --master {cluster.master}; Ctrl-C ends them", flush=True
            )
            try:
                signal.pause()
            except KeyboardInterrupt:
                print("stopping", flush=True)


if __name__ == "__main__":
    main()
