"""Runs what is made from streams over a script, without Spark: processors, models, topologies, joins and loops."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import DefinitionError
from penstock.model.join import join_behind
from penstock.model.join_played import JoinRun, join_played
from penstock.model.loops import Iteration
from penstock.model.played import ProcessRun, played
from penstock.model.process import Processed, process_of
from penstock.model.processor import Processor
from penstock.model.side_tables import Rows
from penstock.model.stream import Flow, Stream
from penstock.model.table import Table
from penstock.model.time import duration
from penstock.testing.script import TestStream, check_script

if TYPE_CHECKING:
    from penstock.learning.played import LearningRun
    from penstock.runtime.derived.loops.local import LoopRun
    from penstock.topology.builder import TopologyBuilder
    from penstock.topology.local import TopologyRun
    from penstock.topology.streams import Flowing


def process(
    processor: type[Processor] | Processed,
    script: TestStream,
    *,
    by: str | Sequence[str] = (),
    of: Flow | None = None,
    allow_late: str | timedelta = "0 seconds",
    tables: Sequence[Table] = (),
    initial: Rows | None = None,
) -> ProcessRun:
    """Runs a processor over a script, without Spark: its class, with its keys, or what `app.process` gave.

    `of` is the flow that it reads; without it, the one stream of the script. `tables` are those that its code looks
    things up in, and `initial` the rows that keys begin with.
    """
    check_script(script)
    if isinstance(processor, Processed):
        return played(processor.process, script.commits())
    keys = (by,) if isinstance(by, str) else tuple(by)
    flow = of if of is not None else script.stream_of(None)
    process = process_of(flow, processor, keys, duration(allow_late), tables=tables, initial=initial)
    return played(process, script.commits())


def learn(learned: Stream, script: TestStream | Path | str) -> LearningRun:
    """Runs a model, as `app.learn` gave its stream, without Spark: over a script, of which each commit is an epoch.

    Or over the directory of an app that ran: again over what the history has, in the epochs that were recorded.
    """
    from penstock.learning.played import learned as learned_of

    learning = getattr(learned.log, "learning", None)
    if learning is None:
        raise DefinitionError(f"'{learned.name}' is not a model's stream", hint="give what app.learn(…) returned")
    if isinstance(script, TestStream):
        return learned_of(learning, script.commits())
    from penstock.runtime.derived.learning.again import learned_again

    return learned_again(learning, learned.name, Path(script))


def run_topology(
    topology: TopologyBuilder | Flowing, script: TestStream | None = None, *, settle: bool = True, **options: Any
) -> TopologyRun:
    """Runs a topology without Spark, one task at a time: what `app.topology` gave, or a builder with its options.

    A commit of the script is an epoch. With `settle` epochs follow until no tree is open.
    """
    from penstock.topology.builder import TopologyBuilder
    from penstock.topology.local import play

    built = topology.build("topology", **options) if isinstance(topology, TopologyBuilder) else topology.topology
    return play(built, (script or TestStream().clock("+0 seconds")).commits(), settle=settle)


def join(joined: Stream, script: TestStream) -> JoinRun:
    """Runs a join of streams, as `app.join` gave it, over a script, without Spark."""
    check_script(script)
    definition = join_behind(joined)
    if definition is None:
        raise DefinitionError(f"'{joined.name}' is not a join of streams", hint="give what app.join(…) returned")
    return join_played(definition, script.commits())


def iterate(loop: Stream, script: TestStream) -> LoopRun:
    """Runs a loop, as `app.iterate` gave it, over a script, without Spark."""
    from penstock.runtime.derived.loops.local import played as loop_played

    iteration = getattr(loop.log, "iteration", None)
    if not isinstance(iteration, Iteration):
        raise DefinitionError(f"'{loop.name}' is not a loop", hint="give what app.iterate(…) returned")
    check_script(script)
    return loop_played(iteration, script.commits())
