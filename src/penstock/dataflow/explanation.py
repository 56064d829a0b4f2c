"""The explanation of a dataflow: text, and in a notebook its picture too."""

from __future__ import annotations

import base64
import html

from penstock.dataflow.drawing import draw
from penstock.dataflow.graph import Graph


class Explanation(str):
    """The text of a graph. A notebook shows the picture above it."""

    _graph: Graph

    def __new__(cls, graph: Graph) -> Explanation:
        made = super().__new__(cls, graph.text())
        made._graph = graph
        return made

    def _repr_html_(self) -> str:
        # As an image: the styles of a drawing inside the page would be those of the whole page.
        picture = base64.b64encode(draw(self._graph).encode()).decode()
        title = html.escape(f"dataflow of {self._graph.app}")
        return f'<img alt="{title}" src="data:image/svg+xml;base64,{picture}"><pre>{html.escape(self)}</pre>'
