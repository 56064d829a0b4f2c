"""Java libraries that Penstock does not bring along: Spark's Kafka connector, and a Kafka broker to try things with.

Maven fetches them on first use, by the machine's own settings, into a cache that later runs share: the directory in
`PENSTOCK_CACHE`, or `penstock` in the user's cache directory.

>>> print(Artifact("org.apache.kafka", "kafka_2.13", "4.3.0"))
org.apache.kafka:kafka_2.13:4.3.0
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from penstock.errors import PenstockError

_log = logging.getLogger("penstock.jars")

#: The broker that `make kafka` and the tests start.
BROKER = "4.3.0"
#: Where a repository lacks the connector of the installed Spark: a connector and a token provider that run on it, which
#: the tests in tests/kafka have shown.
STAND_INS = {"4.3.0": ("4.2.0", "4.0.0")}
#: What Spark has itself, and what would come along again.
_IN_SPARK = ("org.apache.hadoop", "org.scala-lang", "org.scala-lang.modules", "org.xerial.snappy", "org.slf4j",
             "com.google.code.findbugs", "at.yawkat.lz4", "org.lz4", "com.github.luben")  # fmt: skip
_SECONDS = 900


@dataclass(frozen=True)
class Artifact:
    """A library as Maven names it. `without` are groups of libraries that it needs and that are there already."""

    group: str
    name: str
    version: str
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def xml(self) -> str:
        excluded = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>*</artifactId></exclusion>" for group in self.without
        )
        return (
            f"<dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version><exclusions>{excluded}</exclusions></dependency>"
        )


def cache() -> Path:
    """Where fetched libraries are kept."""
    chosen = os.environ.get("PENSTOCK_CACHE")
    if chosen:
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"


def broker() -> list[Path]:
    """The jars of a Kafka broker, with a logger that writes to standard error."""
    wanted = [Artifact("org.apache.kafka", "kafka_2.13", BROKER), Artifact("org.slf4j", "slf4j-simple", "1.7.36")]
    return fetched(f"kafka-broker-{BROKER}", wanted)


def connector() -> list[Path]:
    """The jars with which the installed Spark reads Kafka; none where Spark has them itself."""
    spark = _spark_version()
    if _is_in_spark("spark-sql-kafka-0-10"):
        return []
    stand_in, tokens = STAND_INS.get(spark, (spark, spark))
    place, instead = f"spark-kafka-{spark}", f"spark-kafka-{spark}-by-{stand_in}"
    if spark not in STAND_INS or not (cache() / instead).is_dir():
        try:
            return fetched(place, _connector(spark, spark))
        except PenstockError as error:
            if spark not in STAND_INS:
                raise
            try:
                fetched(instead, _connector(stand_in, tokens))
            except PenstockError:
                raise error from None
    _log.warning(
        "Spark's Kafka connector %s could not be fetched; %s, which works with it, is used instead", spark, stand_in
    )
    return fetched(instead, ())


def cached_connector() -> list[Path] | None:
    """The same, if nothing has to be fetched; else None."""
    try:
        spark = _spark_version()
    except PenstockError:
        return None
    if _is_in_spark("spark-sql-kafka-0-10"):
        return []
    stand_in, _ = STAND_INS.get(spark, (spark, spark))
    for place in (f"spark-kafka-{spark}-by-{stand_in}", f"spark-kafka-{spark}"):
        if (cache() / place).is_dir():
            return fetched(place, ())
    return None


def _connector(connector: str, tokens: str) -> list[Artifact]:
    excluded = (*_IN_SPARK, "org.apache.spark")
    return [
        Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", connector, excluded),
        Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", tokens, excluded),
    ]


def _spark_version() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise PenstockError("PySpark is not installed", hint="pip install 'penstock[spark]'") from None


def _is_in_spark(name: str) -> bool:
    spec = find_spec("pyspark")
    home = os.environ.get("SPARK_HOME") or (Path(spec.origin).parent if spec and spec.origin else None)
    return home is not None and any((Path(home) / "jars").glob(f"{name}*.jar"))


def fetched(place: str, artifacts: Sequence[Artifact]) -> list[Path]:
    """The jars of these artifacts and of what they need, from the cache; Maven brings them there first."""
    directory = cache() / place
    if not directory.is_dir():
        _fetch(directory, artifacts)
    return sorted(directory.glob("*.jar"))


def _fetch(directory: Path, artifacts: Sequence[Artifact]) -> None:
    """Fetches into a directory of its own and moves that into place: the cache holds it whole or not at all."""
    names = ", ".join(map(str, artifacts))
    by_hand = f"or put their jars and those that they need into {directory}"
    maven = shutil.which("mvn")
    if maven is None:
        raise PenstockError(
            f"cannot fetch {names}: Maven is not installed", hint=f"install Maven (the command mvn), {by_hand}"
        )
    _log.info("fetching %s", names)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=".fetching-") as scratch:
        pom, jars = Path(scratch, "pom.xml"), Path(scratch, "jars")
        pom.write_text(_POM.format("".join(artifact.xml for artifact in artifacts)))
        command = [maven, "-B", "-q", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime",
                   f"-DoutputDirectory={jars}"]  # fmt: skip
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.SubprocessError as error:
            raise PenstockError(
                f"cannot fetch {names}",
                detail=_told(error),
                hint=f"see that Maven reaches a repository that has them (settings.xml can name a mirror), {by_hand}",
            ) from None
        try:
            os.rename(jars, directory)
        except OSError:
            if not directory.is_dir():  # another process may have been faster
                raise


def _told(error: subprocess.SubprocessError) -> str:
    """The first of Maven's errors."""
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line for line in (error.stdout or "").splitlines() if "ERROR" in line]
        return (lines[0] if lines else str(error.stdout))[:600]
    return str(error)


# Spark's own poms name a mirror that is asked before all others, and that not every network reaches. The nearest
# definition of a repository counts: named here and switched off, it leaves those of the machine's settings.
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>penstock</groupId><artifactId>jars</artifactId><version>1</version>
<repositories><repository><id>gcs-maven-central-mirror</id><url>file:///dev/null</url>
<releases><enabled>false</enabled></releases><snapshots><enabled>false</enabled></snapshots></repository></repositories>
<dependencies>{}</dependencies></project>
"""
