"""What defines derived streams: models, loops, topologies, and functions that are called after epochs."""

from penstock.runtime.derived.epochs import epoch_stream
from penstock.runtime.derived.learning.definition import model_stream
from penstock.runtime.derived.loops.definition import loop_stream
from penstock.runtime.derived.topologies.definition import topology_stream

__all__ = ["epoch_stream", "loop_stream", "model_stream", "topology_stream"]
