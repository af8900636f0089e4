"""A sample of `make fuzz` in each run of the suite, and that it finds what is wrong."""

from __future__ import annotations

import pytest

from fuzz.fuzzing import fuzzed
from fuzz.parsers import Parser, parsers

INPUTS = 150
PARSERS = parsers()


@pytest.mark.parametrize("parser", PARSERS, ids=[parser.name for parser in PARSERS])
def test_random_bytes_are_errors_of_ours(parser: Parser) -> None:
    assert fuzzed(parser, inputs=max(10, int(INPUTS * parser.share)), seed=1).fault is None


def test_an_error_that_is_none_of_the_parsers_is_found_and_shrunk() -> None:
    def parse(data: bytes) -> None:
        if b"\x00" in data:
            raise IndexError("a bug")

    fault = fuzzed(Parser("wrong", parse, [b"some text, long enough to be cut"]), inputs=2000, seed=1).fault
    assert fault is not None
    assert fault.startswith("IndexError: a bug")
    assert fault.endswith(r"input: b'\x00'")
