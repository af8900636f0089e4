"""Words that mean true or false, and all others."""

from __future__ import annotations

import pytest

from anabranch.booleans import parse_boolean


@pytest.mark.parametrize("text", ["true", "TRUE", "True"])
def test_true(text: str) -> None:
    assert parse_boolean(text) is True


@pytest.mark.parametrize("text", ["false", "FALSE", "fAlse"])
def test_false(text: str) -> None:
    assert parse_boolean(text) is False


@pytest.mark.parametrize("text", ["", " true", "false ", "yes", "1", "0", "t", "on"])
def test_other_texts_are_neither(text: str) -> None:
    assert parse_boolean(text) is None
