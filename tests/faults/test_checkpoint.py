"""Torn checkpoints: files that are empty, cut off or missing, as a power cut or a full disk leaves them.

What the store knows is written again, what it has not committed is cut anew; the rest is refused with its name.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.runtime.errors import RunError
from penstock.runtime.spark.checkpoints import repair
from tests.faults.support import Rig

pytestmark = pytest.mark.xdist_group("kafka")


def newest(folder: Path, back: int = 0) -> Path:
    return folder / str(sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())[-1 - back])


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def unfinished(checkpoint: Path) -> None:
    """The offsets of an epoch that was announced and not committed, torn."""
    last = newest(checkpoint / "offsets")
    made = last.with_name(str(int(last.name) + 1))
    made.write_bytes(last.read_bytes())
    halve(made)


def power_cut(checkpoint: Path) -> None:
    """What Spark wrote last is not there, and what it wrote before is empty."""
    remove(newest(checkpoint / "commits"))
    remove(newest(checkpoint / "offsets"))
    empty(newest(checkpoint / "offsets"))
    empty(checkpoint / "metadata")


def leftovers(checkpoint: Path) -> None:
    for folder in ("offsets", "commits", "sources/0"):
        (checkpoint / folder / ".7.0f5b.tmp").write_text("v1\n{")


#: What is torn, and what is said about it.
TEARS: dict[str, tuple[Callable[[Path], None], str]] = {
    "the newest offsets are cut off": (lambda c: halve(newest(c / "offsets")), "written again from the store"),
    "the newest offsets are empty": (lambda c: empty(newest(c / "offsets")), "written again from the store"),
    "the offsets before are empty": (lambda c: empty(newest(c / "offsets", 1)), "written again from the store"),
    "the newest mark is empty": (lambda c: empty(newest(c / "commits")), "is taken away"),
    "all marks are missing": (lambda c: [remove(c / "commits" / p.name) for p in (c / "commits").glob("[0-9]*")], ""),
    "the query's id is cut off": (lambda c: halve(c / "metadata"), "metadata is written again from the store"),
    "offsets that were not committed are cut off": (unfinished, "is taken away"),
    "temporary files were left": (leftovers, ""),
    "the power was cut": (power_cut, "written again from the store"),
}


def test_torn_files_are_mended_and_the_app_goes_on(spark, tmp_path, caplog):
    with Rig(spark, tmp_path, events=(len(TEARS) + 3) * 30) as rig:
        rig.start()
        for _ in range(3):
            rig.write(30)
        rig.current()
        checkpoint = rig.state / "checkpoints" / "events"
        for name, (tear, said) in TEARS.items():
            rig.stop()
            caplog.clear()
            tear(checkpoint)
            rig.start()
            told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
            assert any(said in line for line in told) if said else not told, (name, told)
            rig.write(30)
            rig.current()
        rig.audit()


def test_what_only_spark_knew_is_refused_by_its_name(spark, tmp_path):
    with Rig(spark, tmp_path) as rig:
        run = rig.start()
        for _ in range(3):
            rig.write(30)
        rig.current()
        run.catch_up()  # Spark has noted the last epoch too
        rig.stop()
        checkpoint = rig.state / "checkpoints" / "events"
        listed = checkpoint / "sources" / "0" / "1"
        whole = listed.read_bytes()
        for tear in (empty, halve, lambda path: path.unlink()):
            tear(listed)
            with pytest.raises(RunError, match="of the stream 'events' is damaged: sources/0/1") as error:
                rig.start()
            assert "restore a savepoint" in str(error.value)
            listed.write_bytes(whole)
        mark = newest(checkpoint / "commits")
        ahead = mark.with_name(str(int(mark.name) + 1))
        empty(ahead)
        with pytest.raises(RunError, match="the store is behind Spark's log of the stream 'events'"):
            rig.start()
        ahead.unlink()
        rig.start()
        rig.write(30)
        rig.current()
        rig.audit()


def test_a_file_that_was_listed_and_not_committed_is_listed_anew(spark, tmp_path):
    with Rig(spark, tmp_path) as rig:
        run = rig.start()
        rig.write(30)
        rig.current()
        run.groups.of("events").engine.epoch = _fails  # type: ignore[method-assign]
        rig.write(30)
        with pytest.raises(ZeroDivisionError):
            rig.current()
        rig.stop()
        checkpoint = rig.state / "checkpoints" / "events"
        halve(newest(checkpoint / "sources" / "0"))
        rig.start()
        rig.write(30)
        rig.current()
        rig.audit()


def _fails(*_: object) -> None:
    raise ZeroDivisionError


def test_a_checkpoint_from_before_the_first_commit_begins_anew(tmp_path):
    class Nothing:
        def query(self, *_: object):
            import polars as pl

            return pl.DataFrame()

        def counters(self) -> dict[str, int]:
            return {}

    checkpoint = tmp_path / "events"
    (checkpoint / "offsets").mkdir(parents=True)
    empty(checkpoint / "metadata")
    empty(checkpoint / "offsets" / "0")
    repair("events", checkpoint, Nothing())  # type: ignore[arg-type]
    assert not checkpoint.exists()
