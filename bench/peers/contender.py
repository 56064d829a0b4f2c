"""Who is compared: how each is installed, and the command that runs one of its jobs.

A contender has a folder with one job for each workload that it can run, written as its own documentation teaches. A job
reads `PEERS_INPUT` (and `PEERS_TABLE`) until all of its `PEERS_EVENTS` are done, on `PEERS_CORES` cores, and leaves its
answer in `PEERS_OUTPUT`. A job on Kafka reads `PEERS_TOPIC` of `PEERS_SERVERS` and writes `PEERS_ANSWER` there until it
is ended; its messages are up to `PEERS_DISORDER` seconds out of order, and with `PEERS_LIVE` more of them are coming.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from bench.peers.process import JobFailed
from penstock.runtime.spark.jars import Artifact, fetched

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class Contender:
    """One of those compared. Without `requirements.txt` in its folder it runs in the project's own environment.

    `package` is the one whose version is shown, `job` what its file is called for a workload, and `cannot` says for
    which workloads, jobs or folders of jobs it has none, and why. `files` is how many its long runs have at most, where
    more would take minutes. `environment` is another contender in whose
    environment it runs, `endless` its command for jobs without an end, and `connector` the library with which it reads
    Kafka, where that is Java's.
    """

    name: str
    title: str
    package: str
    command: tuple[str, ...]
    job: str = "{workload}.py"
    streams: bool = True
    cannot: dict[str, str] = field(default_factory=dict)
    files: int = 60
    environment: str = ""
    endless: tuple[str, ...] = ()
    connector: Artifact | None = None
    recovery: Mapping[str, str] = field(default_factory=dict)
    before_recovery: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def requirements(self) -> Path:
        return HERE / (self.environment or self.name) / "requirements.txt"

    def reason(self, workload: str, job: str) -> str | None:
        """Why it has no job for a workload; None if it has one."""
        for name in (workload, job, job.partition("/")[0]):
            if name in self.cannot:
                return self.cannot[name]
        return None if (self.folder / self.job.format(workload=job)).exists() else "not written yet"

    def python(self, work: Path) -> Path:
        """The Python that it is installed in."""
        return (
            work / "environments" / (self.environment or self.name) / "bin" / "python"
            if self.requirements.exists()
            else Path(sys.executable)
        )

    def install(self, work: Path) -> None:
        """Installs what its folder asks for into an environment of its own, once; raises CalledProcessError."""
        if not self.requirements.exists():
            return
        python, wanted = self.python(work), self.requirements.read_text()
        marker = python.parent.parent / "installed.txt"
        if marker.exists() and marker.read_text() == wanted:
            return
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(python.parent.parent)],
            [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(self.requirements)],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True)
        marker.write_text(wanted)

    def jars(self) -> list[Path]:
        """The jars of its connector, which Maven fetches once; raises PenstockError."""
        if self.connector is None:
            return []
        return fetched(f"peers-{self.connector.name}-{self.connector.version}", [self.connector])

    def arguments(self, job: str, work: Path, output: Path, cores: int, *, endless: bool = False) -> list[str]:
        """The command that runs a job."""
        file = self.folder / self.job.format(workload=job)
        words = {"python": self.python(work), "bin": self.python(work).parent, "file": file, "output": output}
        command = self.endless if endless and self.endless else self.command
        return [word.format(**words, folder=self.folder, cores=cores) for word in command]

    def prepare_recovery(self, work: Path, output: Path) -> dict[str, str]:
        """Makes what a job needs to go on after a kill; the variables of its environment that tell it so."""
        words = {"python": self.python(work), "output": output, "cores": os.cpu_count() or 1}
        if self.before_recovery:
            (output / "recovery").mkdir()
            command = [word.format(**words) for word in self.before_recovery]
            done = subprocess.run(command, check=False, capture_output=True, text=True)
            if done.returncode:
                raise JobFailed(f"its place for recovery could not be made: {done.stderr.strip()[-400:]}")
        return {name: value.format(**words) for name, value in self.recovery.items()}

    def environment_of(self, cores: int) -> dict[str, str]:
        """What each job reads of its environment."""
        return {
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(ROOT / "src")]), "PEERS_CORES": str(cores),
        }  # fmt: skip

    def shown(self, job: str, cores: int, *, endless: bool = False) -> str:
        """The same as people would type it in the project's folder."""
        file = (self.folder / self.job.format(workload=job)).relative_to(ROOT)
        words = {"python": "python", "bin": "", "file": file, "output": "OUTPUT", "folder": file.parent, "cores": cores}
        command = self.endless if endless and self.endless else self.command
        return " ".join(word.format(**words) for word in command).replace(" /", " ").lstrip("/")

    def versions(self, work: Path) -> dict[str, str]:
        """The versions of its package and of its Python."""
        if not self.requirements.exists():
            return {self.package: version(self.package), "Python": ".".join(map(str, sys.version_info[:3]))}
        script = (
            "import sys, importlib.metadata as m; "
            f"print(m.version('{self.package}'), '.'.join(map(str, sys.version_info[:3])))"
        )
        done = subprocess.run([str(self.python(work)), "-c", script], check=True, capture_output=True, text=True)
        found = done.stdout.split()
        return {self.package: found[0], "Python": found[1]}


FLINK_KAFKA = Artifact("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
NO_KAFKA = {"yahoo_kafka": "reads files only"}
CONTENDERS = {
    one.name: one
    for one in (
        Contender(
            "penstock", "Penstock", "penstock",
            ("{bin}/penstock", "run", "{file}", "--dir", "{output}/state", "--master", "local[{cores}]",
             "--until-caught-up", "--no-serve"),
            endless=("{bin}/penstock", "run", "{file}", "--dir", "{output}/state", "--master", "local[{cores}]",
                     "--no-serve"),
        ),
        Contender("spark", "Structured Streaming by hand", "pyspark", ("{python}", "{file}")),
        Contender(
            "flink_sql", "Flink SQL", "apache-flink", ("{python}", "{file}"), connector=FLINK_KAFKA,
            recovery={"PEERS_RECOVERS": "1"},
            cannot={"quiet": "functions with state and timers are Java's only in SQL"},
        ),
        Contender(
            "flink", "Flink DataStream, Python", "apache-flink", ("{python}", "{file}"), files=4,
            environment="flink_sql", connector=FLINK_KAFKA,
            cannot={
                "join": "its run of a million events had a quarter too many pairs; not looked into",
                "nexmark/q11": "with session windows its run ended at a checkpoint that failed; not looked into",
            },
        ),
        Contender(
            "beam", "Beam, direct runner", "apache-beam", ("{python}", "{file}"), files=2,
            cannot={"yahoo_kafka": "in Python its local runner takes bounded inputs; a service in Java reads Kafka"},
        ),
        Contender(
            "bytewax", "Bytewax", "bytewax", ("{python}", "-m", "bytewax.testing", "-p", "{cores}", "{file}:flow"),
            recovery={
                "BYTEWAX_RECOVERY_DIRECTORY": "{output}/recovery", "BYTEWAX_SNAPSHOT_INTERVAL": "1",
                "BYTEWAX_RECOVERY_BACKUP_INTERVAL": "0",
            },
            before_recovery=("{python}", "-m", "bytewax.recovery", "{output}/recovery", "{cores}"),
        ),
        Contender(
            "pathway", "Pathway", "pathway", ("env", "PATHWAY_THREADS={cores}", "{python}", "{file}"),
            cannot={"quiet": "has no functions with state and timers"},
        ),
        Contender(
            "quix", "Quix Streams", "quixstreams", ("{python}", "{folder}/processes.py", "{cores}", "{file}"), files=2,
            cannot=dict.fromkeys(("keys", "yahoo", "words", "join", "quiet", "nexmark"), "reads Kafka only"),
        ),
        Contender(
            "duckdb", "DuckDB, one shot", "duckdb", ("{python}", "{folder}/once.py", "{file}"), "{workload}.sql",
            False, NO_KAFKA,
        ),
        Contender("polars", "Polars, one shot", "polars", ("{python}", "{file}"), streams=False, cannot=NO_KAFKA),
    )
}  # fmt: skip
