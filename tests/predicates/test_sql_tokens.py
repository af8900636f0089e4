"""SQL text as tokens."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.predicates.sql_lexer import TokenKind, scan, string_literal, string_value, tokenize
from sql.random_texts import TEXTS


def texts(sql: str) -> list[str]:
    return [token.text for token in tokenize(sql)]


def kinds(sql: str) -> list[TokenKind]:
    return [token.kind for token in tokenize(sql)]


@given(TEXTS)
@example("'a\\'b")
@example("/* /* */")
@example("\0\ud800")
def test_no_character_is_lost(text: str) -> None:
    tokens = list(scan(text))
    assert "".join(token.text for token in tokens) == text
    assert [token.start for token in tokens] == [sum(len(t.text) for t in tokens[:n]) for n in range(len(tokens))]
    assert all(token.text for token in tokens)


@given(TEXTS)
def test_only_the_last_token_can_be_unfinished(text: str) -> None:
    assert TokenKind.UNFINISHED not in kinds(text)[:-1]


@given(st.text(min_size=1))
def test_a_quoted_name_stays_one_name(name: str) -> None:
    """Any name in backticks is one token with just that name."""
    quoted = "`" + name.replace("`", "``") + "`"
    (token,) = tokenize(f" {quoted} /* x */")
    assert token.kind is TokenKind.QUOTED_NAME
    assert token.name == name


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_literal_means_its_text(text: str) -> None:
    """What we write for a value holds no quote, backslash, brace or variable that anybody could take for syntax."""
    written = string_literal(text)
    inside = written.removeprefix("CAST(X").removesuffix(" AS STRING)")
    if written.startswith("CAST"):
        assert bytes.fromhex(inside.strip("'")).decode() == text
        assert inside.strip("'").isalnum()
    else:
        assert string_value(written) == text
        assert not set("'\\\"${}`") & set(written[1:-1])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("'abc'", "abc"),
        ("'it''s'", "it's"),
        ("'a\"\"b'", 'a""b'),
        ('"say ""x"""', 'say "x"'),
        (r"'it\'s'", "it's"),
        (r"'tab\there\nand \\ and \%\_\q'", "tab\there\nand \\ and \\%\\_q"),
        (r"'\u00e9 \101 \U0001F600 \ud83d\ude00'", "é A 😀 😀"),
        (r"r'raw \n'", r"raw \n"),
        (r'R"raw \"', "raw \\"),
        ("$$any 'thing'$$", "any 'thing'"),
        ("$tag$ $$ $tag$", " $$ "),
    ],
)
def test_strings_mean_what_spark_says(written: str, meant: str) -> None:
    (token,) = tokenize(written)
    assert token.kind is TokenKind.STRING
    assert string_value(token.text) == meant


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("a -- b 'c\nd", ["a", "d"]),
        ("a -- carried on \\\n b\nc", ["a", "c"]),
        ("a /* b /* c */ d */ e", ["a", "e"]),
        ("SELECT /*+ BROADCAST(t) */ x", ["SELECT", "x"]),
        ("a/* /*+ no nesting */b", ["a", "b"]),
        ("1.5 .5 1. 1e3 2.5E-3D 1L 7BD 3f", ["1.5", ".5", "1.", "1e3", "2.5E-3D", "1L", "7BD", "3f"]),
        ("t.1a 1abc a_1", ["t", ".", "1a", "1abc", "a_1"]),
        (
            "a<=>b a>>c a||b a|>b a::int v:f",
            ["a", "<=>", "b", "a", ">>", "c", "a", "||", "b", "a", "|>", "b", "a", "::", "int", "v", ":", "f"],
        ),
        ("x=:n AND y=?", ["x", "=", ":", "n", "AND", "y", "=", "?"]),
        ("bar'x'", ["bar", "'x'"]),
        ("größe `a``b`", ["größe", "`a``b`"]),
        ("", []),
    ],
)
def test_tokens(sql: str, expected: list[str]) -> None:
    assert texts(sql) == expected


@pytest.mark.parametrize(
    "text", ["'" + "a" * 200_000, "'" + "\\" * 199_999, "/*" * 100_000, "`" * 199_999, "$" * 50_000]
)
def test_hostile_text_takes_no_time(text: str) -> None:
    begin = time.perf_counter()
    assert "".join(token.text for token in scan(text)) == text
    assert time.perf_counter() - begin < 5
