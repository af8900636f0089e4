"""The commands and options of `anabranch` that messages and pages name exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import typer.main

from anabranch.cli.main import app

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "anabranch"
COMMAND = re.compile(r"(?:`|^\s*(?:\$ )?)anabranch ([a-z][\w-]*)([^`\n]*)", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+(?![\w-])")
BLOCK = re.compile(r"^```\w*\n.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
OF_OTHERS = {"--packages", "--jars", "--conf", "--day"}
"""Options of `spark-submit`, and of a program in an example."""


def options() -> dict[str, set[str]]:
    """The options of each command, as they are typed."""
    group = typer.main.get_command(app)
    commands = getattr(group, "commands")  # noqa: B009 - click's group, which typer does not name
    return {
        name: {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        | {"--help"}
        for name, command in commands.items()
    }


def messages() -> Iterator[tuple[str, str]]:
    """Texts of the code, each with its file."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path.relative_to(ROOT).as_posix(), node.value


def pages() -> Iterator[tuple[str, str]]:
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for code in BLOCK.findall(path.read_text("utf-8")):
            yield path.relative_to(ROOT).as_posix(), code


def unknown(texts: Iterator[tuple[str, str]]) -> list[str]:
    """Commands that do not exist, and options that the command before them does not have."""
    existing = options()
    unknown_ones = []
    for path, text in texts:
        for match in COMMAND.finditer(text):
            name, rest = match[1], match[2]
            if name not in existing:
                unknown_ones.append(f"{path}: anabranch {name}")
                continue
            # Text after a pipe or a comment belongs to other programs.
            typed = set(OPTION.findall(re.split(r"[|#]", rest)[0]))
            wrong = sorted(typed - existing[name] - OF_OTHERS)
            unknown_ones += [f"{path}: anabranch {name} {option}" for option in wrong]
    return unknown_ones


def test_commands_that_messages_and_pages_name_exist() -> None:
    """Covers bug B95: `anabranch fsck --data` was advised, and is no option."""
    in_messages = ((path, code) for path, text in messages() for code in re.findall(r"`[^`\n]+`", text))
    assert unknown(in_messages) == []
    assert unknown(pages()) == []
    assert unknown(iter([("page", "Run `anabranch fsck --data`.")])) == ["page: anabranch fsck --data"]


def test_options_that_messages_name_exist() -> None:
    """Covers bug B95 for options without a command before them."""
    existing = {option for of_command in options().values() for option in of_command} | OF_OTHERS
    named = {(path, option) for path, text in messages() for option in OPTION.findall(text)}
    assert sorted(f"{path}: {option}" for path, option in named if option not in existing) == []
