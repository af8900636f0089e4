"""What keeps the code easy to find one's way in: sizes, names, words, and pages whose files exist."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from pathlib import Path

import pytest

from test_layers import LAYERS, tree_of

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "anabranch"
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
JAVA = sorted(SOURCE.rglob("*.java"))
PAGES = sorted([*PROJECT.glob("*.md"), *(PROJECT / "docs").rglob("*.md")])

MODULES_IN_A_FOLDER = 15
LINES_OF_A_MODULE = 400
LINES_OF_A_FUNCTION = 60
FILES_OF_A_DELETE = 15
FILES_OF_A_MERGE = 18


@functools.cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def functions() -> list[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function of the package, with its module."""
    return [
        (path, node)
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def section(title: str) -> str:
    """A section of the page on architecture."""
    page = text_of(PROJECT / "docs" / "architecture.md")
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def paths_in(text: str) -> set[str]:
    """Modules that a text names with their folders."""
    return set(re.findall(r"`((?:\w+/)+\w+\.py)`", text))


def banned_phrases() -> list[str]:
    page = text_of(PROJECT / "docs" / "glossary.md")
    rows = page.partition("| not | but |")[2].splitlines()[2:]
    return [row.split("|")[1].strip() for row in rows if row.startswith("|")]


def test_no_folder_holds_more_than_a_reader_takes_in() -> None:
    for files in (MODULES, JAVA):
        folders = Counter(path.parent for path in files)
        assert {str(folder): count for folder, count in folders.items() if count > MODULES_IN_A_FOLDER} == {}


def test_a_name_is_enough_to_find_a_module() -> None:
    names = Counter(path.name for path in MODULES)
    assert [name for name, count in names.items() if count > 1] == []


def test_no_module_is_long() -> None:
    lengths = {str(path): len(text_of(path).splitlines()) for path in [*MODULES, *JAVA]}
    assert {path: length for path, length in lengths.items() if length > LINES_OF_A_MODULE} == {}


def test_no_function_is_long() -> None:
    lengths = {f"{path} {node.name}": (node.end_lineno or 0) - node.lineno + 1 for path, node in functions()}
    assert {name: length for name, length in lengths.items() if length > LINES_OF_A_FUNCTION} == {}


def test_the_diagram_shows_the_layers() -> None:
    diagram = section("Layers").split("```")[1].strip().splitlines()
    shown = [{name.strip() for name in line[:42].split("·")} for line in diagram]
    assert shown[::-1] == [layer for layer in LAYERS if layer != {"__main__"}]


def test_files_that_a_page_names_are_there() -> None:
    roots = (SOURCE, PROJECT, PROJECT / "tests", PROJECT / "src")
    missing = [
        f"{page.relative_to(PROJECT)}: {path}"
        for page in PAGES
        for path in sorted(paths_in(text_of(page)))
        if not any((root / path).is_file() for root in roots)
    ]
    assert missing == []


@pytest.mark.parametrize(("title", "count"), [("One DELETE", FILES_OF_A_DELETE), ("One MERGE", FILES_OF_A_MERGE)])
def test_a_change_of_rows_is_followed_in_few_files(title: str, count: int) -> None:
    before_asides = section(title).partition("\nUPDATE (")[0].partition("\nOPTIMIZE rewrites")[0]
    assert 10 <= len(paths_in(before_asides)) <= count


def test_phrases_that_the_glossary_replaces_are_gone() -> None:
    pages = [page for page in PAGES if page.name != "glossary.md"]
    texts = {path: text_of(path) for path in [*MODULES, *JAVA, *pages]}
    uses = []
    for phrase in banned_phrases():
        words = re.compile(r"\s+(?:#\s+)?".join(map(re.escape, phrase.split())), re.IGNORECASE)
        uses += [f"{path.relative_to(PROJECT)}: {phrase}" for path, text in texts.items() if words.search(text)]
    assert uses == []
