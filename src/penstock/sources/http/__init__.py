"""Events that are posted over HTTP."""

from penstock.sources.http.source import Http, http

__all__ = ["Http", "http"]
