"""The bodies of answers, for the OpenAPI document: what clients can count on."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from penstock.serve.shown import ARROW, CSV, JSON


class Error(BaseModel):
    """What was wrong, and what to do."""

    error: str
    detail: str | None = None
    hint: str | None = None


class Status(BaseModel):
    status: str


class Column(BaseModel):
    name: str
    type: str = Field(description="In Spark's words: bigint, decimal(10,2), timestamp, array<string>, …")


class View(BaseModel):
    name: str
    keys: list[str]
    columns: list[Column]
    watermark: str | int | None
    active: bool
    definition: str


class Stream(BaseModel):
    name: str
    columns: list[Column]
    keep: str | None
    watermark: str | int | None
    counters: dict[str, int]
    ingest: bool = Field(description="Whether it takes events over HTTP.")


class Sink(BaseModel):
    name: str
    position: int = Field(description="The last pane that it has.")
    newest: int = Field(description="The newest pane of the store.")


class Alert(BaseModel):
    name: str
    view: str = Field(description="The view that it watches.")
    when: str = Field(description="The condition.")
    firing: int = Field(description="For how many keys it fires.")
    rows: list[dict[str, Any]] = Field(description="Its keys: those that fire first, then the newest changes.")


class Rows(BaseModel):
    """Rows of a view, a page of them."""

    columns: list[Column]
    rows: list[dict[str, Any]]
    next: str | None = Field(description="The cursor of the next page; null on the last one.")
    commit: int = Field(description="The commit that the rows are of.")


class Answer(BaseModel):
    columns: list[Column]
    rows: list[dict[str, Any]]
    more: bool = Field(description="Whether there are more rows than the limit.")
    commit: int


class ModelVersion(BaseModel):
    number: int
    rows: int = Field(description="From how many rows it was learned.")
    at: str


class Model(BaseModel):
    """A model that learns, by the name of its stream."""

    name: str
    version: int = Field(description="The newest version.")
    parts: list[str] = Field(description="The keyed parts.")
    versions: list[ModelVersion] = Field(description="Those that are kept.")


class KeyRow(BaseModel):
    key: str
    values: Any = Field(description="A number, or lists of numbers.")


class ModelRows(BaseModel):
    version: int
    rows: list[KeyRow]


class Query(BaseModel):
    """A SELECT over views. Parameters stand as :name or ? in the text."""

    model_config = ConfigDict(extra="forbid", strict=True)

    sql: str = Field(min_length=1, max_length=100_000, examples=["SELECT 1 AS one"])
    parameters: dict[str, str | int | float | bool | None] | list[str | int | float | bool | None] = Field(default={})
    limit: int | None = Field(default=None, ge=1, description="The largest number of rows to return.")


class IngestResult(BaseModel):
    """Events are durable. The token stands for them in ?after=."""

    token: str
    accepted: int
    malformed: int = Field(description="How many of them do not fit, and become dead letters.")
    repeated: bool = Field(description="Whether the idempotency key was known: then nothing was written.")


_BYTES = {"type": "string", "format": "binary"}
ROWS_OF: dict[str, Any] = {CSV: {"schema": {"type": "string"}}, ARROW: {"schema": _BYTES}}

_TEXTS = {
    400: "Not a request", 401: "A token is needed", 403: "Not allowed", 404: "There is no such thing",
    406: "No such form", 408: "Too slow", 409: "The idempotency key was used with another body",
    410: "The panes are gone", 413: "Too large", 415: "No such media type", 421: "Not the host that was asked for",
    422: "Not understood", 429: "Too many requests",
    431: "The head is too large", 500: "The server failed", 503: "Not now: try again",
    504: "Not in time",
}  # fmt: skip


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors that a path may answer with, besides those of all."""
    everywhere = (400, 401, 403, 421, 429, 431, 503)
    return {
        status: {"model": Error, "description": _TEXTS[status], "content": {JSON: {}}}
        for status in sorted({*everywhere, *statuses})
    }
