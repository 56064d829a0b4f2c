"""Penstock: live, correct, queryable views over event streams, in Python on Spark.

>>> import penstock as ps
>>> visits = ps.stream("visits", schema="page string, user string, at timestamp", event_time="at",
...                    watermark=ps.bounded("10 seconds"))
>>> by_page = visits.group_by("page").window(ps.fixed("1 minute")).agg(views=ps.count())
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.lazy import lazy

if TYPE_CHECKING:
    from penstock.app import App
    from penstock.client import connect
    from penstock.errors import DefinitionError, PenstockError
    from penstock.learning import Model
    from penstock.model.aggregates import (
        approx_distinct,
        avg,
        collect_list,
        collect_set,
        count,
        count_distinct,
        first,
        heavy_hitters,
        last,
        max,
        max_by,
        min,
        min_by,
        monoid,
        quantile,
        second_moment,
        stddev,
        stddev_pop,
        sum,
        top,
        var_pop,
        variance,
    )
    from penstock.model.counters import counter
    from penstock.model.epochs import epochs
    from penstock.model.expressions import Expression, col, expr, fn, lit, when
    from penstock.model.loops import FrameLoop, Loop
    from penstock.model.patterns import pattern
    from penstock.model.processor import Processor, Timer
    from penstock.model.state import list_of, map_of, value
    from penstock.model.stream import Stream, stream
    from penstock.model.table import Table, table
    from penstock.model.triggers import (
        after_completeness,
        after_count,
        after_delay,
        all_of,
        any_of,
        each,
        every,
        in_turn,
        never,
        on_close,
        on_time,
        repeatedly,
    )
    from penstock.model.view import View
    from penstock.model.watermarks import bounded, percentile, punctuated
    from penstock.model.windows import (
        calendar,
        count_window,
        cumulating,
        custom,
        custom_merging,
        fixed,
        global_window,
        session,
        sliding,
        window_of,
    )
    from penstock.runtime.derived.loops.components import connected_components
    from penstock.runtime.derived.loops.paths import shortest_paths
    from penstock.runtime.run import Run
    from penstock.sinks import (
        to_console,
        to_function,
        to_http,
        to_jdbc,
        to_jsonl,
        to_kafka,
        to_parquet,
        to_postgres,
    )
    from penstock.sources import files, generator, http, kafka, socket
    from penstock.sources.database import database
    from penstock.topology import BasicBolt, Bolt, FailedTuple, Spout, StatefulBolt, TopologyBuilder

#: Processes that Spark starts for a moment load next to nothing.
__getattr__ = lazy(
    __name__,
    {
        "app": "App",
        "client": "connect",
        "runtime.run": "Run",
        "runtime.derived.loops.components": "connected_components",
        "runtime.derived.loops.paths": "shortest_paths",
        "errors": "DefinitionError PenstockError",
        "learning": "Model",
        "sources": "files generator http kafka socket",
        "sources.database": "database",
        "model.aggregates": "approx_distinct avg collect_list collect_set count count_distinct first heavy_hitters "
        "last max max_by min min_by monoid quantile second_moment stddev stddev_pop sum top "
        "var_pop variance",
        "model.counters": "counter",
        "model.epochs": "epochs",
        "model.expressions": "Expression col expr fn lit when",
        "model.loops": "FrameLoop Loop",
        "model.patterns": "pattern",
        "model.processor": "Processor Timer",
        "model.state": "list_of map_of value",
        "model.stream": "Stream stream",
        "model.table": "Table table",
        "model.triggers": "after_completeness after_count after_delay all_of any_of each every in_turn never "
        "on_close on_time repeatedly",
        "model.view": "View",
        "model.watermarks": "bounded percentile punctuated",
        "model.windows": "calendar count_window cumulating custom custom_merging fixed global_window session "
        "sliding window_of",
        "sinks": "to_console to_function to_http to_jdbc to_jsonl to_kafka to_parquet to_postgres",
        "topology": "BasicBolt Bolt FailedTuple Spout StatefulBolt TopologyBuilder",
    },
)

__all__ = [
    "App",
    "BasicBolt",
    "Bolt",
    "DefinitionError",
    "Expression",
    "FailedTuple",
    "FrameLoop",
    "Loop",
    "Model",
    "PenstockError",
    "Processor",
    "Run",
    "Spout",
    "StatefulBolt",
    "Stream",
    "Table",
    "Timer",
    "TopologyBuilder",
    "View",
    "after_completeness",
    "after_count",
    "after_delay",
    "all_of",
    "any_of",
    "approx_distinct",
    "avg",
    "bounded",
    "calendar",
    "col",
    "collect_list",
    "collect_set",
    "connect",
    "connected_components",
    "count",
    "count_distinct",
    "count_window",
    "counter",
    "cumulating",
    "custom",
    "custom_merging",
    "database",
    "each",
    "epochs",
    "every",
    "expr",
    "files",
    "first",
    "fixed",
    "fn",
    "generator",
    "global_window",
    "heavy_hitters",
    "http",
    "in_turn",
    "kafka",
    "last",
    "list_of",
    "lit",
    "map_of",
    "max",
    "max_by",
    "min",
    "min_by",
    "monoid",
    "never",
    "on_close",
    "on_time",
    "pattern",
    "percentile",
    "punctuated",
    "quantile",
    "repeatedly",
    "second_moment",
    "session",
    "shortest_paths",
    "sliding",
    "socket",
    "stddev",
    "stddev_pop",
    "stream",
    "sum",
    "table",
    "to_console",
    "to_function",
    "to_http",
    "to_jdbc",
    "to_jsonl",
    "to_kafka",
    "to_parquet",
    "to_postgres",
    "top",
    "value",
    "var_pop",
    "variance",
    "when",
    "window_of",
]


def __dir__() -> list[str]:
    return __all__
