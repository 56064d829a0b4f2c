"""Tasks of Spark's fail when they have written segments: the epoch is done again, and their files do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.audit import made_up
from tests.faults.segments import SIZE, FailingJob, SegmentApp


def test_an_epoch_whose_tasks_fail_after_their_files_is_done_again(spark, tmp_path: Path):
    app = SegmentApp(tmp_path / "app", made_up(2 * SIZE)[: 2 * SIZE], spark)
    app.epoch(0)
    app.store.known_ids.shard("events", 4)
    run = app.shards.run
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app.shards, "run", lambda job: run(FailingJob(job, str(tmp_path))))  # type: ignore[arg-type]
        for failing in ("IdShardJob", "ShardJob"):
            with pytest.raises(Exception, match=f"Fault: {failing}"):
                app.epoch(1)
        app.epoch(1)
    assert app.files() > app.listed(), "they have left their files"
    app.check()
