"""Where the parts of definitions have moved: pickled definitions in stores of earlier versions name the old places.

>>> moved("penstock.engine.join_log", "JoinLog"), moved("builtins", "set")
(('penstock.dataflow.join_operator', 'JoinOperator'), ('builtins', 'set'))
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

_HOME: Final = "penstock."
_MODULES: Final = {
    "logs.base": "sources.base",
    "logs.database": "sources.database",
    "logs.files": "sources.files.source",
    "logs.generator": "sources.generator",
    "logs.http": "sources.http.source",
    "logs.kafka": "sources.kafka.source",
    "logs.socket": "sources.socket",
    "logs.ticks": "sources.ticks",
    "logs.whole": "sources.files.whole",
    "engine.derived": "runtime.derived.base",
    "engine.epochs": "runtime.derived.epochs",
    "engine.join_log": "dataflow.join_operator",
    "runtime.derived.joins.source": "dataflow.join_operator",
    "engine.learn_log": "runtime.derived.learning.source",
    "engine.loop_components": "runtime.derived.loops.components",
    "engine.loop_frames": "runtime.derived.loops.frames",
    "engine.loop_graphs": "runtime.derived.loops.graphs",
    "engine.loop_keys": "runtime.derived.loops.keys",
    "engine.loop_local": "runtime.derived.loops.local",
    "engine.loop_machine": "runtime.derived.loops.machine",
    "engine.loop_paths": "runtime.derived.loops.paths",
    "engine.loop_log": "runtime.derived.loops.source",
    "engine.process_log": "dataflow.process_operator",
    "runtime.derived.processors.source": "dataflow.process_operator",
    "engine.topology_log": "runtime.derived.topologies.source",
    "engine.table_frame": "runtime.tables.frame",
    "engine.table_read": "runtime.tables.read",
    "engine.tables": "runtime.tables.tables",
}
_NAMES: Final = {
    "Log": "Source", "EpochsLog": "EpochsSource", "JoinLog": "JoinOperator", "JoinSource": "JoinOperator",
    "LearnLog": "LearnerSource", "LoopLog": "LoopSource", "ProcessLog": "ProcessOperator",
    "ProcessorSource": "ProcessOperator", "TopologyLog": "TopologySource",
}  # fmt: skip


def moved(module: str, name: str) -> tuple[str, str]:
    """The module and the name that something has now."""
    if not module.startswith(_HOME) or (place := _MODULES.get(module.removeprefix(_HOME))) is None:
        return module, name
    return _HOME + place, _NAMES.get(name, name)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(*moved(module, name))


def unpickled(data: bytes) -> Any:
    """The value of pickled bytes that may name old places. Like `pickle.loads` it runs the code that they name."""
    return _Unpickler(io.BytesIO(data)).load()
