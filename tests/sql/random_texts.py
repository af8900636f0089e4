"""Texts that look like SQL, more or less."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = st.sampled_from(
    [
        "'",
        '"',
        "`",
        "\\",
        "--",
        "\n",
        "/*",
        "*/",
        "/*+",
        "$$",
        "$x$",
        " ",
        "a",
        "R'",
        "1.5",
        "1e",
        ";",
        ":",
        "::",
        "é",
        "(",
    ]
)
TEXTS = st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=25).map("".join))
