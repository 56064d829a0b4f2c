"""Expressions on columns: what the model evaluates row by row, Polars evaluates at once.

>>> import polars as pl
>>> from penstock.model.expressions import bind
>>> from penstock.model.types import Schema
>>> both = compile(bind("10 div price", Schema.parse("price int")))
>>> pl.select(price=pl.Series([3, 0, None], dtype=pl.Int32)).select(both.value, error=both.error).rows()
[(3, None), (None, 'division by zero'), (None, None)]
"""

from penstock.kernel.expressions.compile import Compiled, compile
from penstock.kernel.expressions.dtypes import dtype, entries, is_of_kernel

__all__ = ["Compiled", "compile", "dtype", "entries", "is_of_kernel"]
