"""Many questions to Spark's state at once: they are sent before the first answer is read.

PySpark asks the JVM for each value by itself and waits for the answer, and most of that is waiting. The JVM answers in
order, so the questions may go ahead of the answers. Only so many do: those sent must fit into the socket's buffers,
while the JVM waits for us to read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState

#: So many questions go ahead of their answers, of so many bytes.
AHEAD: Final = 256
BYTES: Final = 32 << 10
#: Before a request: the version of the protocol, and how long it is.
_HEAD: Final = Struct("!ii")


class Texts:
    """A map of texts by text in Spark's state."""

    def __init__(self, state: MapState) -> None:
        from pyspark.sql.streaming.proto import StateMessage_pb2 as messages

        self._messages: Any = messages
        self._name: str = state._stateName
        self._maps: Any = state._mapStateClient
        self._api: Any = self._maps._stateful_processor_api_client

    def get(self, names: Sequence[str]) -> list[str | None]:
        """The texts under these names, None where there is none."""
        found: list[str | None] = []

        def take(answer: bytes) -> None:
            found.append(str(self._api._deserialize_from_bytes(answer)[0]) if answer else None)

        self._ask((self._call(getValue=self._messages.GetValue(userKey=self._key(name))) for name in names), take)
        return found

    def put(self, texts: Iterable[tuple[str, str | None]]) -> None:
        """Puts texts under names; None takes one away."""
        self._ask((self._change(name, text) for name, text in texts), lambda answer: None)

    def _change(self, name: str, text: str | None) -> bytes:
        if text is None:
            return self._call(removeKey=self._messages.RemoveKey(userKey=self._key(name)))
        value = self._api._serialize_to_bytes(self._maps.value_schema, (text,))
        return self._call(updateValue=self._messages.UpdateValue(userKey=self._key(name), value=value))

    def _key(self, name: str) -> Any:
        return self._api._serialize_to_bytes(self._maps.user_key_schema, (name,))

    def _call(self, **call: Any) -> bytes:
        messages = self._messages
        request = messages.StateVariableRequest(mapStateCall=messages.MapStateCall(stateName=self._name, **call))
        return bytes(messages.StateRequest(stateVariableRequest=request).SerializeToString())

    def _ask(self, requests: Iterator[bytes], take: Callable[[bytes], None]) -> None:
        file = self._api.sockfile
        while ahead := list(_some(requests)):
            for request in ahead:
                file.write(_HEAD.pack(0, len(request)))
                file.write(request)
            file.flush()
            for _ in ahead:
                status, error, answer = self._api._receive_proto_message()
                if status != 0:
                    raise PenstockError(f"Spark's state did not answer: {error}")
                take(answer)


def _some(requests: Iterator[bytes]) -> Iterator[bytes]:
    """The next requests that may go ahead; a long one goes alone, or last."""
    size = 0
    for request in islice(requests, AHEAD):
        yield request
        size += len(request)
        if size >= BYTES:
            return
