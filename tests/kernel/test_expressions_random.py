"""Random expressions on random rows: the kernel gives what the model gives, value by value and failure by failure."""

from __future__ import annotations

import os
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.model.expressions import bind
from tests.kernel.test_expressions_support import (
    SCHEMA,
    equal,
    kernel_answers,
    model_answer,
    random_rows,
    random_typed_expression,
    to_frame,
)

EXAMPLES = 5_000 if os.environ.get("PENSTOCK_DEEP") == "1" else 200


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 40))
def test_the_kernel_agrees_with_the_model(random: Random, count: int) -> None:
    text = random_typed_expression(random)
    bound = bind(text, SCHEMA)
    assert bound.outside is None, text
    rows = random_rows(random, count)
    for row, of_kernel in zip(rows, kernel_answers(bound, to_frame(rows)), strict=True):
        of_model = model_answer(bound, row)
        inputs = {name: row[name] for name in sorted(bound.columns)}
        assert equal(of_model, of_kernel), f"{bound.text} on {inputs}: model {of_model!r}, kernel {of_kernel!r}"


@settings(max_examples=EXAMPLES // 4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_the_canonical_text_means_the_same_and_is_its_own_canonical_text(random: Random) -> None:
    bound = bind(random_typed_expression(random), SCHEMA)
    again = bind(bound.text, SCHEMA)
    assert (again.text, repr(again.tree)) == (bound.text, repr(bound.tree))
