"""The routes of models: their versions, and the values of keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from pydantic import Field

from penstock.errors import DefinitionError
from penstock.learning.stored import StoredModel, models
from penstock.serve import bodies
from penstock.serve.bodies import errors
from penstock.serve.errors import Answered
from penstock.serve.routes import only, service_of
from penstock.serve.views import not_there
from penstock.store import Reader

router = APIRouter(prefix="/api/v1/models", tags=["models"])

Version = Annotated[int | None, Query(ge=0, lt=1 << 53, description="One that is kept; else the newest.")]
Key = Annotated[str, Field(max_length=1000)]
Keys = Annotated[list[Key], Query(min_length=1, max_length=100, description="Keys of the part.")]
_Found = TypeVar("_Found")


@router.get("", response_model=list[bodies.Model], responses=errors())
async def list_models(request: Request) -> Any:
    """All models, with the versions that are kept."""
    only(request)
    return await _asked(request, lambda reader: [_body(reader, name) for name in models(reader)])


@router.get("/{name}", response_model=bodies.Model, responses=errors(404, 422))
async def describe_model(request: Request, name: str) -> Any:
    """A model: its versions, and from how many rows each has learned."""
    only(request)
    return await _asked(request, lambda reader: _body(reader, _known(reader, name)))


@router.get("/{name}/{part}", response_model=bodies.ModelRows, responses=errors(404, 422))
async def look_up_keys(request: Request, name: str, part: str, key: Keys, version: Version = None) -> Any:
    """The values of keys in a keyed part of a model: `?key=ann&key=bob`. Keys that it never learned are left out."""
    only(request, "key", "version")

    def find(reader: Reader) -> dict[str, Any]:
        number = StoredModel(reader, _known(reader, name)).version if version is None else version
        try:
            rows = StoredModel(reader, name, version=number).rows_of(part, key)
        except DefinitionError as error:
            raise Answered(404, error.message, detail=error.detail, hint=error.hint) from None
        return {"version": number, "rows": [{"key": one, "values": row.tolist()} for one, row in rows.items()]}

    return await _asked(request, find)


async def _asked(request: Request, ask: Callable[[Reader], _Found]) -> _Found:
    """An answer of the store; the others do not wait for it."""

    def answer() -> _Found:
        reader = Reader(service_of(request).directory)
        try:
            return ask(reader)
        finally:
            reader.close()

    return await asyncio.to_thread(answer)


def _known(reader: Reader, name: str) -> str:
    known = models(reader)
    if name not in known:
        raise not_there("model", name, known)
    return name


def _body(reader: Reader, name: str) -> dict[str, Any]:
    stored = StoredModel(reader, name)
    kept = [{"number": one.number, "rows": one.rows, "at": one.at.isoformat()} for one in stored.versions]
    return {"name": name, "version": stored.version, "parts": stored.parts, "versions": kept}
