"""All of Nexmark's queries as one app, over the files that events.py writes into the directory where it runs.

python examples/nexmark/events.py /tmp/nexmark --disorder 200
HERE=$PWD; cd /tmp/nexmark; penstock run $HERE/examples/nexmark/app.py --until-caught-up
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import penstock as ps
from examples.nexmark import joins, queries
from penstock.model.stream import Flow


def nexmark(directory: Path, files_per_epoch: int | None = None) -> tuple[ps.App, dict[str, Flow]]:
    """The app with all views, and the queries that give rows."""
    made = ps.App("nexmark")
    streams = queries.streams(made, lambda name: ps.files(directory / name, files_per_epoch=files_per_epoch))
    joins.side_input(streams, ps.files(directory / "side_input"))
    flows = {name: query(streams) for name, query in {**queries.ROWS, **joins.ROWS}.items()}
    for query in {**queries.VIEWS, **joins.VIEWS}.values():
        query(streams)
    return made, flows


app, rows = nexmark(Path())
for name, flow in rows.items():
    app.sink(flow, ps.to_parquet(f"out/{name}") if name == "q10" else ps.to_jsonl(f"out/{name}"), name=name)
