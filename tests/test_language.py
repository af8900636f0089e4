"""Names and sentences that everybody knows: counted by words, in whatever inflection or compound they come."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from test_house import MODULES, text_of
from test_layers import tree_of

NAMES = {
    *("found", "given", "known", "handle", "place", "places", "told", "tell", "asked", "asker", "race", "head", "door"),
    *("doubt", "fate", "anew", "each"),
}
"""Words that say what happened to a thing, or that only we would call it by. The thing's own name stands instead."""

TESTS = sorted(path for path in Path(__file__).parent.rglob("*.py") if path != Path(__file__))

NAMES_OF_OTHERS = re.compile(r"\w*NotFoundError|FileNotFoundError|CommitFateUnknownError|foreach\w*|forEach\w*")
"""Errors that users catch, and names that Python and Spark give."""

NAMES_IN_TESTS = re.compile(r"test_\w+|given|places|head|handle_\w+|\w+Handle")
"""What pytest, Hypothesis, `LogStore`, `HTMLParser`, Java and Thrift call their own: a test's name is a sentence."""

PROSE = re.compile(
    r"\b(told|tells?|telling|asks?|asked|asking|stands?|stood|standing|nobody|somebody|whoever|whatever|wherever|anew)\b",
    re.IGNORECASE,
)
FRAGMENT = re.compile(
    r"(Of|For|In|On|At|By|From|To|With|Without|As|Behind|Under|Over|Before|After|Beside|Between|Into|Until|Through"
    r"|Like|About|Against|Among|Out|Per|Within)\b"
)

NAMES_MAX = 150
NAMES_OF_TESTS_MAX = 10
PROSE_MAX = 60
PROSE_OF_TESTS_MAX = 80
FRAGMENTS_MAX = 5


def words_of(name: str) -> set[str]:
    """The words of an identifier, in whichever case it is written."""
    return {word.lower() for word in re.findall(r"[a-z]+|[A-Z][a-z]*", name)}


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Each use of a name in a module: variables, attributes, arguments, functions, classes, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.alias(name=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name


def sentences(path: Path) -> Iterator[str]:
    """Comments and texts of a module: docstrings, messages."""
    for token in tokenize.generate_tokens(io.StringIO(text_of(path)).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def uses_of_names(paths: list[Path]) -> Counter[str]:
    """How often identifiers in these modules have a word of `NAMES`."""
    names = (name for path in paths for name in identifiers(tree_of(path)))
    return Counter(name for name in names if words_of(name) & NAMES and not NAMES_OF_OTHERS.fullmatch(name))


def test_names_say_what_things_are() -> None:
    uses = uses_of_names(MODULES)
    assert uses.total() <= NAMES_MAX, uses.most_common(40)


def test_names_in_tests_say_what_things_are() -> None:
    uses = Counter({name: count for name, count in uses_of_names(TESTS).items() if not NAMES_IN_TESTS.fullmatch(name)})
    assert uses.total() <= NAMES_OF_TESTS_MAX, uses.most_common(40)


@pytest.mark.parametrize(
    ("paths", "most"), [(MODULES, PROSE_MAX), (TESTS, PROSE_OF_TESTS_MAX)], ids=["package", "tests"]
)
def test_texts_are_said_as_an_engineer_would(paths: list[Path], most: int) -> None:
    uses = Counter({path: sum(len(PROSE.findall(text)) for text in sentences(path)) for path in paths})
    assert uses.total() <= most, uses.most_common(20)


def test_docstrings_are_sentences() -> None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = [
        (path.name, ast.get_docstring(node) or "")
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, kinds)
    ]
    fragments = [(module, text.splitlines()[0]) for module, text in docstrings if FRAGMENT.match(text)]
    assert len(fragments) <= FRAGMENTS_MAX, fragments
