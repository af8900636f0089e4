"""Marks the tests from which docs/reference/sql.md is made: `scripts/make_reference.py` reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Test = TypeVar("Test", bound=Callable[..., None])


def statement(form: str) -> Callable[[Test], Test]:
    """The test shows what this form of a statement does; its docstring says so in a sentence."""
    assert form

    def mark(test: Test) -> Test:
        assert test.__doc__, "the docstring goes into the reference"
        return test

    return mark
