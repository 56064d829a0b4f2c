"""What a run answers: its views, the state of processors, models, and how far followers are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from penstock.dataflow.operators import operator_of
from penstock.dataflow.process_operator import ProcessOperator
from penstock.errors import unknown
from penstock.kernel.operators.process import CELLS
from penstock.kernel.operators.process_state import state_table
from penstock.learning.stored import StoredModel, load
from penstock.model.stream import Stream
from penstock.model.time import Instant
from penstock.runtime.derived.base import Derived, derived
from penstock.runtime.derived.epochs import EpochsSource, is_reported
from penstock.runtime.derived.followers import Followers, following, own, wait_for
from penstock.runtime.derived.learning.source import LearnerSource
from penstock.runtime.errors import RunError
from penstock.runtime.run_view import Parameters, RunView, polars_frame, run_html
from penstock.runtime.workspace import Workspace
from penstock.state.operator_state import SegmentRows

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = ["Inspection", "Model", "Parameters", "RunView", "run_html"]

#: A model as it is stored.
Model: TypeAlias = StoredModel
#: Answers a SELECT with parameters.
Ask: TypeAlias = "Callable[[str, Parameters], pa.Table]"


class Inspection:
    """Answers for a run. `check` sleeps for some seconds, and raises why the run failed. `ask` answers a SELECT."""

    def __init__(
        self,
        workspace: Workspace,
        streams: Callable[[], Mapping[str, Stream]],
        check: Callable[[float], object],
        ask: Ask | None,
    ) -> None:
        self._workspace, self._store, self._streams, self._check = workspace, workspace.store, streams, check
        self._asks = ask

    def view(self, name: str) -> RunView:
        """A view by its name."""
        return RunView(name, self._ask)

    def query(self, sql: str, parameters: Parameters) -> pl.DataFrame:
        """The answer to a SELECT over the views."""
        return polars_frame(self._ask(sql, parameters))

    def _ask(self, sql: str, parameters: Parameters = ()) -> pa.Table:
        if self._asks is None:
            raise RunError("this run answers no queries", hint="app.start(…) starts one that does")
        return self._asks(sql, parameters)

    def processor_state(self, stream: str, now: Instant) -> pl.DataFrame:
        """What each key of the processor behind a stream has now: its states and timers, as of its last epoch."""
        self._source(stream)
        operator = operator_of(self._streams()[stream])
        if not isinstance(operator, ProcessOperator):
            raise RunError(f"the stream '{stream}' is not what a processor gives", hint="make it with app.process(…)")
        state, kinds = self._store.operators.of(stream), self._store.operators.kinds(stream)
        return state_table(operator.process, SegmentRows(state, kinds[CELLS]).all(), now)

    def model(self, stream: str, version: int | None = None) -> Model:
        """The model behind a stream: as it is whenever it is asked, or one of the versions that are kept."""
        source = self._source(stream)
        if not isinstance(source, LearnerSource):
            raise RunError(f"the stream '{stream}' is not what a model predicts", hint="make it with app.learn(…)")
        return load(self._workspace.directory, stream, version, learning=source.learning)

    def wait_for_epoch(self, stream: str, number: int, seconds: float) -> None:
        """Waits until the function of `app.on_epoch` was called for an epoch."""
        if not isinstance(self._source(stream), EpochsSource):
            raise RunError(f"the stream '{stream}' records no epochs", hint="make it with app.on_epoch(…)")
        wait_for(
            lambda: is_reported(self._store, stream, number), seconds,
            f"the epoch {number} of '{stream}' is not over", self._check,
        )  # fmt: skip

    def wait_through(self, stream: str, commit: int, seconds: float) -> None:
        """Waits until all that is made from a stream has read its commits up to one, and is committed too."""
        self._source(stream)
        streams = self._streams()
        behind = following(streams, streams[stream], EpochsSource)
        last = own(self._store, stream, commit)
        wait_for(
            lambda: Followers(self._store, last, behind).done(stream, last) is not None,
            seconds, f"not all that is made from '{stream}' has read the commit {last}", self._check,
        )  # fmt: skip

    def _source(self, stream: str) -> Derived | None:
        streams = self._streams()
        if stream not in streams:
            raise unknown("stream", stream, streams)
        return derived(streams[stream])
