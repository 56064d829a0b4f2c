"""What a topology gives to the app: a flow for each stream that leaves it."""

from __future__ import annotations

from penstock.errors import unknown
from penstock.model.stream import Flow, Piped, Stream
from penstock.topology.definition import SIDE, Topology, side_of
from penstock.topology.tuples import DEFAULT


class Flowing(Piped):
    """The rows of a topology's first output as a flow; `stream_of(component, stream)` are those of another."""

    def stream_of(self, component: str, stream: str = DEFAULT) -> Flow:
        """The rows that a bolt emits on a stream that leaves the topology."""
        return _of(self.stream, self.topology, (component, stream))

    @property
    def stream(self) -> Stream:
        """The stream that the rows of all outputs are in."""
        assert isinstance(self.input, Stream)
        return self.input

    @property
    def topology(self) -> Topology:
        (definition,) = self.arguments
        assert isinstance(definition, Topology)
        return definition

    def __repr__(self) -> str:
        return repr(self.output)


def flowing(stream: Stream, topology: Topology) -> Flowing:
    """What a topology gives, by the stream that its rows are in; one without outputs gives no rows."""
    first = _of(stream, topology, topology.outputs[0]) if topology.outputs else stream
    return Flowing(stream, first, stream.name, (topology,))


def _of(stream: Stream, topology: Topology, output: tuple[str, str]) -> Flow:
    if output not in topology.outputs:
        raise unknown("output of the topology", ".".join(output), [".".join(one) for one in topology.outputs])
    if len(topology.outputs) == 1:
        return stream
    side = side_of(output)
    names = topology.output_schema(*output).names
    return stream.where(f"`{SIDE}` = '{side}'").select(**{name: f"`{side}_{name}`" for name in names})
