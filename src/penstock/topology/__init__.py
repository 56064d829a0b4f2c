"""Topologies: spouts and bolts joined by groupings, with acks, on the commits of Penstock."""

from __future__ import annotations

from penstock.topology.builder import TopologyBuilder
from penstock.topology.components import BasicBolt, Bolt, Context, FailedTuple, Spout, StatefulBolt
from penstock.topology.tuples import Tuple

__all__ = ["BasicBolt", "Bolt", "Context", "FailedTuple", "Spout", "StatefulBolt", "TopologyBuilder", "Tuple"]
