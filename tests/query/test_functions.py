"""What is listed is answered: the document, the error and the code have one list of functions."""

from __future__ import annotations

import re

import pytest

from penstock.errors import PenstockError
from penstock.query.binder import NAMES
from penstock.query.plan import compile_query
from tests.query.functions import in_document, listed
from tests.query.questions import QUESTIONS
from tests.query.rows import SCHEMAS


def test_the_document_lists_the_functions_of_the_code() -> None:
    assert in_document() == listed(), "run python -m tests.query.functions"


def test_the_error_for_an_unknown_function_lists_them_too() -> None:
    with pytest.raises(PenstockError) as error:
        compile_query("SELECT nope(1)", SCHEMAS)
    assert error.value.detail == f"there are: {', '.join(NAMES)}"


def test_every_function_that_is_listed_stands_in_a_question() -> None:
    asked = set(re.findall(r"(\w+)\s*\(", " ".join(QUESTIONS).lower())) | {"case"}
    assert set(NAMES) - asked == set()
