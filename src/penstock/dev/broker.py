"""A real Kafka broker on this machine, to try things and to test: `make kafka`, or `python -m penstock.dev.broker`.

    with Cluster(directory) as kafka:
        print(kafka.servers)

A cluster of several brokers has its controller in a process of its own, so that any of the brokers may be killed,
paused and started again while the others go on.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.dev.ports import free_port
from penstock.dev.server_process import ServerProcess
from penstock.errors import PenstockError
from penstock.runtime.spark.jars import broker as broker_jars
from penstock.runtime.spark.java import found_java

_MEMORY = "-Xmx384m"
_CONTROLLER = 100  # its number, above those of all brokers
_READY = "Kafka Server started"
_SECONDS = 180.0  # a broker that was killed reads its log first, and the machine may be busy


class Broker(ServerProcess):
    """One process of a cluster, with a directory of its own that holds settings, data and its log."""

    def __init__(self, number: int, directory: Path, settings: Mapping[str, str], ports: Mapping[str, int]) -> None:
        super().__init__(directory / "server.log")
        self.number, self.directory, self.ports = number, directory, dict(ports)
        self._settings = {**settings, "node.id": str(number), "log.dirs": str(directory / "data")}

    def address(self, listener: str = "PLAINTEXT") -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def start(self, cluster: str) -> None:
        """Starts it, formatted if that was not done; `wait` waits until it can be used."""
        properties = self.directory / "server.properties"
        self.directory.mkdir(parents=True, exist_ok=True)
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(cluster, properties)
        self.run(_java("kafka.Kafka", str(properties)))

    def _format(self, cluster: str, properties: Path) -> None:
        done = subprocess.run(
            _java("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)),
            capture_output=True, text=True,
        )  # fmt: skip
        if done.returncode:
            raise PenstockError("Kafka's storage could not be formatted", detail=(done.stdout + done.stderr)[-2000:])

    def wait(self, seconds: float = _SECONDS) -> None:
        """Waits until it says that it has started."""
        end = time.monotonic() + seconds
        while _READY not in self.output():
            if not self.is_alive or time.monotonic() > end:
                self.kill()
                raise PenstockError(f"the Kafka broker {self.number} did not start", detail=self.output()[-2000:])
            time.sleep(0.05)


class Cluster:
    """A number of brokers. `listeners` adds further ones, by protocol: {"SSL": {"ssl.keystore.location": …}}."""

    def __init__(
        self,
        directory: Path | str,
        *,
        brokers: int = 1,
        port: int | None = None,
        listeners: Mapping[str, Mapping[str, str]] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        # With zeros in front it begins with a letter: the storage tool would take a dash for an option.
        self._id = urlsafe_b64encode(b"\0" + uuid.uuid4().bytes[1:]).decode().rstrip("=")
        extra, controller = listeners or {}, free_port()
        copies = str(min(brokers, 3))
        common = {
            "controller.quorum.voters": f"{1 if brokers == 1 else _CONTROLLER}@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", "PLAINTEXT:PLAINTEXT", *(f"{name}:{name}" for name in extra)]
            ),
            **dict.fromkeys(
                ("default.replication.factor", "offsets.topic.replication.factor",
                 "transaction.state.log.replication.factor", "share.coordinator.state.topic.replication.factor"),
                copies,
            ),
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.ms": "-1",  # who tries things writes old times too: they are not to vanish
            "broker.session.timeout.ms": "6000",
            "broker.heartbeat.interval.ms": "500",
        }  # fmt: skip
        for listened in extra.values():
            common |= listened
        common |= settings or {}
        root = Path(directory)
        self.controller: Broker | None = None
        if brokers > 1:
            alone = {"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{controller}"}
            self.controller = Broker(_CONTROLLER, root / "controller", common | alone, {"CONTROLLER": controller})
        self.brokers: list[Broker] = []
        for number in range(1, brokers + 1):
            ports = {name: free_port() for name in ("PLAINTEXT", *extra)}
            if port is not None:
                ports["PLAINTEXT"] = port + number - 1
            public = [f"{name}://127.0.0.1:{at}" for name, at in ports.items()]
            private = [] if self.controller else [f"CONTROLLER://127.0.0.1:{controller}"]
            own = {
                "process.roles": "broker" if self.controller else "broker,controller",
                "listeners": ",".join(public + private),
                "advertised.listeners": ",".join(public),
                "inter.broker.listener.name": "PLAINTEXT",
            }
            self.brokers.append(Broker(number, root / f"broker-{number}", common | own, ports))

    @property
    def servers(self) -> str:
        """What clients connect to."""
        return self.addresses()

    def addresses(self, listener: str = "PLAINTEXT") -> str:
        return ",".join(broker.address(listener) for broker in self.brokers)

    def start(self) -> Cluster:
        """Starts what does not run, and waits until it can be used."""
        every = [*([self.controller] if self.controller else []), *self.brokers]
        started = [broker for broker in every if not broker.is_alive]
        try:
            for broker in started:
                broker.start(self._id)
            for broker in started:
                broker.wait()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        for broker in self.brokers:
            broker.stop()
        if self.controller is not None:
            self.controller.stop()

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()


def _java(main: str, *arguments: str) -> list[str]:
    java = found_java()
    says = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.log.kafka.server=info"]
    path = os.pathsep.join(map(str, broker_jars()))
    return [java, _MEMORY, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *says, "-cp", path, main, *arguments]


def main() -> None:
    parser = argparse.ArgumentParser(prog="make kafka", description="a Kafka broker on this machine, until Ctrl-C")
    parser.add_argument("--port", type=int, default=9092)
    parser.add_argument("--brokers", type=int, default=1, help="number of brokers, on consecutive ports")
    parser.add_argument("--directory", type=Path, help="for its data; without it, they are gone when it stops")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell's background job ignores the first
        signal.signal(number, _interrupt)
    with tempfile.TemporaryDirectory(prefix="penstock-kafka-") as scratch:
        print("starting Kafka …", flush=True)
        with (
            suppress(KeyboardInterrupt),
            Cluster(arguments.directory or scratch, brokers=arguments.brokers, port=arguments.port) as kafka,
        ):
            try:
                print(f"Kafka listens on {kafka.servers}; Ctrl-C ends it", flush=True)
                signal.pause()
            finally:
                print("stopping", flush=True)


def _interrupt(number: int, frame: object) -> None:
    """Ends the program as Ctrl-C does, once: the broker is then stopped in order."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
