"""Streams that the spouts and bolts of a topology make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from penstock.model.stream import stream
from penstock.model.watermarks import Watermark
from penstock.runtime.derived.topologies.source import TopologySource
from penstock.topology.builder import TopologyBuilder
from penstock.topology.definition import Guarantee
from penstock.topology.streams import Flowing, flowing


def topology_stream(
    name: str,
    builder: TopologyBuilder,
    *,
    outputs: str | Sequence[str | tuple[str, str]] | None = None,
    guarantee: Guarantee = "at_least_once",
    timeout: str | timedelta = "30 seconds",
    tries: int = 3,
    max_pending: int = 100_000,
    options: Mapping[str, object] | None = None,
    event_time: str | None = None,
    watermark: Watermark | None = None,
    max_ahead: str | timedelta | None = "1 day",
    keep: str | timedelta | None = None,
) -> Flowing:
    """A stream of this name with the output of a topology of spouts and bolts.

    `outputs` are the bolts, or (bolt, stream), whose rows leave the topology: where none are named, those that no
    bolt takes. A message is a dead letter after `tries` tries, and has failed when its tree is not complete after
    `timeout`. `options` come to the components in their context. `event_time` and `watermark` are of the rows.
    """
    topology = builder.build(
        name, outputs=outputs, guarantee=guarantee, timeout=timeout, tries=tries, max_pending=max_pending,
        options=options,
    )  # fmt: skip
    made = stream(
        name, TopologySource(topology), schema=topology.schema, event_time=event_time, watermark=watermark,
        max_ahead=max_ahead, keep=keep,
    )  # fmt: skip
    return flowing(made, topology)
