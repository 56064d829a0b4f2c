"""Who is compared: how each is installed, and the command that runs one of its jobs.

A contender has a folder with one job for each workload that it can run, written as its own documentation teaches. A job
reads `PEERS_INPUT` (and `PEERS_TABLE`) until all of its `PEERS_EVENTS` are done, and leaves its answer in
`PEERS_OUTPUT`.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass(frozen=True)
class Contender:
    """One of those compared. Without `requirements.txt` in its folder it runs in the project's own environment.

    `package` is the one whose version is shown, `job` what its file is called for a workload, and `cannot` says for
    which workloads, jobs or folders of jobs it has none, and why.
    """

    name: str
    title: str
    package: str
    command: tuple[str, ...]
    job: str = "{workload}.py"
    streams: bool = True
    cannot: dict[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return HERE / self.name

    @property
    def requirements(self) -> Path:
        return self.folder / "requirements.txt"

    def reason(self, workload: str, job: str) -> str | None:
        """Why it has no job for a workload; None if it has one."""
        for name in (workload, job, job.partition("/")[0]):
            if name in self.cannot:
                return self.cannot[name]
        return None if (self.folder / self.job.format(workload=job)).exists() else "not written yet"

    def python(self, work: Path) -> Path:
        """The Python that it is installed in."""
        return (
            work / "environments" / self.name / "bin" / "python" if self.requirements.exists() else Path(sys.executable)
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

    def arguments(self, job: str, work: Path, output: Path) -> list[str]:
        """The command that runs a job."""
        file = self.folder / self.job.format(workload=job)
        words = {"python": self.python(work), "bin": self.python(work).parent, "file": file, "output": output}
        return [word.format(**words, folder=self.folder) for word in self.command]

    def shown(self, job: str) -> str:
        """The same as people would type it in the project's folder."""
        file = (self.folder / self.job.format(workload=job)).relative_to(ROOT)
        words = {"python": "python", "bin": "", "file": file, "output": "OUTPUT", "folder": file.parent}
        return " ".join(word.format(**words) for word in self.command).replace(" /", " ").lstrip("/")

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


CONTENDERS = {
    one.name: one
    for one in (
        Contender(
            "penstock", "Penstock", "penstock",
            ("{bin}/penstock", "run", "{file}", "--dir", "{output}/state", "--until-caught-up", "--no-serve"),
        ),
        Contender("spark", "Structured Streaming by hand", "pyspark", ("{python}", "{file}")),
        Contender("flink_sql", "Flink SQL", "apache-flink", ("{python}", "{file}")),
        Contender(
            "bytewax", "Bytewax", "bytewax", ("{python}", "-m", "bytewax.testing", "-p", "2", "{file}:flow"),
        ),
        Contender("pathway", "Pathway", "pathway", ("env", "PATHWAY_THREADS=2", "{python}", "{file}")),
        Contender(
            "duckdb", "DuckDB, one shot", "duckdb", ("{python}", "{folder}/once.py", "{file}"), "{workload}.sql", False
        ),
        Contender("polars", "Polars, one shot", "polars", ("{python}", "{file}"), streams=False),
    )
}  # fmt: skip
