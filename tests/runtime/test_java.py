"""How Java is started: which of Spark's settings it takes itself, and its archive of classes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cli.early import EarlyJava
from penstock.errors import PenstockError
from penstock.runtime.phases import Phases
from penstock.runtime.spark.class_archive import OFF, ClassArchive
from penstock.runtime.spark.java import Java, JavaSettings, found_java, java_version
from penstock.runtime.spark.starting import SparkStart
from tests.conftest import need_spark

CLASSES = "java/lang/Object\njava/lang/String\njava/util/HashMap\n"


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """An archive of no more than a few classes, in a cache of its own."""
    need_spark()
    monkeypatch.setenv("PENSTOCK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(OFF, raising=False)
    jar = tmp_path / "some.jar"
    jar.write_bytes(b"PK\x05\x06" + bytes(18))  # an empty one
    return replace(ClassArchive.of(found_java(), [str(jar)]), fewest=3)


def recorded(archive: ClassArchive) -> Path:
    """The file into which Java of this process would record."""
    (option,) = archive.options()
    return Path(option.removeprefix("-XX:DumpLoadedClassList="))


def until(is_so: Callable[[], object], seconds: float = 300.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def test_the_first_start_records_and_later_ones_use_the_archive(archive: ClassArchive):
    assert not archive.make(os.getpid())  # nothing is recorded yet
    recorded(archive).write_text(CLASSES)
    assert archive.make(os.getpid())
    until(lambda: archive.path is not None)
    used, share = archive.options()
    command = [archive.program, used, "-Xshare:on", "-cp", *archive.class_path, "-version"]
    subprocess.run(command, check=True, capture_output=True)
    assert share == "-Xshare:auto"
    assert not archive.make(os.getpid())
    assert not list(archive.path.parent.glob("*.new"))  # type: ignore[union-attr]

    # Java does without one that is damaged.
    archive.path.chmod(0o600)  # type: ignore[union-attr]
    archive.path.write_bytes(b"damaged")  # type: ignore[union-attr]
    command = [archive.program, *archive.options(), "-cp", *archive.class_path, "-version"]
    subprocess.run(command, check=True, capture_output=True)


def test_an_archive_that_others_can_write_is_not_used(archive: ClassArchive):
    assert archive.folder is not None
    path = archive.folder / "classes.jsa"
    path.touch(mode=0o600)
    assert archive.path == path
    path.chmod(0o622)
    assert archive.path is None
    path.chmod(0o600)
    archive.folder.chmod(0o777)
    assert archive.path is None


def test_a_list_of_an_app_that_ended_while_it_started_is_too_short(archive: ClassArchive):
    recorded(archive).write_text("java/lang/Object\n")
    assert not archive.make(os.getpid())


def test_another_class_path_has_another_archive(archive: ClassArchive, tmp_path: Path):
    jar = tmp_path / "other.jar"
    jar.touch()
    assert ClassArchive.of(archive.program, [str(jar)]).folder != archive.folder


def test_it_can_be_turned_off(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(OFF, "0")
    none = ClassArchive.of(archive.program, archive.class_path)
    assert none.options() == []
    assert not none.make(os.getpid())


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({"spark.jars.packages": "a:b:1"}, {}),
        ({"spark.driver.extraLibraryPath": "/somewhere"}, {}),
        ({}, {"PYSPARK_SUBMIT_ARGS": "pyspark-shell"}),
        ({}, {"SPARK_HOME": "/somewhere"}),
        ({}, {"SPARK_CONF_DIR": "/somewhere"}),
    ],
)
def test_what_only_the_script_of_spark_understands_is_left_to_it(settings: dict[str, str], environment: dict[str, str]):
    assert JavaSettings.of("local[2]", settings, environment) is None


def test_settings_of_spark_that_matter_to_java():
    given = {
        "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": "-Da=b -Xss4m",
        "spark.driver.extraClassPath": "/a.jar:/b.jar", "spark.sql.ansi.enabled": "true",
    }  # fmt: skip
    assert JavaSettings.of("local[*]", given, {}) == JavaSettings("1g", ("/a.jar", "/b.jar"), ("-Da=b", "-Xss4m"))


@pytest.mark.parametrize(("text", "version"), [('JAVA_VERSION="17.0.15"\n', 17), ('JAVA_VERSION="1.8.0_402"\n', 8)])
def test_the_version_of_java_is_read_from_its_home(tmp_path: Path, text: str, version: int):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    (tmp_path / "release").write_text(f"IMPLEMENTOR=somebody\n{text}")
    assert java_version(str(tmp_path / "bin" / "java")) == version


# early


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> list[Java]:
    """Stands for Java; the ones that were started."""
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_HOME", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    started: list[Java] = []

    def begin(settings: JavaSettings, errors: int | None = None) -> Java:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stderr=errors)
        started.append(Java(process, settings, ClassArchive("java", (), None), True, Path("/nonexistent")))
        return started[-1]

    monkeypatch.setattr(Java, "begin", begin)
    return started


def test_an_app_that_cannot_be_loaded_leaves_neither_java_nor_a_directory(waiting: list[Java], tmp_path: Path):
    directory, file = tmp_path / "state", tmp_path / "app.py"
    file.touch()
    early = EarlyJava(directory, "local[2]", {})
    with pytest.raises(PenstockError), early.begun(file):
        raise PenstockError("the app is wrong")
    (java,) = waiting
    assert java.process.poll() is not None
    assert not directory.exists()


def test_a_directory_with_something_in_it_stays(waiting: list[Java], tmp_path: Path):
    tmp_path.chmod(0o700)
    (tmp_path / "lock").touch()
    with pytest.raises(PenstockError), EarlyJava(tmp_path, "local[2]", {}).begun(None):
        raise PenstockError("the store is in use")
    assert (tmp_path / "lock").exists()


def test_java_waits_where_the_file_is_missing_or_others_read_the_directory(waiting: list[Java], tmp_path: Path):
    with EarlyJava(tmp_path / "state", "local[2]", {}).begun(tmp_path / "missing.py") as java:
        assert java is None
    tmp_path.chmod(0o755)
    with EarlyJava(tmp_path, "local[2]", {}).begun(None) as java:
        assert java is None
    with EarlyJava(tmp_path / "state", "spark://here:7077", {}).begun(None) as java:
        assert java is None
    assert not waiting
    assert not (tmp_path / "state").exists()


def test_a_session_is_made_while_the_app_is_loaded_unless_the_app_decides_about_it(
    waiting: list[Java], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def made(name: str, *, java: Java, **_: object) -> None:
        raise PenstockError(f"the session '{name}' in {'this' if java is waiting[0] else 'another'} Java")

    monkeypatch.setattr("penstock.runtime.spark.session.spark_session", made)
    plain, own = tmp_path / "shop.py", tmp_path / "own.py"
    plain.write_text("import penstock as ps\n")
    own.write_text("from pyspark.sql import SparkSession\n")
    early, phases = EarlyJava(tmp_path / "state", "local[2]", {}), Phases()
    with early.begun(plain) as java:
        assert java is not None
        for name, shown in ((None, "shop"), ("till", "till")):
            start = early.session(java, plain, name, phases)
            assert start is not None
            with pytest.raises(PenstockError, match=f"the session '{shown}' in this Java"):
                start.session()
        assert [span.name for span in phases.spans] == ["starting Spark"]
        assert early.session(java, own, None, phases) is None
        assert early.session(replace(java, has_kafka=False), plain, None, phases) is None
        java.close()


def test_what_fails_while_spark_starts_is_raised_where_it_is_needed():
    def fails() -> None:
        raise PenstockError("there is no Java")

    start = SparkStart(fails)  # type: ignore[arg-type]
    with pytest.raises(PenstockError, match="there is no Java"):
        start.session()


# workers


def test_workers_that_are_forked_after_the_kernel_was_loaded_compute():
    code = """
import os, sys
from penstock.runtime.spark.daemon import load
load()
assert "penstock.runtime.epoch.task" in sys.modules and "polars" in sys.modules
children = []
for _ in range(4):
    if (child := os.fork()) == 0:
        import polars as pl
        frame = pl.DataFrame({"k": [n % 100 for n in range(200_000)], "v": range(200_000)})
        summed = frame.lazy().group_by("k").agg(pl.col("v").sum()).sort("k").collect()
        joined = frame.join(summed, on="k").sort("v", descending=True)
        os._exit(0 if (joined.height, summed["v"].sum()) == (200_000, 19_999_900_000) else 1)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
